"""MindIR files on another machine: load_mindir, relocate_mindir and ms-convtanh relocate."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensors import random_tensor

import mindspore as ms
from mindspore import Tensor, nn
from mindspore.train import serialization

import ms_convtanh
from ms_convtanh import ConvTanh, _library

PACKAGE = Path(ms_convtanh.__file__).parent
ELSEWHERE = "/opt/somewhere/else/ms_convtanh/lib/libms_convtanh.so"
KEY = b"0123456789abcdef"


def network() -> nn.Cell:
    ms.set_seed(5)
    return nn.SequentialCell(ConvTanh(3, 4, 3, has_bias=True), ConvTanh(4, 2, 2, 2), nn.ReLU())


@pytest.fixture
def exported(tmp_path: Path) -> tuple[str, Tensor, np.ndarray]:
    """A model whose library lies where there is none; an input and the result."""
    net, x = network(), random_tensor(1, 1, 3, 8, 9)
    path = str(tmp_path / "net.mindir")
    ms.export(net, x, file_name=path, file_format="MINDIR")
    ms_convtanh.relocate_mindir(path, library=ELSEWHERE)
    return path, x, net(x).asnumpy()


def test_loads_without_a_change(mode: str, exported: Any) -> None:
    """Feature: load_mindir. Description: a library path of elsewhere. Expectation: the result; the file stays."""
    path, x, y = exported
    before = Path(path).read_bytes()
    assert ELSEWHERE.encode() in before
    with pytest.raises(RuntimeError, match="couldn't find the AOT binary file"):
        nn.GraphCell(ms.load(path))(x)
    np.testing.assert_array_equal(nn.GraphCell(ms_convtanh.load_mindir(path))(x).asnumpy(), y)
    np.testing.assert_array_equal(nn.GraphCell(ms_convtanh.load_mindir(Path(path)))(x).asnumpy(), y)
    assert Path(path).read_bytes() == before


def test_relocate(mode: str, exported: Any) -> None:
    """Feature: relocate_mindir. Description: in place, then plain mindspore.load. Expectation: the result."""
    path, x, y = exported
    os.chmod(path, 0o640)
    done = ms_convtanh.relocate_mindir(path)
    assert (done.file, done.operators, done.before) == (path, 2, (ELSEWHERE,))
    assert done.library == str(_library.PATH)
    assert ELSEWHERE.encode() not in Path(path).read_bytes()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640
    np.testing.assert_array_equal(nn.GraphCell(ms.load(path))(x).asnumpy(), y)
    assert [file.name for file in Path(path).parent.iterdir() if file.name.startswith(".")] == []


def test_relocate_into_another_file(exported: Any, tmp_path: Path) -> None:
    """Feature: relocate_mindir. Description: output. Expectation: the given file is as it was."""
    path, x, y = exported
    before = Path(path).read_bytes()
    (tmp_path / "sub").mkdir()
    ms_convtanh.relocate_mindir(path, tmp_path / "sub" / "here.mindir")
    assert Path(path).read_bytes() == before
    np.testing.assert_array_equal(nn.GraphCell(ms.load(str(tmp_path / "sub/here.mindir")))(x).asnumpy(), y)


def test_dynamic_shapes(tmp_path: Path) -> None:
    """Feature: load_mindir. Description: exported with unknown sizes. Expectation: results for all sizes."""
    net, path = network(), str(tmp_path / "net.mindir")
    ms.export(net, Tensor(shape=[None, 3, None, None], dtype=ms.float32), file_name=path, file_format="MINDIR")
    ms_convtanh.relocate_mindir(path, library=ELSEWHERE)
    loaded = nn.GraphCell(ms_convtanh.load_mindir(path))
    for seed, shape in enumerate([(1, 3, 8, 8), (2, 3, 13, 6)]):
        x = random_tensor(seed, *shape)
        np.testing.assert_array_equal(loaded(x).asnumpy(), net(x).asnumpy())


def test_gradients_travel(tmp_path: Path) -> None:
    """Feature: load_mindir. Description: an exported gradient. Expectation: the backward operators load too."""

    class Gradient(nn.Cell):
        def __init__(self, net: nn.Cell) -> None:
            super().__init__()
            self.net = net

        def construct(self, x: Tensor) -> Tensor:
            return ms.grad(self.net)(x)

    net, x, path = Gradient(network()), random_tensor(1, 1, 3, 8, 9), str(tmp_path / "net.mindir")
    y = net(x).asnumpy()
    ms.export(net, x, file_name=path, file_format="MINDIR")
    assert ms_convtanh.relocate_mindir(path, library=ELSEWHERE).operators >= 4
    np.testing.assert_allclose(nn.GraphCell(ms_convtanh.load_mindir(path))(x).asnumpy(), y, atol=1e-6)


@pytest.mark.parametrize("encrypt", ["AES-GCM", "AES-CBC", "own"])
def test_encrypted(encrypt: str, tmp_path: Path) -> None:
    """Feature: load_mindir. Description: MindSpore's encryption and one's own. Expectation: the result."""
    net, x, path = network(), random_tensor(1, 1, 3, 8, 9), str(tmp_path / "net.mindir")

    def flipped(content: bytes, key: bytes) -> bytes:
        return bytes(byte ^ key[0] for byte in content)

    mode: Any = flipped if encrypt == "own" else encrypt
    ms.export(net, x, file_name=path, file_format="MINDIR", enc_key=KEY, enc_mode=mode)
    if encrypt == "own":
        mode = lambda file, key: flipped(Path(file).read_bytes(), key)  # noqa: E731
    else:
        with pytest.raises(ValueError, match="is encrypted; load_mindir\\(path, dec_key"):
            ms_convtanh.load_mindir(path)
        with pytest.raises(ValueError, match="is encrypted"):
            ms_convtanh.relocate_mindir(path)
        with pytest.raises(ValueError, match="the key is not the one"):
            ms_convtanh.load_mindir(path, dec_key=KEY[::-1], dec_mode=mode)
    loaded = nn.GraphCell(ms_convtanh.load_mindir(path, dec_key=KEY, dec_mode=mode))
    np.testing.assert_array_equal(loaded(x).asnumpy(), net(x).asnumpy())


def test_weights_in_files_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Feature: large models. Description: MindSpore keeps the weights beside the graph. Expectation: the result."""
    monkeypatch.setattr(serialization, "TOTAL_SAVE", 0)  # the size in KiB above which it does so
    net, x = network(), random_tensor(1, 1, 3, 8, 9)
    ms.export(net, x, file_name=str(tmp_path / "net"), file_format="MINDIR")
    path = tmp_path / "net_graph.mindir"
    assert (tmp_path / "net_variables").is_dir()
    ms_convtanh.relocate_mindir(path, library=ELSEWHERE)
    y = net(x).asnumpy()
    np.testing.assert_array_equal(nn.GraphCell(ms_convtanh.load_mindir(path))(x).asnumpy(), y)
    assert not list(tmp_path.glob(".*"))
    (tmp_path / "sub").mkdir()
    with pytest.raises(ValueError, match="output must be in the folder of"):
        ms_convtanh.relocate_mindir(path, tmp_path / "sub" / "net.mindir")
    ms_convtanh.relocate_mindir(path)
    np.testing.assert_array_equal(nn.GraphCell(ms.load(str(path)))(x).asnumpy(), y)
    ms.export(net, x, file_name=str(tmp_path / "secret"), file_format="MINDIR", enc_key=KEY, enc_mode="AES-GCM")
    with pytest.raises(ValueError, match="an encrypted model must be one file"):
        ms_convtanh.load_mindir(tmp_path / "secret_graph.mindir", dec_key=KEY)


