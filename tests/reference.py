"""tanh(conv2d) and its gradients in float64 with NumPy, the golden of all Python tests, and error measures."""

import itertools
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

DTYPES = {"float32": np.dtype(np.float32), "float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}

# Thresholds of the aclnn ecosystem for one operator: MERE < T and MARE < 10 T.
THRESHOLDS = {"float32": 2.0**-13, "float16": 2.0**-10, "bfloat16": 2.0**-7}
# Below this a sum has cancelled, and its relative error has no bound: its absolute error is bounded instead.
SMALL = 2.0**-7


def conv2d(
    x: Any,
    conv_filter: Any,
    bias: Any = None,
    strides: Sequence[int] = (1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
    dilations: Sequence[int] = (1, 1),
    groups: int = 1,
) -> np.ndarray:
    """The convolution of NCHW arrays in float64. Zero padding takes part in the sum: 0 * NaN and 0 * Inf are NaN."""
    x, conv_filter = np.asarray(x, np.float64), np.asarray(conv_filter, np.float64)
    top, bottom, left, right = pads
    n, ci = x.shape[:2]
    co, per_group, kh, kw = conv_filter.shape
    assert ci == per_group * groups
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    extents = (dilations[0] * (kh - 1) + 1, dilations[1] * (kw - 1) + 1)
    windows = sliding_window_view(padded, extents, axis=(2, 3))
    windows = windows[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
    ho, wo = windows.shape[2:4]
    y = np.empty((n, co, ho, wo))
    terms = per_group * kh * kw
    step = max(1, 2**22 // max(1, terms * wo))  # output rows at a time: the columns of all would not fit caches
    with np.errstate(invalid="ignore", over="ignore"):
        for group, image, first in itertools.product(range(groups), range(n), range(0, ho, step)):
            channels = slice(group * per_group, (group + 1) * per_group)
            outputs = slice(group * co // groups, (group + 1) * co // groups)
            rows = slice(first, first + step)
            columns = windows[image, channels, rows].transpose(0, 3, 4, 1, 2).reshape(terms, -1)
            y[image, outputs, rows] = (conv_filter[outputs].reshape(-1, terms) @ columns).reshape(co // groups, -1, wo)
        if bias is not None:
            y += np.asarray(bias, np.float64)[:, None, None]
    return y


def conv_tanh(*arguments: Any, **attributes: Any) -> np.ndarray:
    """tanh(conv2d(...)) in float64."""
    return np.tanh(conv2d(*arguments, **attributes))


def conv2d_gradients(
    dz: Any,
    x: Any,
    conv_filter: Any,
    strides: Sequence[int] = (1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
    dilations: Sequence[int] = (1, 1),
    groups: int = 1,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradients of sum(dz * conv2d(x, conv_filter, bias)) in x, conv_filter and bias, in float64.

    One tap at a time: tap [kh, kw] multiplies the pixels that start at [kh * dilation, kw * dilation] of the padded x.
    """
    dz, x, conv_filter = (np.asarray(array, np.float64) for array in (dz, x, conv_filter))
    top, bottom, left, right = pads
    n, co, ho, wo = dz.shape
    per_group, kh, kw = conv_filter.shape[1:]
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    grad_padded, grad_filter = np.zeros_like(padded), np.zeros_like(conv_filter)
    for group, image, i, j in itertools.product(range(groups), range(n), range(kh), range(kw)):
        channels = slice(group * per_group, (group + 1) * per_group)
        outputs = slice(group * co // groups, (group + 1) * co // groups)
        rows = slice(i * dilations[0], i * dilations[0] + strides[0] * (ho - 1) + 1, strides[0])
        columns = slice(j * dilations[1], j * dilations[1] + strides[1] * (wo - 1) + 1, strides[1])
        part = dz[image, outputs].reshape(-1, ho * wo)
        pixels = padded[image, channels, rows, columns].reshape(per_group, ho * wo)
        grad_filter[outputs, :, i, j] += part @ pixels.T
        reached = (conv_filter[outputs, :, i, j].T @ part).reshape(per_group, ho, wo)
        grad_padded[image, channels, rows, columns] += reached
    height, width = x.shape[2:]
    return grad_padded[:, :, top : top + height, left : left + width], grad_filter, dz.sum((0, 2, 3))


def conv_tanh_gradients(grad_y: Any, y: Any, *arguments: Any, **attributes: Any) -> tuple[np.ndarray, ...]:
    """conv2d_gradients(...) of what arrives behind tanh, whose output was y."""
    grad_y, y = np.asarray(grad_y, np.float64), np.asarray(y, np.float64)
    return conv2d_gradients(grad_y * (1 - y * y), *arguments, **attributes)


def assert_gradient_close(gradient: Any, golden: np.ndarray, dtype: str) -> None:
    """Errors within T of the golden's largest element, and within 10 T of each element that has not cancelled."""
    actual = np.asarray(gradient).astype(np.float64)
    assert actual.shape == golden.shape
    if golden.size == 0:
        return
    threshold, scale = THRESHOLDS[dtype], np.abs(golden).max()
    error = np.abs(actual - golden)
    assert error.max() <= threshold * scale
    assert np.all(error <= 10 * threshold * np.maximum(np.abs(golden), SMALL * scale))


def assert_close(y: Any, golden: np.ndarray, dtype: str) -> None:
    """The ecosystem's precision standard, MARE taken where the golden has not cancelled."""
    actual = np.asarray(y).astype(np.float64)
    assert actual.shape == golden.shape
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(golden), "NaN in other places")
    finite = ~np.isnan(golden)
    actual, golden = actual[finite], golden[finite]
    if golden.size == 0:
        return
    threshold = THRESHOLDS[dtype]
    error = np.abs(actual - golden)
    relative = error / (np.abs(golden) + 1e-7)
    small = np.abs(golden) < SMALL
    assert error.max(where=small, initial=0) <= 10 * threshold * SMALL
    assert relative.max(where=~small, initial=0) < 10 * threshold
    assert relative.mean(where=~small) < threshold if not small.all() else True


def random_problem(
    rng: np.random.Generator,
    x_shape: Sequence[int],
    filter_shape: Sequence[int],
    dtype: str,
    bias: bool = True,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Arrays of the dtype; the filter is scaled so that sums are of the order of 1."""
    terms = int(np.prod(filter_shape[1:]))
    scale = scale if scale is not None else 1 / max(terms, 1) ** 0.5
    x = rng.uniform(-1, 1, x_shape).astype(DTYPES[dtype])
    conv_filter = (rng.uniform(-1, 1, filter_shape) * 2 * scale).astype(DTYPES[dtype])
    return x, conv_filter, rng.uniform(-0.5, 0.5, filter_shape[0]).astype(DTYPES[dtype]) if bias else None
