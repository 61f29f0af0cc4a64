"""Casts between float formats with the rounding modes of pl.cast."""

from __future__ import annotations

import numpy as np

from .types import ExecutorError, RoundMode


def round_to(values: np.ndarray, dtype: np.dtype, mode: RoundMode) -> np.ndarray:
    """float32 to float16 or bfloat16: half to even (CAST_RINT) or half away from zero (CAST_ROUND); or widening."""
    if dtype.itemsize >= values.dtype.itemsize:
        if mode is not RoundMode.CAST_NONE or dtype.itemsize == values.dtype.itemsize:
            raise ExecutorError(f"cast: {values.dtype} to {dtype} with {mode.name} is not in the executor's subset")
        return values.astype(dtype)
    if mode not in (RoundMode.CAST_RINT, RoundMode.CAST_ROUND):
        raise ExecutorError(f"cast: {mode.name} is not in the executor's subset")
    even = values.astype(dtype)
    if mode is RoundMode.CAST_RINT:
        return even
    # At a tie that went towards zero, the next larger magnitude is as near.
    larger = (even.view(np.uint16) + np.uint16(1)).view(dtype)
    exact = values.astype(np.float64)
    lower, upper = even.astype(np.float64), larger.astype(np.float64)
    tie = np.isfinite(exact) & (np.abs(exact - lower) == np.abs(upper - exact)) & (np.abs(lower) < np.abs(exact))
    return np.where(tie, larger, even)
