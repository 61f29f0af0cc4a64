"""ConvTanh in MindSpore's runtime: dynamic shapes, MindIR, threads, the environment."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import run
from tensors import MS_DTYPES, array, random_tensor

import mindspore as ms
from mindspore import Tensor, nn

import ms_convtanh
from ms_convtanh import ConvTanh, fused_conv_tanh

SHAPES = [(1, 3, 8, 8), (4, 3, 256, 256), (1, 3, 8, 8), (2, 3, 63, 65)]


def chain(dtype: Any = ms.float32) -> nn.Cell:
    """Two cells that depend on the size of x in different ways; the same weights each time."""
    ms.set_seed(5)
    return nn.SequentialCell(
        ConvTanh(3, 8, 3, stride=2, has_bias=True, dtype=dtype),
        ConvTanh(8, 5, (4, 3), pad_mode="pad", padding=(1, 2, 0, 1), dilation=(1, 2), dtype=dtype),
    )


def dynamic(network: nn.Cell, shape: Sequence[int | None] | None, dtype: Any = ms.float32) -> nn.Cell:
    network.set_inputs(Tensor(shape=shape, dtype=dtype))
    return network


@pytest.mark.parametrize("dtype", MS_DTYPES)
def test_dynamic_shapes(mode: str, fusion: str, dtype: str) -> None:
    """Feature: dynamic shapes. Description: small, large, small. Expectation: the bits of fresh static cells."""
    network = dynamic(chain(MS_DTYPES[dtype]), [None, 3, None, None], MS_DTYPES[dtype])
    for shape in SHAPES:
        x = random_tensor(1, *shape).astype(MS_DTYPES[dtype])
        y, expected = network(x), chain(MS_DTYPES[dtype])(x)
        assert y.shape == expected.shape
        np.testing.assert_array_equal(array(y), array(expected))


def test_scratch_does_not_touch_other_tensors(mode: str) -> None:
    """Feature: dynamic shapes. Description: tensors made around a call that needs more scratch than the first one did.

    Expectation: their values stay.
    """
    network = dynamic(chain(), [None, 3, None, None])
    with ms_convtanh.options(fusion="half"):
        network(random_tensor(1, 1, 3, 8, 8)).asnumpy()
        bystanders = [random_tensor(i, 1, 3, 64, 64) + 0 for i in range(20)]
        expected = [bystander.asnumpy().copy() for bystander in bystanders]
        network(random_tensor(1, 4, 3, 256, 256)).asnumpy()
        for bystander, values in zip(bystanders, expected, strict=True):
            np.testing.assert_array_equal(bystander.asnumpy(), values)


def test_dynamic_rank(mode: str) -> None:
    """Feature: dynamic shapes. Description: a rank unknown until the call. Expectation: as a static cell."""
    cell = dynamic(ConvTanh(3, 4, 3), None)
    for shape in ((1, 3, 8, 8), (2, 3, 5, 9)):
        x = random_tensor(1, *shape)
        static = ConvTanh(3, 4, 3, weight_init=Tensor(cell.weight.asnumpy()))
        np.testing.assert_array_equal(cell(x).asnumpy(), static(x).asnumpy())


def test_dynamic_filter(pynative: None) -> None:
    """Feature: dynamic shapes. Description: fused_conv_tanh in a compiled cell. Expectation: as eager calls."""
    ms.set_context(mode=ms.GRAPH_MODE)

    class Network(nn.Cell):
        def construct(self, x: Tensor, w: Tensor) -> Tensor:
            return fused_conv_tanh(x, w, strides=[1, 2], pads=[1, 1])

    network = Network()
    network.set_inputs(Tensor(shape=[None] * 4, dtype=ms.float32), Tensor(shape=[None] * 4, dtype=ms.float32))
    for x_shape, w_shape in (((1, 2, 5, 6), (3, 2, 3, 3)), ((2, 4, 9, 9), (1, 4, 1, 2))):
        x, w = random_tensor(1, *x_shape), random_tensor(2, *w_shape)
        y = network(x, w).asnumpy()
        expected = ms_convtanh.native.fused_conv_tanh(x.asnumpy(), w.asnumpy(), strides=[1, 2], pads=[1, 1])
        np.testing.assert_array_equal(y, expected)
    ms.set_context(mode=ms.PYNATIVE_MODE)


def test_error_at_run_time(pynative: None) -> None:
    """Feature: dynamic shapes. Description: a shape that cannot be checked early. Expectation: our message."""
    ms.set_context(mode=ms.GRAPH_MODE)
    cell = dynamic(ConvTanh(3, 4, 5, pad_mode="valid"), [None, None, None, None])
    assert cell(random_tensor(1, 1, 3, 8, 8)).shape == (1, 4, 4, 4)
    with pytest.raises(RuntimeError, match=r"aclnnFusedConvTanh: dilated kernel along height must fit .* of 4, got 5"):
        cell(random_tensor(1, 1, 3, 4, 8)).asnumpy()
    assert ConvTanh(3, 4, 3)(random_tensor(1, 1, 3, 8, 8)).shape == (1, 4, 8, 8)  # others go on
    ms.set_context(mode=ms.PYNATIVE_MODE)


def test_wrong_environment_value(mode: str) -> None:
    """Feature: errors. Description: an unknown MS_CONVTANH_FUSION. Expectation: an error that names it."""
    program = """
