"""ConvTanh beside nn.Conv2d: construction, parameters, checkpoints, padding rules, copies, precision."""

import copy
import inspect
import re
from typing import Any

import numpy as np
import pytest
import reference
from reference import DTYPES, random_problem
from tensors import MS_DTYPES, array, random_tensor, tensor

import mindspore as ms
from mindspore import Parameter, Tensor, nn

from ms_convtanh import ConvTanh, native

CONSTRUCTIONS = {
    "defaults": ((3, 8, 3), {}),
    "bias": ((3, 8, (3, 5)), {"has_bias": True}),
    "groups": ((6, 12, 3), {"group": 3, "has_bias": True}),
    "depthwise": ((6, 6, 3), {"group": 6, "stride": (2, 1)}),
    "pad": ((3, 4, 5), {"pad_mode": "pad", "padding": (1, 2, 3, 4), "dilation": (2, 1)}),
    "pad_int": ((3, 4, 5), {"pad_mode": "pad", "padding": 2}),
    "valid": ((3, 4, 2), {"pad_mode": "valid", "dilation": 2}),
    "named_init": ((3, 4, 3), {"weight_init": "xavier_uniform", "bias_init": "ones", "has_bias": True}),
    "number_init": ((3, 4, 3), {"weight_init": 0.25, "bias_init": 1, "has_bias": True}),
    "tensor_init": ((1, 1, 2), {"weight_init": Tensor(np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2))}),
    "float16": ((3, 8, 3), {"dtype": ms.float16, "has_bias": True}),
    "bfloat16": ((3, 8, 3), {"dtype": ms.bfloat16, "has_bias": True}),
}
BAD_CONSTRUCTIONS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "in_channels_type": (("3", 8, 3), {}),
    "in_channels_float": ((3.0, 8, 3), {}),
    "in_channels_zero": ((0, 8, 3), {}),
    "out_channels_negative": ((3, -8, 3), {}),
    "kernel_zero": ((3, 8, 0), {}),
    "kernel_type": ((3, 8, 1.5), {}),
    "kernel_length": ((3, 8, (1, 2, 3)), {}),
    "stride_zero": ((3, 8, 3), {"stride": 0}),
    "stride_type": ((3, 8, 3), {"stride": "1"}),
    "pad_mode": ((3, 8, 3), {"pad_mode": "reflect"}),
    "padding_negative": ((3, 8, 3), {"pad_mode": "pad", "padding": -1}),
    "padding_length": ((3, 8, 3), {"pad_mode": "pad", "padding": (1, 1)}),
    "padding_type": ((3, 8, 3), {"pad_mode": "pad", "padding": 1.5}),
    "padding_with_same": ((3, 8, 3), {"padding": 1}),
    "padding_with_valid": ((3, 8, 3), {"pad_mode": "valid", "padding": 1}),
    "dilation_zero": ((3, 8, 3), {"dilation": 0}),
    "dilation_type": ((3, 8, 3), {"dilation": 1.5}),
    "group_zero": ((3, 8, 3), {"group": 0}),
    "group_type": ((3, 8, 3), {"group": 1.0}),
    "group_in": ((3, 8, 3), {"group": 2}),
    "group_out": ((4, 6, 3), {"group": 4}),
    "has_bias_type": ((3, 8, 3), {"has_bias": 1}),
    "weight_init": ((3, 8, 3), {"weight_init": "no_such_distribution"}),
    "data_format": ((3, 8, 3), {"data_format": "NWHC"}),
    "data_format_nhwc": ((3, 8, 3), {"data_format": "NHWC"}),
    "unknown": ((3, 8, 3), {"padding_mode": "zeros"}),
    "missing": ((3, 8), {}),
}


