"""Importing the package, and where it lies."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ms_convtanh

PACKAGE = Path(ms_convtanh.__file__).resolve().parent


def run(program: str, *arguments: object, **options: object) -> str:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


def test_import_is_silent_and_light() -> None:
    """Importing prints nothing and loads neither MindSpore nor the library; the NumPy view never loads MindSpore."""
    program = """
import sys, threading
import ms_convtanh
assert "mindspore" not in sys.modules and "numpy" not in sys.modules
assert "libms_convtanh" not in open("/proc/self/maps").read()
assert threading.active_count() == 1
import numpy as np
ms_convtanh.native.fused_conv_tanh(np.ones((1, 1, 2, 2), np.float32), np.ones((1, 1, 1, 1), np.float32))
ms_convtanh.features(), ms_convtanh.explain((1, 1, 2, 2), (1, 1, 1, 1))
assert "mindspore" not in sys.modules
"""
    assert run(program) == ""


def test_names() -> None:
    """dir() and __all__ agree with what there is."""
    assert set(ms_convtanh.__all__) <= set(dir(ms_convtanh))
    assert all(hasattr(ms_convtanh, name) for name in ms_convtanh.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = ms_convtanh.no_such_name
    assert (PACKAGE / "py.typed").is_file()


COMPUTE = """
import os, sys
sys.path.insert(0, sys.argv[1])
import ms_convtanh
os.chdir("/")
import numpy as np
assert ms_convtanh.__file__.startswith(sys.argv[2]), ms_convtanh.__file__
x, w = np.ones((1, 1, 4, 4), np.float32), np.ones((1, 1, 3, 3), np.float32)
expected = np.full((1, 1, 2, 2), np.tanh(9.0), np.float32)
assert np.allclose(ms_convtanh.native.fused_conv_tanh(x, w), expected, rtol=1e-6)
import mindspore as ms
for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
    ms.set_context(mode=mode)
    cell = ms_convtanh.ConvTanh(1, 1, 3, pad_mode="valid", weight_init="ones")
    assert np.allclose(cell(ms.Tensor(x)).asnumpy(), expected, rtol=1e-6)
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package in a folder whose name has spaces."""
    folder = tmp_path / "a folder with spaces"
    shutil.copytree(PACKAGE, folder / "ms_convtanh", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_path_with_spaces(copy: Path, tmp_path: Path) -> None:
    """Spaces in the path, a relative import path and a later change of the working directory do no harm."""
    run(COMPUTE, copy.name, copy, cwd=tmp_path)


def test_missing_library(copy: Path) -> None:
    """A package without its library says so at the first use, not at import."""
    (copy / "ms_convtanh/lib/libms_convtanh.so").unlink()
    program = """
import sys
sys.path.insert(0, sys.argv[1])
import ms_convtanh
try:
    ms_convtanh.features()
except OSError as error:
    print(error)
"""
    output = run(program, copy)
    assert "cannot load the native library" in output
    assert str(copy) in output


def test_version_is_pyprojects() -> None:
    """One version for package and library."""
    project = PACKAGE.parent / "pyproject.toml"
    if not project.is_file():
        pytest.skip("not run from a checkout")
    assert f'\nversion = "{ms_convtanh.__version__}"\n' in project.read_text()
