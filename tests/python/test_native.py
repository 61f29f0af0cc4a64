"""The operator on NumPy arrays: results, layouts, errors, threads."""

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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_cases24(case: dict[str, Any], rng: np.random.Generator) -> None:
    """The 24 benchmark cases against float64, by the precision standard of the aclnn ecosystem."""
    dtype = case["dtype"]
    x = rng.uniform(*case["x_range"], case["x"]).astype(DTYPES[dtype])
    conv_filter = rng.uniform(*case["filter_range"], case["filter"]).astype(DTYPES[dtype])
    bias = rng.uniform(*case["bias_range"], case["bias"]).astype(DTYPES[dtype])
    attributes = {name: case[name] for name in ("strides", "pads", "dilations", "groups")}
    y = native.fused_conv_tanh(x, conv_filter, bias, **attributes)
    assert y.dtype == DTYPES[dtype]
    reference.assert_close(y, reference.conv_tanh(x, conv_filter, bias, **attributes), dtype)


@pytest.mark.parametrize("bias", [False, True], ids=["no_bias", "bias"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_geometries(
    geometry: tuple[Any, ...], dtype: str, bias: bool, ceiling: str, fusion: str, rng: np.random.Generator
) -> None:
    """Strides, pads, dilations and groups for each variant and both fusion modes."""
    x, conv_filter, b = random_problem(rng, *geometry[:2], dtype, bias)
    attributes = attributes_of(geometry)
    plan = native.explain(x.shape, conv_filter.shape, dtype, bias, **attributes)
    assert (plan.k1, plan.k2, plan.fusion) == (ceiling, ceiling, fusion)
    y = native.fused_conv_tanh(x, conv_filter, b, **attributes)
    assert y.dtype == x.dtype
    reference.assert_close(y, reference.conv_tanh(x, conv_filter, b, **attributes), dtype)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("channels", [1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65])
def test_not_finite_at_corners(
    channels: int, value: float, ceiling: str, fusion: str, rng: np.random.Generator
) -> None:
    """NaN and Inf at the corners of x and of the filter spread exactly as in the plain formula, and no further."""
    for co, ci in ((channels, 3), (3, channels)):
        for corner in ((0, 0), (0, -1), (-1, 0), (-1, -1)):
            x, conv_filter, bias = random_problem(rng, (1, ci, 7, 9), (co, ci, 3, 3), "float32")
            x[0, -1][corner] = value
            pads = (1, 1, 1, 1)
            golden = reference.conv_tanh(x, conv_filter, bias, pads=pads)
            reference.assert_close(native.fused_conv_tanh(x, conv_filter, bias, pads=pads), golden, "float32")

            x, conv_filter, bias = random_problem(rng, (1, ci, 7, 9), (co, ci, 3, 3), "float32")
            conv_filter[-1, 0][corner] = value
            golden = reference.conv_tanh(x, conv_filter, bias, pads=pads)
            assert np.isnan(golden).any()  # zero pads times the value
            reference.assert_close(native.fused_conv_tanh(x, conv_filter, bias, pads=pads), golden, "float32")


def test_not_finite_bias(ceiling: str, fusion: str) -> None:
    """A bias of NaN or Inf reaches its own channel only."""
    bias = np.array([np.nan, np.inf, -np.inf, 0.5], np.float32)
    y = native.fused_conv_tanh(np.ones((1, 1, 2, 3), np.float32), np.zeros((4, 1, 1, 1), np.float32), bias)
    np.testing.assert_array_equal(y[0, :3, 0, 0], [np.nan, 1, -1])
    np.testing.assert_allclose(y[0, 3], np.tanh(0.5), rtol=1e-6)


def test_saturation_and_zeros(ceiling: str, fusion: str) -> None:
    """+-1 exactly from |z| >= 20, zeros keep their sign."""
    z = np.array([-0.0, 0.0, 20, -20, 88.8, -89, 3e38, -3e38], np.float32).reshape(1, 1, 1, 8)
    y = native.fused_conv_tanh(z, np.ones((1, 1, 1, 1), np.float32)).ravel()
    np.testing.assert_array_equal(y, [0, 0, 1, -1, 1, -1, 1, -1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_spatial_axis(dtype: str, rng: np.random.Generator) -> None:
    """NCL arrays equal NCHW arrays of height 1; the 2-D defaults fit."""
    x, conv_filter, bias = random_problem(rng, (2, 6, 37), (4, 3, 5), dtype)
    wide = {"strides": (1, 3), "pads": (0, 0, 2, 4), "dilations": (1, 2), "groups": 2}
    expected = native.fused_conv_tanh(x[:, :, None], conv_filter[:, :, None], bias, **wide)[:, :, 0]
    for pads in ([2, 4],):
        y = native.fused_conv_tanh(x, conv_filter, bias, strides=[3], pads=pads, dilations=[2], groups=2)
        np.testing.assert_array_equal(y, expected)
    assert native.fused_conv_tanh(x, np.concatenate([conv_filter, conv_filter], 1), bias).shape == (2, 4, 33)


def test_short_attributes(rng: np.random.Generator) -> None:
    """[h, w] pads stand for both sides, an int for all entries."""
    x, conv_filter, bias = random_problem(rng, (1, 2, 12, 13), (3, 2, 3, 3), "float32")
    full = native.fused_conv_tanh(x, conv_filter, bias, (2, 2), (1, 1, 2, 2), (2, 2))
    np.testing.assert_array_equal(native.fused_conv_tanh(x, conv_filter, bias, 2, [1, 2], 2), full)
    one = native.fused_conv_tanh(x, conv_filter, bias, pads=(1, 1, 1, 1))
    np.testing.assert_array_equal(native.fused_conv_tanh(x, conv_filter, bias, pads=np.int64(1)), one)
    np.testing.assert_array_equal(native.fused_conv_tanh(x, conv_filter, bias, pads=np.array([1, 1])), one)


def test_same_signature_as_functional() -> None:
    """NumPy and MindSpore forms take the same arguments in the same order."""
    ours = inspect.signature(native.fused_conv_tanh).parameters
    assert list(ours) == ["x", "conv_filter", "bias", "strides", "pads", "dilations", "groups"]
    defaults = [p.default if not isinstance(p.default, tuple) else list(p.default) for p in ours.values()][2:]
    assert defaults == [None, [1, 1], [0, 0, 0, 0], [1, 1], 1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts(dtype: str, rng: np.random.Generator) -> None:
    """Any strides, negative ones and misaligned data included, give what contiguous arrays give."""
    x, conv_filter, bias = random_problem(rng, (2, 4, 9, 10), (6, 2, 3, 3), dtype)
    assert bias is not None
    attributes = {"strides": (2, 1), "pads": (1, 0, 2, 1), "groups": 2}
    expected = native.fused_conv_tanh(x, conv_filter, bias, **attributes)
    for name, view in layouts(x).items():
        np.testing.assert_array_equal(native.fused_conv_tanh(view, conv_filter, bias, **attributes), expected, name)
    for name, view in layouts(conv_filter).items():
        np.testing.assert_array_equal(native.fused_conv_tanh(x, view, bias, **attributes), expected, name)
    for name, view in layouts(bias).items():
        np.testing.assert_array_equal(native.fused_conv_tanh(x, conv_filter, view, **attributes), expected, name)


def test_broadcast_inputs(rng: np.random.Generator) -> None:
    """Stride 0 repeats x, filter and bias."""
    x, conv_filter, bias = random_problem(rng, (1, 3, 8, 8), (1, 3, 3, 3), "float32")
    assert bias is not None
    wide = np.broadcast_to(x, (3, 3, 8, 8)), np.broadcast_to(conv_filter, (5, 3, 3, 3)), np.broadcast_to(bias, 5)
    expected = np.broadcast_to(native.fused_conv_tanh(x, conv_filter, bias), (3, 5, 6, 6))
    np.testing.assert_array_equal(native.fused_conv_tanh(*wide), expected)


@pytest.mark.parametrize(
    ("x", "conv_filter", "y"),
    [
        ((0, 3, 8, 8), (4, 3, 3, 3), (0, 4, 6, 6)),
        ((2, 3, 8, 8), (0, 3, 3, 3), (2, 0, 6, 6)),
        ((0, 3, 20), (4, 3, 3), (0, 4, 18)),
    ],
)
def test_empty(x: tuple[int, ...], conv_filter: tuple[int, ...], y: tuple[int, ...]) -> None:
    """Empty results are arrays too."""
    result = native.fused_conv_tanh(np.zeros(x, np.float32), np.zeros(conv_filter, np.float32))
    assert result.shape == y
    assert result.dtype == np.float32


X = np.zeros((1, 4, 8, 8), np.float32)
W = np.zeros((6, 4, 3, 3), np.float32)
TYPE_ERRORS = {
    "list": (([[1.0]], W), {}, "x must be a numpy.ndarray, got list"),
    "float64": ((X.astype(np.float64), W), {}, "x.dtype must be float32, float16 or bfloat16, got float64"),
    "int": ((X, W.astype(np.int32)), {}, "conv_filter.dtype must be x.dtype = float32, got int32"),
    "mixed": ((X, W.astype(np.float16)), {}, "conv_filter.dtype must be x.dtype = float32, got float16"),
    "mixed_bias": ((X, W, np.zeros(6)), {}, "bias.dtype must be x.dtype = float32, got float64"),
    "byte_order": ((X.astype(">f4"), W), {}, "x.dtype must have the machine's byte order, got >f4"),
    "filter_byte_order": ((X, W.astype(">f4")), {}, "conv_filter.dtype must have the machine's byte order"),
    "strides": ((X, W), {"strides": "11"}, "strides must be an int or a sequence of int, got str '11'"),
    "stride_item": ((X, W), {"strides": [1, 1.5]}, "strides must be of int, got float 1.5"),
    "pads": ((X, W), {"pads": None}, "pads must be an int or a sequence of int, got NoneType None"),
    "dilations": ((X, W), {"dilations": [True, 1]}, "dilations must be of int, got bool True"),
    "unordered": ((X, W), {"strides": {1, 2}}, "strides must be an int or a sequence of int, got set"),
    "groups": ((X, W), {"groups": 1.0}, "groups must be of int, got float 1.0"),
    "groups_bool": ((X, W), {"groups": np.True_}, "groups must be of int, got bool_? True"),
}
VALUE_ERRORS = {
    "x_rank": ((X[0, 0], W), {}, r"x must be 4-dimensional, got shape \[8, 8\]"),
    "filter_rank": ((X, W[0]), {}, r"filter must be 4-dimensional, got shape \[4, 3, 3\]"),
    "channels": ((X, W[:, :3]), {}, r"filter.shape\[1\] must equal x.shape\[1\] / groups = 4, got 3"),
    "bias": ((X, W, np.zeros(5, np.float32)), {}, r"bias.shape\[0\] must equal filter.shape\[0\] = 6, got 5"),
    "groups": ((X, W), {"groups": 3}, "groups must divide"),
    "no_groups": ((X, W), {"groups": 0}, "groups must be >= 1, got 0"),
    "many_groups": ((X, W), {"groups": 2**64}, "groups must fit 64 bits"),
    "zero_stride": ((X, W), {"strides": [1, 0]}, r"strides must be from 1 .* got \[1, 0\]"),
    "stride_count": ((X, W), {"strides": [1]}, r"strides must be \[h, w\] for NCHW, got \[1\]"),
    "zero_dilation": ((X, W), {"dilations": 0}, "dilations must be from 1"),
    "negative_pad": ((X, W), {"pads": [0, 0, -1, 0]}, "pads must be from 0"),
    "absurd_pad": ((X, W), {"pads": 2**62}, "pads must be from 0 to 2147483647"),
    "pad_count": ((X, W), {"pads": [1, 1, 1]}, r"pads must be \[top, bottom, left, right\] or .* got \[1, 1, 1\]"),
    "kernel": ((X, W), {"dilations": [1, 4]}, "dilated kernel along width must fit the padded input of 8, got 9"),
    "no_channels": ((X[:, :0], W[:, :0]), {}, "x must not be empty"),
}


@pytest.mark.parametrize(("arguments", "attributes", "message"), TYPE_ERRORS.values(), ids=TYPE_ERRORS)
def test_type_errors(arguments: Any, attributes: Any, message: str) -> None:
    """Wrong kinds of arguments raise TypeError with operator, argument, expected and got."""
    with pytest.raises(TypeError, match=f"^fused_conv_tanh: {message}"):
        native.fused_conv_tanh(*arguments, **attributes)


@pytest.mark.parametrize(("arguments", "attributes", "message"), VALUE_ERRORS.values(), ids=VALUE_ERRORS)
def test_value_errors(arguments: Any, attributes: Any, message: str) -> None:
    """Wrong values raise ValueError with the message of the C operator."""
    with pytest.raises(ValueError, match=f"^fused_conv_tanh: {message}"):
        native.fused_conv_tanh(*arguments, **attributes)


def test_result_does_not_depend_on_threads(rng: np.random.Generator) -> None:
    """The same bits for any number of threads."""
    x, conv_filter, bias = random_problem(rng, (2, 32, 40, 40), (48, 32, 3, 3), "float32")
    results = []
    for threads in (1, 2, 5):
        with ms_convtanh.options(num_threads=threads):
            results.append(native.fused_conv_tanh(x, conv_filter, bias))
    assert all(np.array_equal(results[0], result) for result in results)


def test_many_threads_at_once(rng: np.random.Generator) -> None:
    """Calls with different workspaces from several threads do not disturb each other."""
    problems = [random_problem(rng, (1, 8, 6 + 9 * i, 20), (8 + i, 8, 3, 3), "float32") for i in range(4)]
    expected = [native.fused_conv_tanh(*problem) for problem in problems]
    wrong = []

    def work(first: int) -> None:
        for i in range(40):
            k = (first + i) % len(problems)
            if not np.array_equal(native.fused_conv_tanh(*problems[k]), expected[k]):
                wrong.append((first, i))

    with ms_convtanh.options(fusion="half"):
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_workspace_is_kept(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """Once warm, a thread allocates no scratch."""
    x, conv_filter, bias = random_problem(rng, (1, 16, 64, 64), (16, 16, 3, 3), "float32")
    with ms_convtanh.options(fusion="half"):
        assert native.explain(x.shape, conv_filter.shape).workspace_bytes > 0
        native.fused_conv_tanh(x, conv_filter, bias)
        kept = native._workspace.buffer
        for _ in range(3):
            native.fused_conv_tanh(x, conv_filter, bias)
            native.fused_conv_tanh(x[:, :, :9], conv_filter, bias)
    assert native._workspace.buffer is kept