def test_model_without_the_operator(tmp_path: Path) -> None:
    """Feature: load_mindir. Description: stock operators only. Expectation: as mindspore.load; nothing to relocate."""
    net, x, path = (
        nn.SequentialCell(nn.Conv2d(3, 4, 3), nn.Tanh()),
        random_tensor(1, 1, 3, 8, 9),
        str(tmp_path / "net.mindir"),
    )
    ms.export(net, x, file_name=path, file_format="MINDIR")
    before = Path(path).read_bytes()
    assert ms_convtanh.relocate_mindir(path).operators == 0
    assert Path(path).read_bytes() == before
    y = net(x).asnumpy()
    np.testing.assert_allclose(nn.GraphCell(ms_convtanh.load_mindir(path))(x).asnumpy(), y, atol=5e-4)


EXPORT = """
import numpy as np, sys
import mindspore as ms
from mindspore import Tensor, nn
from ms_convtanh import ConvTanh
net = nn.SequentialCell(ConvTanh(3, 4, 3, has_bias=True, weight_init="ones", bias_init="zeros"))
x = Tensor(np.linspace(-0.2, 0.2, 3 * 6 * 6, dtype=np.float32).reshape(1, 3, 6, 6))
ms.export(net, x, file_name=sys.argv[1], file_format="MINDIR")
np.save(sys.argv[2], net(x).asnumpy())
"""
LOAD = """
import numpy as np, sys
import mindspore as ms
from mindspore import Tensor, nn
import ms_convtanh
assert ms_convtanh.__file__.startswith(sys.argv[3])
load = ms_convtanh.load_mindir if sys.argv[4] == "ours" else ms.load
x = Tensor(np.linspace(-0.2, 0.2, 3 * 6 * 6, dtype=np.float32).reshape(1, 3, 6, 6))
np.testing.assert_array_equal(nn.GraphCell(load(sys.argv[1]))(x).asnumpy(), np.load(sys.argv[2]))
print("equal")
"""