import mindspore as ms, numpy as np, sys
from ms_convtanh import ConvTanh
ms.set_context(mode=int(sys.argv[1]))
try:
    ConvTanh(1, 1, 1)(ms.Tensor(np.ones((1, 1, 2, 2), np.float32))).asnumpy()
except ValueError as error:
    print(error)
"""
    output = run(program, ms.get_context("mode"), MS_CONVTANH_FUSION="bogus")
    assert "MS_CONVTANH_FUSION" in output
    assert "bogus" in output


RELOAD = """
import sys
import mindspore as ms, numpy as np
from mindspore import nn
graph = nn.GraphCell(ms.load(sys.argv[1]))
for name in sys.argv[2:]:
    np.save(name + ".y.npy", graph(ms.Tensor(np.load(name + ".npy"))).asnumpy())
assert "ms_convtanh" not in sys.modules
"""


@pytest.mark.parametrize("shapes", [SHAPES[:1], SHAPES], ids=["static", "dynamic"])
def test_mindir(mode: str, shapes: list[tuple[int, ...]]) -> None:
    """Feature: MindIR. Description: reload here and in a process without the package. Expectation: same bits."""
    network = chain()
    example = random_tensor(1, *shapes[0])
    if len(shapes) > 1:
        example = Tensor(shape=[None, 3, None, None], dtype=ms.float32)
        dynamic(network, [None, 3, None, None])
    ms.export(network, example, file_name="network", file_format="MINDIR")
    reloaded = nn.GraphCell(ms.load("network.mindir"))
    expected = []
    for i, shape in enumerate(shapes):
        x = random_tensor(i, *shape)
        expected.append(chain()(x).asnumpy())
        np.testing.assert_array_equal(reloaded(x).asnumpy(), expected[i])
        np.save(f"x{i}.npy", x.asnumpy())
    run(RELOAD, "network.mindir", *(f"x{i}" for i in range(len(shapes))))
    for i, y in enumerate(expected):
        np.testing.assert_array_equal(np.load(f"x{i}.y.npy"), y)


def call_from_threads(calls: list[Callable[[Tensor], Tensor]], lock: Any) -> None:
    """Each of four threads runs the calls on changing sizes; all results must be those of one thread."""
    inputs = [random_tensor(i, 1 + i, 3, 9 + 20 * i, 16) for i in range(3)]
    expected = [[call(x).asnumpy() for x in inputs] for call in calls]
    wrong: list[Any] = []

    def work(first: int) -> None:
        try:
            for i in range(30):
                k, j = (first + i) % len(calls), i % len(inputs)
                with lock:
                    y = calls[k](inputs[j]).asnumpy()
                if not np.array_equal(y, expected[k][j]):
                    wrong.append((first, i))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


class NoLock:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize("shared", [True, False], ids=["one_cell", "own_cells"])
def test_threads_pynative(pynative: None, fusion: str, shared: bool) -> None:
    """Feature: threads. Description: PyNative calls at the same time. Expectation: the results of one thread."""
    call_from_threads([chain()] * 4 if shared else [chain() for _ in range(4)], NoLock())


@pytest.mark.parametrize("jit", [True, False], ids=["jit", "graph"])
def test_threads_compiled(pynative: None, jit: bool) -> None:
    """Feature: threads. Description: compiled graphs, one call at a time. Expectation: the results of one thread.

    Without the lock MindSpore itself fails or stops for ever, with nn.Conv2d as well.
    """
    if not jit:
        ms.set_context(mode=ms.GRAPH_MODE)
    networks = [chain() for _ in range(4)]
    call_from_threads([ms.jit(network) for network in networks] if jit else networks, threading.Lock())
    ms.set_context(mode=ms.PYNATIVE_MODE)


WHITE_LIST = """
import mindspore as ms, numpy as np, sys
from ms_convtanh import ConvTanh
ms.set_context(mode=int(sys.argv[1]))
try:
    print(ConvTanh(1, 1, 1)(ms.Tensor(np.ones((1, 1, 2, 3), np.float32))).asnumpy().shape)
except RuntimeError as error:
    print(error)
"""


def test_white_list(mode: str, tmp_path: Path) -> None:
    """Feature: MS_CUSTOM_AOT_WHITE_LIST. Description: with, without our folder. Expectation: runs; says what to do."""
    folder = Path(ms_convtanh.features().library).parent
    number = ms.get_context("mode")
    assert run(WHITE_LIST, number, MS_CUSTOM_AOT_WHITE_LIST=str(folder)).strip() == "(1, 1, 2, 3)"
    assert run(WHITE_LIST, number, MS_CUSTOM_AOT_WHITE_LIST=str(folder.parent)).strip() == "(1, 1, 2, 3)"
    refused = run(WHITE_LIST, number, MS_CUSTOM_AOT_WHITE_LIST=str(tmp_path))
    assert f"fused_conv_tanh: MS_CUSTOM_AOT_WHITE_LIST must be a folder that holds {folder}" in refused
    assert str(tmp_path) in refused