def made(kind: Any, seed: int, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
    ms.set_seed(seed)
    return kind(*positional, **named)


def outcome(kind: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The type of what construction raises; None if it does not."""
    try:
        kind(*positional, **named)
    except Exception as error:
        return type(error)
    return None


def test_signature() -> None:
    """Feature: interface. Description: names, order, defaults. Expectation: those of nn.Conv2d."""
    ours, stock = (inspect.signature(kind.__init__).parameters for kind in (ConvTanh, nn.Conv2d))
    assert [(p.name, p.default) for p in ours.values()] == [(p.name, p.default) for p in stock.values()]
    assert issubclass(ConvTanh, nn.Conv2d)


@pytest.mark.parametrize(("positional", "named"), CONSTRUCTIONS.values(), ids=CONSTRUCTIONS)
def test_parameters(positional: Any, named: Any) -> None:
    """Feature: parameters. Description: equal seeds. Expectation: nn.Conv2d's names, shapes, dtypes and values."""
    ours, stock = made(ConvTanh, 7, positional, named), made(nn.Conv2d, 7, positional, named)
    assert list(ours.parameters_dict()) == list(stock.parameters_dict())
    for mine, theirs in zip(ours.get_parameters(), stock.get_parameters(), strict=True):
        assert (mine.name, mine.shape, mine.dtype) == (theirs.name, theirs.shape, theirs.dtype)
        assert mine.requires_grad == theirs.requires_grad
        np.testing.assert_array_equal(array(mine), array(theirs))
    without_addresses = [re.sub(r" object at 0x\w+", "", repr(cell)) for cell in (ours, stock)]
    assert without_addresses[0] == without_addresses[1].replace("Conv2d", "ConvTanh", 1)


@pytest.mark.parametrize(("positional", "named"), BAD_CONSTRUCTIONS.values(), ids=BAD_CONSTRUCTIONS)
def test_bad_constructions(positional: Any, named: Any) -> None:
    """Feature: checks. Description: wrong constructor arguments. Expectation: nn.Conv2d's exception type."""
    expected = outcome(nn.Conv2d, positional, named)
    assert expected is not None
    assert outcome(ConvTanh, positional, named) is expected


@pytest.mark.parametrize("bias", [False, True], ids=["no_bias", "bias"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_results(mode: str, dtype: str, bias: bool, rng: np.random.Generator) -> None:
    """Feature: results. Description: dtypes and bias. Expectation: float64 within the precision standard."""
    x, conv_filter, b = random_problem(rng, (2, 6, 15, 14), (8, 3, 3, 3), dtype, bias)
    cell = ConvTanh(6, 8, 3, 1, "pad", (1, 1, 2, 0), 2, 2, bias, dtype=MS_DTYPES[dtype])
    cell.weight.set_data(tensor(conv_filter))
    if bias:
        cell.bias.set_data(tensor(b))
    y = cell(tensor(x))
    assert y.dtype == MS_DTYPES[dtype]
    golden = reference.conv_tanh(x, conv_filter, b, pads=(1, 1, 2, 0), dilations=(2, 2), groups=2)
    reference.assert_close(array(y), golden, dtype)


SIZES = [(7, 8), (5, 5), (9, 4), (1, 6)]
KERNELS = [1, 2, 3, 4, (2, 5)]
STRIDES = [1, 2, 3, (1, 4)]
DILATIONS = [1, 2, (3, 1)]


def compare_with_stock(size: tuple[int, int], **named: Any) -> bool:
    """Whether stock and ours both computed, and then the same; both may refuse."""
    stock = made(nn.Conv2d, 3, (2, 3), named)
    ours = made(ConvTanh, 3, (2, 3), named)
    x = random_tensor(5, 1, 2, *size)
    try:
        convolved = stock(x).asnumpy()
    except (ValueError, RuntimeError):
        convolved = np.empty(0)
    if convolved.size == 0:  # no room for the kernel: stock fails or gives an empty tensor
        with pytest.raises(ValueError, match="dilated kernel along"):
            ours(x)
        return False
    y = ours(x)
    assert y.shape == convolved.shape, named
    np.testing.assert_allclose(y.asnumpy(), np.tanh(convolved.astype(np.float64)), atol=2e-6, err_msg=str(named))
    return True


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("pad_mode", ["same", "valid"])
def test_pad_modes(pynative: None, pad_mode: str, kernel: Any, size: tuple[int, int]) -> None:
    """Feature: pad_mode. Description: even kernels, strides above the kernel, dilation. Expectation: as nn.Conv2d."""
    computed = [
        compare_with_stock(size, kernel_size=kernel, stride=stride, pad_mode=pad_mode, dilation=dilation)
        for stride in STRIDES
        for dilation in DILATIONS
    ]
    assert all(computed) if pad_mode == "same" else any(computed) or min(size) < 2 * np.max(kernel)


@pytest.mark.parametrize("padding", [0, 1, 3, (0, 1, 2, 3), (4, 0, 0, 1)], ids=str)
def test_explicit_padding(pynative: None, padding: Any) -> None:
    """Feature: pad_mode="pad". Description: int and 4-tuple. Expectation: as nn.Conv2d."""
    for kernel, stride, dilation in [(3, 1, 1), (2, 3, 1), ((4, 1), (1, 2), (1, 3)), (3, 2, 2)]:
        named = {"kernel_size": kernel, "stride": stride, "dilation": dilation}
        assert compare_with_stock((6, 7), pad_mode="pad", padding=padding, has_bias=True, **named)


@pytest.mark.parametrize("pad_mode", ["same", "valid", "pad"])
def test_pad_modes_in_graphs(mode: str, pad_mode: str) -> None:
    """Feature: pad_mode. Description: both modes. Expectation: as nn.Conv2d."""
    padding = (0, 1, 2, 3) if pad_mode == "pad" else 0
    assert compare_with_stock((7, 8), kernel_size=(2, 3), stride=2, pad_mode=pad_mode, padding=padding, dilation=2)


def test_kernel_larger_than_input(mode: str) -> None:
    """Feature: errors. Description: no room for the kernel. Expectation: ValueError that says so."""
    with pytest.raises(ValueError, match="fused_conv_tanh: dilated kernel along height must fit the padded input of 3"):
        ConvTanh(1, 1, 5, pad_mode="valid")(random_tensor(1, 1, 1, 3, 9))


@pytest.mark.parametrize("dtype", [ms.float64, ms.float16, ms.int32])
def test_wrong_dtypes(mode: str, dtype: Any) -> None:
    """Feature: errors. Description: x of another dtype than the weights. Expectation: TypeError, as nn.Conv2d."""
    x = random_tensor(1, 1, 3, 8, 8).astype(dtype)
    for kind in (ConvTanh, nn.Conv2d):
        with pytest.raises(TypeError):
            kind(3, 4, 3)(x).asnumpy()


def test_wrong_channels(mode: str) -> None:
    """Feature: errors. Description: x with other channels. Expectation: ValueError with expected and got."""
    with pytest.raises(ValueError, match=r"filter.shape\[1\] must equal x.shape\[1\] / groups = 5, got 3"):
        ConvTanh(3, 4, 3)(random_tensor(1, 1, 5, 8, 8))


@pytest.mark.parametrize("to_ours", [True, False], ids=["stock_to_ours", "ours_to_stock"])
def test_checkpoints(mode: str, to_ours: bool) -> None:
    """Feature: checkpoints. Description: Conv2d + Tanh and ConvTanh. Expectation: load strictly, both ways."""

    def stock() -> nn.Cell:
        return nn.SequentialCell(
            nn.SequentialCell(nn.Conv2d(3, 8, 3, has_bias=True), nn.Tanh()),
            nn.SequentialCell(nn.Conv2d(8, 4, 5, group=2), nn.Tanh()),
        )

    def ours() -> nn.Cell:
        return nn.SequentialCell(
            nn.SequentialCell(ConvTanh(3, 8, 3, has_bias=True)), nn.SequentialCell(ConvTanh(8, 4, 5, group=2))
        )

    source, target = (stock(), ours()) if to_ours else (ours(), stock())
    ms.save_checkpoint(source, "network.ckpt")
    missing, unexpected = ms.load_param_into_net(target, ms.load_checkpoint("network.ckpt"), strict_load=True)
    assert (missing, unexpected) == ([], [])
    x = random_tensor(2, 1, 3, 12, 13)
    np.testing.assert_allclose(target(x).asnumpy(), source(x).asnumpy(), atol=5e-4)  # nn.Tanh errs by 1e-4


def test_deepcopy(mode: str) -> None:
    """Feature: copy.deepcopy. Description: before and after a call. Expectation: equal and independent."""
    x = random_tensor(2, 1, 3, 8, 8)
    cell = ConvTanh(3, 4, 3, has_bias=True)
    early = copy.deepcopy(cell)
    before = cell(x).asnumpy()
    late = copy.deepcopy(nn.SequentialCell(cell, ConvTanh(4, 4, 1)))[0]
    for copied in (early, late):
        np.testing.assert_array_equal(copied(x).asnumpy(), before)
        copied.weight.set_data(copied.weight * 2)
        assert not np.array_equal(copied(x).asnumpy(), before)
        np.testing.assert_array_equal(cell(x).asnumpy(), before)
    cell.weight.set_data(cell.weight * 0)
    assert not np.array_equal(cell(x).asnumpy(), late(x).asnumpy())


def expected_of(cell: ConvTanh, x: Tensor, **attributes: Any) -> np.ndarray:
    bias = None if cell.bias is None else cell.bias.asnumpy()
    return native.fused_conv_tanh(x.asnumpy(), cell.weight.asnumpy(), bias, **attributes)


def test_weights_changed_in_place(mode: str) -> None:
    """Feature: weights. Description: set_data, an optimizer, load_param, assign. Expectation: take effect at once."""
    x = random_tensor(2, 1, 3, 8, 8)
    cell = ConvTanh(3, 4, 3, pad_mode="valid", has_bias=True)
    seen = [cell(x).asnumpy()]

    def check() -> None:
        seen.append(cell(x).asnumpy())
        np.testing.assert_array_equal(seen[-1], expected_of(cell, x))
        assert not np.array_equal(seen[-1], seen[-2])

    cell.weight.set_data(random_tensor(4, 4, 3, 3, 3))
    check()
    cell.bias.set_data(random_tensor(5, 4))
    check()
    optimizer = nn.SGD(cell.trainable_params(), learning_rate=0.5)
    optimizer((random_tensor(6, 4, 3, 3, 3), random_tensor(7, 4)))
    check()
    ms.load_param_into_net(cell, {"weight": Parameter(random_tensor(8, 4, 3, 3, 3), name="weight")})
    check()
    ms.ops.assign(cell.weight, random_tensor(9, 4, 3, 3, 3))
    check()


def test_several_cells_in_one_network(mode: str) -> None:
    """Feature: attributes. Description: cells that differ in all of them. Expectation: each keeps its own."""
    cells = [
        ConvTanh(4, 4, 3),
        ConvTanh(4, 6, 3, 2, "pad", (1, 0, 2, 1), has_bias=True),
        ConvTanh(6, 6, (2, 3), 1, "valid", 0, (2, 1), 3),
        ConvTanh(6, 2, 1, has_bias=True),
    ]
    x = random_tensor(2, 2, 4, 16, 15)
    y = nn.SequentialCell(*cells)(x).asnumpy()
    attributes: list[dict[str, Any]] = [
        {"pads": [1, 1, 1, 1]},
        {"strides": [2, 2], "pads": [1, 0, 2, 1]},
        {"dilations": [2, 1], "groups": 3},
        {},
    ]
    for cell, named in zip(cells, attributes, strict=True):
        x = Tensor(expected_of(cell, x, **named))
    np.testing.assert_array_equal(y, x.asnumpy())


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16], ids=str)
def test_to_float(mode: str, dtype: Any) -> None:
    """Feature: Cell.to_float. Description: float32 parameters and x. Expectation: computed in the other dtype."""
    cell = ConvTanh(3, 4, 3, pad_mode="valid", has_bias=True)
    expected = array(ms_rounded(cell, random_tensor(2, 1, 3, 8, 8), dtype))
    cell.to_float(dtype)
    y = cell(random_tensor(2, 1, 3, 8, 8))
    assert y.dtype == dtype
    np.testing.assert_array_equal(array(y), expected)


def ms_rounded(cell: ConvTanh, x: Tensor, dtype: Any) -> Tensor:
    """What the cell gives with everything rounded to the dtype first."""
    rounded = ConvTanh(3, 4, 3, pad_mode="valid", has_bias=True, dtype=dtype)
    rounded.weight.set_data(cell.weight.astype(dtype))
    rounded.bias.set_data(cell.bias.astype(dtype))
    return rounded(x.astype(dtype))


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3", "auto"])
def test_auto_mixed_precision(mode: str, level: str) -> None:
    """Feature: amp. Description: every level that works for nn.Conv2d. Expectation: runs, near the float32 result."""
    x = random_tensor(2, 1, 3, 8, 8)
    network = nn.SequentialCell(ConvTanh(3, 4, 3, has_bias=True), ConvTanh(4, 5, 3))
    expected = network(x).asnumpy()
    mixed = ms.amp.auto_mixed_precision(copy.deepcopy(network), level, ms.float16)
    np.testing.assert_allclose(mixed(x).asnumpy().astype(np.float32), expected, atol=4e-3)