def run(program: str, site: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True)


def test_package_that_moved(tmp_path: Path) -> None:
    """Feature: travel. Description: exported with the package at one path, loaded with it at another one, in processes
    of their own. Expectation: load_mindir loads at once, mindspore.load after `ms-convtanh relocate`.
    """
    model, golden, here, there = (tmp_path / name for name in ("net.mindir", "y.npy", "here", "there"))
    shutil.copytree(PACKAGE, here / "ms_convtanh", ignore=shutil.ignore_patterns("__pycache__"))
    result = run(EXPORT, here, model, golden)
    assert result.returncode == 0, result.stderr
    assert f"{here}/ms_convtanh/lib/libms_convtanh.so".encode() in model.read_bytes()
    here.rename(there)
    result = run(LOAD, there, model, golden, there, "stock")
    assert "couldn't find the AOT binary file" in result.stderr
    result = run(LOAD, there, model, golden, there, "ours")
    assert result.stdout == "equal\n", result.stderr
    result = run("from ms_convtanh.cli import main; main()", there, "relocate", model, "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {
        "file": str(model),
        "operators": 1,
        "before": [f"{here}/ms_convtanh/lib/libms_convtanh.so"],
        "library": f"{there}/ms_convtanh/lib/libms_convtanh.so",
    }
    result = run(LOAD, there, model, golden, there, "stock")
    assert result.stdout == "equal\n", result.stderr


@pytest.mark.parametrize("function", ["load_mindir", "relocate_mindir"])
def test_bad_files(function: str, tmp_path: Path) -> None:
    """Feature: errors. Description: no file, another suffix, no MindIR. Expectation: ValueError that says which."""
    call = getattr(ms_convtanh, function)
    (tmp_path / "net.ckpt").write_bytes(b"")
    for name in ("none.mindir", "net.ckpt"):
        with pytest.raises(ValueError, match=f"{function}: file_name must be the path of a .mindir file, got .*{name}"):
            call(tmp_path / name)
    for content in (b"", b"no protocol buffer", bytes(200)):
        (tmp_path / "net.mindir").write_bytes(content)
        with pytest.raises(ValueError, match=f"{function}: .*net.mindir is not a MindIR file"):
            call(tmp_path / "net.mindir")
        assert (tmp_path / "net.mindir").read_bytes() == content


@pytest.mark.parametrize("library", ["lib/libms_convtanh.so", "/lib/libother.so", "/a:b/libms_convtanh.so", ""])
def test_bad_library(library: str, exported: Any) -> None:
    """Feature: errors. Description: no path that MindSpore could load. Expectation: ValueError; the file stays."""
    before = Path(exported[0]).read_bytes()
    with pytest.raises(ValueError, match="library must be an absolute path of libms_convtanh.so without a colon"):
        ms_convtanh.relocate_mindir(exported[0], library=library)
    assert Path(exported[0]).read_bytes() == before


def test_white_list(exported: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Feature: errors. Description: MindSpore's white list forbids the library. Expectation: said before it is read."""
    monkeypatch.setenv("MS_CUSTOM_AOT_WHITE_LIST", "/somewhere")
    with pytest.raises(RuntimeError, match="load_mindir: MS_CUSTOM_AOT_WHITE_LIST must be a folder that holds"):
        ms_convtanh.load_mindir(exported[0])


def test_device_target(exported: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Feature: errors. Description: a file for CPUs, another device target. Expectation: refused with both."""
    path, _, _ = exported
    monkeypatch.setattr(ms.context, "get_context", lambda name: "Ascend")
    with pytest.raises(RuntimeError, match=f"the device target must be CPU, which {path} was exported for, got Ascend"):
        ms_convtanh.load_mindir(path)
