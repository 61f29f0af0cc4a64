"""K2 alone: tanh in float32 over the range of float32, and its rounding."""

from collections.abc import Callable
from typing import Any

import executor.run
import numpy as np
import pytest
from conv_common import TanhTiling, _tanh_tiling
from executor import GlobalBuffer
from reference import DTYPES


def tanh(z: np.ndarray, dtype: str) -> np.ndarray:
    """K2 on one long row."""
    tiling, columns = _tanh_tiling(1, z.size, z.size, 56)
    y = GlobalBuffer("y", np.zeros(z.size, DTYPES[dtype]), written=False)
    kernel = executor.run.kernels()["k2_tanh"]
    kernel[None, 28, {"TanhColumns": columns}, {"y": executor.run.DATATYPES[dtype]}](z, y, None, tiling)
    assert y.written.all()
    return y.data


def every_exponent(count: int) -> np.ndarray:
    """Positive float32 values from the smallest to the largest, then the same with a sign."""
    bits = np.linspace(1, 0x7F7FFFFF, count).astype(np.uint32)
    positive = bits.view(np.float32)
    return np.concatenate([positive, -positive])


def test_within_4_ulp() -> None:
    # Half of the values over all exponents, half where tanh bends: 2^-7 to 16, and around the split.
    dense = np.linspace(0x3C000000, 0x41800000, 400_000).astype(np.uint32).view(np.float32)
    around = np.linspace(0.62, 0.63, 20_001, dtype=np.float32)
    z = np.concatenate([every_exponent(200_000), dense, -dense, around, -around])
    golden = np.tanh(z.astype(np.float64))
    y = tanh(z, "float32")
    with np.errstate(invalid="ignore"):
        spacing = np.spacing(np.abs(golden).astype(np.float32)).astype(np.float64)
    errors = np.abs(y - golden) / spacing
    worst = int(errors.argmax())
    assert errors[worst] <= 2.1, f"tanh({z[worst]!r}) = {y[worst]!r}, {errors[worst]:.2f} ULP"
    assert (np.abs(y) <= 1).all()


def test_special_values() -> None:
    z = np.array([0.0, -0.0, 1e-45, -1e-45, 89, -89, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan], np.float32)
    y = tanh(z, "float32")
    expected = np.array([0.0, -0.0, 1e-45, -1e-45, 1, -1, 1, -1, 1, -1, np.nan], np.float32)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(np.signbit(y[:-1]), np.signbit(expected[:-1]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_correctly_rounded(dtype: str) -> None:
    """At least 99.9 % of 16-bit results are the rounded tanh, the rest its neighbour."""
    z = every_exponent(150_000)
    z = z[np.abs(z) > 2.0**-14]
    y = tanh(z, dtype)
    golden = np.tanh(z.astype(np.float64)).astype(np.float32).astype(DTYPES[dtype])
    steps = np.abs(y.view(np.int16).astype(np.int32) - golden.view(np.int16).astype(np.int32))
    assert steps.max() <= 1
    assert (steps == 0).mean() >= 0.999


@pytest.mark.parametrize(
    ("rows", "columns", "pitch"), [(1, 1, 1), (5, 3, 9), (70, 64, 66), (9, 513, 600), (3, 700, 701)]
)
def test_rows_with_gaps(rows: int, columns: int, pitch: int, rng: np.random.Generator) -> None:
    """What lies between the rows is neither read nor written."""
    tiling, width = _tanh_tiling(rows, columns, pitch, 6)
    assert isinstance(tiling, TanhTiling)
    z = GlobalBuffer("wst", np.full((rows, pitch), np.nan, np.float32), written=False)
    values = rng.normal(size=(rows, columns)).astype(np.float32)
    for array, content in ((z.data, values), (z.written, True)):
        array.reshape(rows, pitch)[:, :columns] = content
    y = GlobalBuffer("y", np.zeros(rows * columns, np.float32), written=False)
    run: Callable[..., Any] = executor.run.kernels()["k2_tanh"][
        None, 3, {"TanhColumns": width}, {"y": executor.run.DATATYPES["float32"]}
    ]
    run(z, y, None, tiling)
    assert y.written.all()
    np.testing.assert_allclose(y.data.reshape(rows, columns), np.tanh(values), rtol=3e-7)
