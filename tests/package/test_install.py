"""pip with the wheel: one for every supported Python; installing, upgrading and uninstalling leave nothing behind."""

import csv
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest
from installation import PIP, ROOT, Installed, run

NUMPY_EXAMPLE = """
import numpy as np
from ms_convtanh import native
x = np.linspace(-1, 1, 1 * 2 * 4 * 4, dtype=np.float32).reshape(1, 2, 4, 4)
y = native.fused_conv_tanh(x, np.full((1, 2, 3, 3), 0.25, np.float32), pads=[1, 1, 1, 1])
assert abs(y[0, 0, 1, 1] - np.tanh(0.25 * x[0, :, :3, :3].astype(np.float64).sum())) < 1e-6
print(native.__file__)
"""

LIBRARY_VERSION = """
import ctypes, importlib.util, pathlib
package = pathlib.Path(importlib.util.find_spec("ms_convtanh").origin).parent
version = ctypes.CDLL(str(package / "lib/libms_convtanh.so")).msctGetVersion
version.restype = ctypes.c_char_p
print(version().decode())
"""


class Environment:
    """A virtual environment without pip of its own: the tests' pip works in it."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        run(python, "-m", "venv", "--without-pip", folder)
        self.folder = folder
        self.home = folder.with_name("home")
        self.home.mkdir()
        self.site = Path(self.python("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())

    def variables(self, **extra: str) -> dict[str, str]:
        return {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "HOME": str(self.home), **extra}

    def python(self, *arguments: object, **extra: str) -> str:
        return run(self.folder / "bin/python", *arguments, env=self.variables(**extra), cwd=self.home)

    def pip(self, command: str, *arguments: object) -> None:
        run(*PIP, "--python", self.folder / "bin/python", command, *arguments)

    def install(self, *arguments: object) -> None:
        self.pip("install", "--no-index", "--no-deps", *arguments)

    def files(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}

    def recorded(self) -> set[str]:
        """What pip holds to be the package's files."""
        (record,) = self.site.glob("ms_convtanh-*.dist-info/RECORD")
        with record.open() as file:
            paths = [os.path.normpath(self.site / row[0]) for row in csv.reader(file)]
        return {os.path.relpath(path, self.folder) for path in paths}


def earlier_version(installed: Installed, folder: Path) -> Path:
    """The wheel as version 0.0.1, with modules and a library that the present one lacks."""
    wheel = (sys.executable, "-m", "wheel")
    run(*wheel, "unpack", "--dest", folder, installed.wheel)
    (tree,) = folder.glob("ms_convtanh-*")
    (info,) = tree.glob("*.dist-info")
    metadata = info / "METADATA"
    text, count = re.subn("^Version: .*", "Version: 0.0.1", metadata.read_text(), count=1, flags=re.MULTILINE)
    assert count == 1
    metadata.write_text(text)
    info.rename(tree / "ms_convtanh-0.0.1.dist-info")
    (tree / "ms_convtanh/former.py").write_text("former = True\n")
    (tree / "ms_convtanh/former_package").mkdir()
    (tree / "ms_convtanh/former_package/__init__.py").touch()
    shutil.copy(tree / "ms_convtanh/lib/libms_convtanh.so", tree / "ms_convtanh/lib/libformer.so")
    run(*wheel, "pack", "--dest-dir", folder, tree)
    (earlier,) = folder.glob("ms_convtanh-0.0.1-*.whl")
    return earlier


def test_install_upgrade_uninstall_leave_nothing_behind(installed: Installed, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    before = environment.files()
    with_dependencies = {"PYTHONPATH": sysconfig.get_path("purelib")}

    environment.install(earlier_version(installed, tmp_path))
    assert environment.python("-c", "from ms_convtanh import former; print(former.former)", **with_dependencies)
    site = environment.site.relative_to(environment.folder)
    assert f"{site}/ms_convtanh/lib/libformer.so" in environment.files()

    environment.install("--upgrade", installed.wheel)
    after = environment.files()
    assert not any("former" in name or "0.0.1" in name for name in after)
    assert {name for name in after - before if not (environment.folder / name).is_dir()} == environment.recorded()

    environment.install(installed.wheel)
    environment.install("--force-reinstall", installed.wheel)
    assert environment.files() == after

    # Use writes nothing into the environment or the home folder.
    module = environment.python("-c", NUMPY_EXAMPLE, **with_dependencies).strip()
    assert module == str(environment.site / "ms_convtanh/native.py")
    environment.python("-m", "ms_convtanh", "info", **with_dependencies)
    assert environment.files() == after
    assert not list(environment.home.iterdir())

    environment.pip("uninstall", "--yes", "ms_convtanh")
    assert environment.files() == before


def find_python(version: str) -> str | None:
    """A Python of this version: the one that runs, one on PATH, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = [sys.executable, shutil.which(f"python{version}"), *pyenv.glob(f"versions/{version}*/bin/python3")]
    program = "import ctypes, sys, venv; print('%d.%d' % sys.version_info[:2])"
    for python in map(str, filter(None, found)):
        result = subprocess.run([python, "-c", program], capture_output=True, text=True)
        if result.stdout.strip() == version:
            return python
    return None


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12"])
def test_the_wheel_serves_every_python(installed: Installed, tmp_path: Path, version: str) -> None:
    python = find_python(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    environment = Environment(tmp_path / "environment", python)
    environment.install(installed.wheel)
    assert environment.python("-c", LIBRARY_VERSION).strip() == installed.command("config", "--version")
    try:
        environment.pip("install", "--no-compile", "--only-binary", ":all:", "ms_convtanh")  # its dependencies
    except AssertionError as error:
        if "No matching distribution" not in str(error):
            raise
        pytest.skip(f"Python {version}: the wheel installs; its dependencies cannot be had here")
    assert environment.python("-c", NUMPY_EXAMPLE).strip() == str(environment.site / "ms_convtanh/native.py")
    assert "portable" in run(environment.folder / "bin/ms-convtanh", "info", env=environment.variables())


def test_other_pythons_are_refused(installed: Installed, tmp_path: Path) -> None:
    """Their pip says so; the library itself would work."""
    download = ("download", "--no-index", "--no-deps", "--only-binary", ":all:", "--dest", tmp_path)
    for version, accepted in (("3.9", False), ("3.12", True), ("3.13", False)):
        command = [str(word) for word in (*PIP, *download, "--python-version", version, installed.wheel)]
        result = subprocess.run(command, capture_output=True, text=True)
        assert (result.returncode == 0) == accepted
        assert accepted or "requires a different Python" in result.stderr


def test_the_source_archive_is_complete(installed: Installed) -> None:
    """Holds all that git knows, but for settings of git, CI and editors; nothing built."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    tracked = {name for name in run("git", "-C", ROOT, "ls-files").splitlines() if not name.startswith(".")}
    with tarfile.open(installed.archive) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert len(tracked) > 100
    assert tracked <= held
    assert not any(re.match(r"build/|ms_convtanh/(lib|include|share)/|.*\.(so|o|pyc)$", name) for name in held)
