"""The gradients on NumPy arrays: results, masks, layouts, errors, threads."""

import inspect
import threading
from typing import Any

import numpy as np
import pytest
import reference
from problems import CASES, GEOMETRIES, attributes_of, layouts
from reference import DTYPES, random_problem

import ms_convtanh
from ms_convtanh import native

NAMES = ("grad_x", "grad_filter", "grad_bias")


def random_gradient(rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
    return rng.uniform(-1, 1, y.shape).astype(y.dtype)


def check_gradients(
    gradients: tuple[Any, ...], grad_y: Any, y: Any, x: Any, conv_filter: Any, **attributes: Any
) -> None:
    golden = reference.conv_tanh_gradients(grad_y, y, x, conv_filter, **attributes)
    for gradient, expected in zip(gradients, golden, strict=True):
        assert gradient.dtype == x.dtype
        reference.assert_gradient_close(gradient, expected, x.dtype.name)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_cases24(case: dict[str, Any], rng: np.random.Generator) -> None:
    """The 24 benchmark cases against float64, with y from the forward operator."""
    dtype = DTYPES[case["dtype"]]
    x = rng.uniform(*case["x_range"], case["x"]).astype(dtype)
    conv_filter = rng.uniform(*case["filter_range"], case["filter"]).astype(dtype)
    bias = rng.uniform(*case["bias_range"], case["bias"]).astype(dtype)
    attributes = {name: case[name] for name in ("strides", "pads", "dilations", "groups")}
    y = native.fused_conv_tanh(x, conv_filter, bias, **attributes)
    grad_y = random_gradient(rng, y)
    gradients = native.fused_conv_tanh_backward(grad_y, y, x, conv_filter, **attributes)
    check_gradients(gradients, grad_y, y, x, conv_filter, **attributes)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_geometries(geometry: tuple[Any, ...], dtype: str, ceiling: str, fusion: str, rng: np.random.Generator) -> None:
    """Strides, pads, dilations and groups for each variant and both fusion modes."""
    x, conv_filter, bias = random_problem(rng, *geometry[:2], dtype)
    attributes = attributes_of(geometry)
    y = native.fused_conv_tanh(x, conv_filter, bias, **attributes)
    grad_y = random_gradient(rng, y)
    gradients = native.fused_conv_tanh_backward(grad_y, y, x, conv_filter, **attributes)
    check_gradients(gradients, grad_y, y, x, conv_filter, **attributes)


@pytest.mark.parametrize("name", ["all_different", "depthwise", "stride_above_kernel", "pads_above_input"])
def test_finite_differences(name: str, ceiling: str, rng: np.random.Generator) -> None:
    """Each gradient is the slope of the forward operator, in float32, along random directions and single elements."""
    x, conv_filter, bias = random_problem(rng, *GEOMETRIES[name][:2], "float32")
    assert bias is not None
    attributes = attributes_of(GEOMETRIES[name])
    y = native.fused_conv_tanh(x, conv_filter, bias, **attributes)
    grad_y = random_gradient(rng, y)
    gradients = native.fused_conv_tanh_backward(grad_y, y, x, conv_filter, **attributes)
    operands = (x, conv_filter, bias)
    step = 2.0**-7

    def loss(which: int, change: np.ndarray) -> float:
        moved = [array + change if i == which else array for i, array in enumerate(operands)]
        return float(np.sum(grad_y * native.fused_conv_tanh(*moved, **attributes), dtype=np.float64))

    for which, (operand, gradient) in enumerate(zip(operands, gradients, strict=True)):
        assert gradient is not None
        directions = [rng.choice([-1, 1], operand.shape).astype(np.float32) for _ in range(3)]
        for place in rng.choice(operand.size, min(operand.size, 40), replace=False):
            directions.append(np.zeros_like(operand))
            directions[-1].flat[place] = 1
        for direction in directions:
            change = (step / np.sqrt(np.sum(direction**2)) * direction).astype(np.float32)
            slope = (loss(which, change) - loss(which, -change)) / 2
            expected = np.sum(gradient.astype(np.float64) * change)
            scale = step * float(np.abs(grad_y).max()) * max(1.0, float(np.linalg.norm(gradient)))
            assert abs(slope - expected) <= 2e-3 * scale


def test_torch_autograd(rng: np.random.Generator) -> None:
    """The gradients that PyTorch derives for tanh(conv2d)."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x, conv_filter, bias = random_problem(rng, (2, 6, 14, 15), (8, 3, 3, 2), "float32")
    assert bias is not None
    tensors = [torch.tensor(array, requires_grad=True) for array in (x, conv_filter, bias)]
    expected = torch.tanh(
        torch.nn.functional.conv2d(*tensors, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2)
    )
    grad_y = random_gradient(rng, expected.detach().numpy())
    expected.backward(torch.tensor(grad_y))
    attributes = {"strides": (2, 1), "pads": (1, 1, 2, 2), "dilations": (1, 2), "groups": 2}
    y = native.fused_conv_tanh(x, conv_filter, bias, **attributes)
    gradients = native.fused_conv_tanh_backward(grad_y, y, x, conv_filter, **attributes)
    for gradient, tensor in zip(gradients, tensors, strict=True):
        reference.assert_gradient_close(gradient, tensor.grad.numpy().astype(np.float64), "float32")


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_spatial_axis(dtype: str, rng: np.random.Generator) -> None:
    """NCL arrays equal NCHW arrays of height 1; the 2-D defaults fit."""
    x, conv_filter, _ = random_problem(rng, (2, 6, 37), (4, 3, 5), dtype)
    flat = {"strides": [3], "pads": [2, 4], "dilations": [2], "groups": 2}
    wide = {"strides": (1, 3), "pads": (0, 0, 2, 4), "dilations": (1, 2), "groups": 2}
    y = native.fused_conv_tanh(x, conv_filter, **flat)
    grad_y = random_gradient(rng, y)
    gradients = native.fused_conv_tanh_backward(grad_y, y, x, conv_filter, **flat)
    columns = [array[:, :, None] for array in (grad_y, y, x, conv_filter)]
    expected = native.fused_conv_tanh_backward(*columns, **wide)
    for gradient, other, shape in zip(gradients, expected, (x.shape, conv_filter.shape, (4,)), strict=True):
        np.testing.assert_array_equal(gradient, other.reshape(shape))  # type: ignore[union-attr]
    y = native.fused_conv_tanh(x[:, :3], conv_filter)
    assert native.fused_conv_tanh_backward(y, y, x[:, :3], conv_filter)[0].shape == (2, 3, 37)  # type: ignore[union-attr]


@pytest.mark.parametrize("mask", [(a, b, c) for a in (True, False) for b in (True, False) for c in (True, False)])
def test_output_mask(mask: tuple[bool, bool, bool], rng: np.random.Generator) -> None:
    """A gradient that is left out is None; the others do not change."""
    x, conv_filter, bias = random_problem(rng, (2, 4, 9, 10), (6, 2, 3, 3), "float32")
    y = native.fused_conv_tanh(x, conv_filter, bias, groups=2)
    grad_y = random_gradient(rng, y)
    expected = native.fused_conv_tanh_backward(grad_y, y, x, conv_filter, groups=2)
    for given in (mask, list(mask), np.array(mask)):
        gradients = native.fused_conv_tanh_backward(grad_y, y, x, conv_filter, groups=2, output_mask=given)
        for wanted, gradient, full in zip(mask, gradients, expected, strict=True):
            assert (gradient is not None) == wanted
            if wanted:
                np.testing.assert_array_equal(gradient, full)


def test_unread_pixels_and_saturated_units() -> None:
    """Pixels that no output reads get exactly 0, and so does everything behind y = 1 or -1, whatever grad_y is."""
    x, conv_filter = np.ones((1, 2, 7, 7), np.float32), np.ones((3, 2, 1, 2), np.float32)
    y = np.full((1, 3, 3, 2), 0.5, np.float32)
    grad_x, _, _ = native.fused_conv_tanh_backward(np.ones_like(y), y, x, conv_filter, strides=(3, 4))
    assert grad_x is not None
    read = np.zeros((7, 7), bool)
    read[np.ix_([0, 3, 6], [0, 1, 4, 5])] = True
    np.testing.assert_array_equal(grad_x[0, 0], np.where(read, np.float32(3 * 0.75), np.float32(0)))
    signs = np.where(np.arange(y.size).reshape(y.shape) % 2, np.float32(1), np.float32(-1))
    for gradient in native.fused_conv_tanh_backward(np.full_like(y, 1e30), signs, x, conv_filter, strides=(3, 4)):
        np.testing.assert_array_equal(gradient, np.zeros_like(gradient))


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts(dtype: str, rng: np.random.Generator) -> None:
    """Any strides, negative ones and misaligned data included, give what contiguous arrays give."""
    x, conv_filter, bias = random_problem(rng, (2, 4, 9, 10), (6, 2, 3, 3), dtype)
    attributes = {"strides": (2, 1), "pads": (1, 0, 2, 1), "groups": 2}
    y = native.fused_conv_tanh(x, conv_filter, bias, **attributes)
    inputs = [random_gradient(rng, y), y, x, conv_filter]
    expected = native.fused_conv_tanh_backward(*inputs, **attributes)
    for i, array in enumerate(inputs):
        for name, view in layouts(array).items():
            gradients = native.fused_conv_tanh_backward(*inputs[:i], view, *inputs[i + 1 :], **attributes)
            for gradient, full in zip(gradients, expected, strict=True):
                np.testing.assert_array_equal(gradient, full, name)


def test_broadcast_inputs(rng: np.random.Generator) -> None:
    """Stride 0 repeats inputs: grad_y is often the broadcast gradient of a sum."""
    x, conv_filter, bias = random_problem(rng, (3, 3, 8, 8), (5, 3, 3, 3), "float32")
    y = native.fused_conv_tanh(x, conv_filter, bias)
    ones = np.ones_like(y)
    broadcast = np.broadcast_to(np.float32(1), y.shape)
    for a, b in zip(
        native.fused_conv_tanh_backward(broadcast, y, x, conv_filter),
        native.fused_conv_tanh_backward(ones, y, x, conv_filter),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("x", "conv_filter", "y"),
    [
        ((0, 3, 8, 8), (4, 3, 3, 3), (0, 4, 6, 6)),
        ((2, 3, 8, 8), (0, 3, 3, 3), (2, 0, 6, 6)),
        ((0, 3, 20), (4, 3, 3), (0, 4, 18)),
    ],
)
def test_empty(x: tuple[int, ...], conv_filter: tuple[int, ...], y: tuple[int, ...]) -> None:
    """Gradients of what exists are zeros."""
    arrays = [np.ones(shape, np.float32) for shape in (y, y, x, conv_filter)]
    gradients = native.fused_conv_tanh_backward(*arrays)
    for gradient, shape in zip(gradients, (x, conv_filter, conv_filter[:1]), strict=True):
        np.testing.assert_array_equal(gradient, np.zeros(shape, np.float32))


Y = np.zeros((1, 6, 6, 6), np.float32)
X = np.zeros((1, 4, 8, 8), np.float32)
W = np.zeros((6, 4, 3, 3), np.float32)
TYPE_ERRORS = {
    "list": (([[1.0]], Y, X, W), {}, "grad_y must be a numpy.ndarray, got list"),
    "float64": ((Y, Y, X.astype(np.float64), W), {}, "x.dtype must be float32, float16 or bfloat16, got float64"),
    "mixed": ((Y, Y.astype(np.float16), X, W), {}, "y.dtype must be x.dtype = float32, got float16"),
    "mixed_filter": ((Y, Y, X, W.astype(np.int8)), {}, "conv_filter.dtype must be x.dtype = float32, got int8"),
    "byte_order": ((Y.astype(">f4"), Y, X, W), {}, "grad_y.dtype must have the machine's byte order, got >f4"),
    "strides": ((Y, Y, X, W), {"strides": "11"}, "strides must be an int or a sequence of int, got str '11'"),
    "pads": ((Y, Y, X, W), {"pads": [0, 0, 0, 0.5]}, "pads must be of int, got float 0.5"),
    "groups": ((Y, Y, X, W), {"groups": True}, "groups must be of int, got bool True"),
    "mask": ((Y, Y, X, W), {"output_mask": True}, "output_mask must be a sequence of bool, got True"),
    "mask_entries": (
        (Y, Y, X, W),
        {"output_mask": (1, 0, 1)},
        r"output_mask must be a sequence of bool, got \(1, 0, 1\)",
    ),
}
VALUE_ERRORS = {
    "rank": ((Y[0], Y, X, W), {}, r"gradY must be 4-dimensional, got shape \[6, 6, 6\]"),
    "scalar_filter": ((Y, Y, X, W[0, 0, 0, 0, ...]), {}, r"filter must be 4-dimensional, got shape \[\]"),
    "grad_y": ((Y[:, :, :5], Y, X, W), {}, r"gradY.shape must be \[1, 6, 6, 6\], got \[1, 6, 5, 6\]"),
    "y": ((Y, Y[:, :5], X, W), {}, r"y.shape must be \[1, 6, 6, 6\], got \[1, 5, 6, 6\]"),
    "channels": ((Y, Y, X, W[:, :3]), {}, r"filter.shape\[1\] must equal x.shape\[1\] / groups = 4, got 3"),
    "groups": ((Y, Y, X, W), {"groups": 3}, "groups must divide"),
    "many_groups": ((Y, Y, X, W), {"groups": 2**64}, "groups must fit 64 bits"),
    "zero_stride": ((Y, Y, X, W), {"strides": 0}, "strides must be from 1"),
    "stride": ((Y, Y, X, W), {"strides": 2}, r"gradY.shape must be \[1, 6, 3, 3\], got \[1, 6, 6, 6\]"),
    "kernel": ((Y, Y, X, W), {"dilations": [1, 4]}, "dilated kernel along width must fit the padded input of 8, got 9"),
    "mask_size": (
        (Y, Y, X, W),
        {"output_mask": [True, False]},
        r"output_mask must have 3 entries, got \[True, False\]",
    ),
}


@pytest.mark.parametrize(("arguments", "attributes", "message"), TYPE_ERRORS.values(), ids=TYPE_ERRORS)
def test_type_errors(arguments: Any, attributes: Any, message: str) -> None:
    """Wrong kinds of arguments raise TypeError with operator, argument, expected and got."""
    with pytest.raises(TypeError, match=f"^fused_conv_tanh_backward: {message}"):
        native.fused_conv_tanh_backward(*arguments, **attributes)


@pytest.mark.parametrize(("arguments", "attributes", "message"), VALUE_ERRORS.values(), ids=VALUE_ERRORS)
def test_value_errors(arguments: Any, attributes: Any, message: str) -> None:
    """Wrong values raise ValueError with the message of the C operator."""
    with pytest.raises(ValueError, match=f"^fused_conv_tanh_backward: {message}"):
        native.fused_conv_tanh_backward(*arguments, **attributes)


def test_attributes_as_forward() -> None:
    """The attributes have the names, order and defaults of fused_conv_tanh."""
    forward = list(inspect.signature(native.fused_conv_tanh).parameters.values())[3:]
    backward = list(inspect.signature(native.fused_conv_tanh_backward).parameters.values())
    assert [p.name for p in backward[:4]] == ["grad_y", "y", "x", "conv_filter"]
    assert [(p.name, p.default) for p in backward[4:8]] == [(p.name, p.default) for p in forward]
    assert "fused_conv_tanh_backward" in native.__all__


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("strides", [1, 2])
def test_result_does_not_depend_on_threads(dtype: str, strides: int, ceiling: str, rng: np.random.Generator) -> None:
    """The same bits for any number of threads."""
    x, conv_filter, bias = random_problem(rng, (2, 32, 40, 40), (48, 32, 3, 3), dtype)
    y = native.fused_conv_tanh(x, conv_filter, bias, strides=strides)
    grad_y = random_gradient(rng, y)
    results = []
    for threads in (1, 2, 5):
        with ms_convtanh.options(num_threads=threads):
            results.append(native.fused_conv_tanh_backward(grad_y, y, x, conv_filter, strides=strides))
    for other in results[1:]:
        for name, one, two in zip(NAMES, results[0], other, strict=True):
            assert one.tobytes() == two.tobytes(), name  # type: ignore[union-attr]


def test_many_threads_at_once(rng: np.random.Generator) -> None:
    """Calls with different workspaces from several threads do not disturb each other."""
    problems = []
    for i in range(4):
        x, conv_filter, _ = random_problem(rng, (1, 8, 6 + 9 * i, 20), (8 + i, 8, 3, 3), "float32")
        y = native.fused_conv_tanh(x, conv_filter)
        problems.append((random_gradient(rng, y), y, x, conv_filter))
    expected = [native.fused_conv_tanh_backward(*problem) for problem in problems]
    wrong = []

    def work(first: int) -> None:
        for i in range(20):
            k = (first + i) % len(problems)
            gradients = native.fused_conv_tanh_backward(*problems[k])
            if not all(np.array_equal(one, two) for one, two in zip(gradients, expected[k], strict=True)):
                wrong.append((first, i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
