"""Error measures of a result against a golden one in higher precision, and the standards that judge them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

COMMAND = "check"  # as messages name it

DTYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}

# T of the aclnn ecosystem's precision standard for one operator: MERE < T and MARE < 10 T.
THRESHOLDS = {"float32": 2.0**-13, "float16": 2.0**-10, "bfloat16": 2.0**-7}
STANDARDS = ("conv", "ecosystem")
SMALL = 2.0**-7  # of the largest golden value: below this a sum counts as cancelled in the standard "conv"
_OFFSET = 1e-7  # keeps relative errors finite at golden 0, as the ecosystem's standard has it
_EDGES = np.arange(-12.0, 3.0)  # decades of relative errors in the histogram


@dataclass(frozen=True)
class Comparison:
    """A result against a golden one. Errors are taken over the elements that are finite in both."""

    name: str
    shape: tuple[int, ...]
    dtype: str  # whose threshold applies
    standard: str  # conv, ecosystem, or "tolerance <t>"
    passed: bool
    reason: str  # why it did not pass, "" if it did
    mere: float  # mean of |a - g| / (|g| + 1e-7)
    mare: float  # largest of that
    mare_large: float  # largest of that over |g| >= 2^-7 of the largest |g|
    max_abs: float  # largest |a - g|
    worst: tuple[int, ...]  # where that is; () if there is no element
    actual: float  # there
    golden: float  # there
    nonfinite: int  # elements that are NaN or infinite on one side only, or infinite with another sign
    exact: float  # share of elements that are equal
    histogram: tuple[int, ...]  # elements by relative error: exact, below 1e-12, one entry for each decade, above 1e2


def histogram_labels() -> tuple[str, ...]:
    """The classes of Comparison.histogram."""
    decades = [f"1e{int(low)} to 1e{int(low) + 1}" for low in _EDGES[:-1]]
    return ("exact", "below 1e-12", *decades, "above 1e2")


def _histogram(relative: NDArray[Any]) -> tuple[int, ...]:
    inexact = relative[relative > 0]
    classes = np.digitize(np.log10(inexact), _EDGES) if inexact.size else np.empty(0, np.int64)
    return (int(relative.size - inexact.size), *np.bincount(classes, minlength=_EDGES.size + 1).tolist())


def check_request(tolerance: float | None, standard: str) -> None:
    """Raises ValueError for a tolerance or standard that compare() does not take."""
    if standard not in STANDARDS:
        raise ValueError(f"{COMMAND}: standard must be one of {', '.join(STANDARDS)}, got {standard!r}")
    if tolerance is not None and not 0 <= tolerance < np.inf:
        raise ValueError(f"{COMMAND}: tolerance must be 0 or more and finite, got {tolerance!r}")


def threshold_dtype(array: NDArray[Any], dtype: str | None) -> str:
    """The dtype whose threshold applies: the one asked for, or the array's own.

    Raises:
        ValueError: It has no threshold.
    """
    name = dtype or array.dtype.name
    if name not in THRESHOLDS:
        raise ValueError(f"{COMMAND}: dtype must be float32, float16 or bfloat16, got {name}")
    return name


def compare(
    actual: NDArray[Any],
    golden: NDArray[Any],
    *,
    tolerance: float | None = None,
    standard: str = "conv",
    dtype: str | None = None,
    name: str = "y",
) -> Comparison:
    """Compares a result with a golden one.

    Args:
        actual: The result, of any shape; float32, float16 or ml_dtypes.bfloat16, or any number with dtype given.
        golden: Of the same shape, in higher precision.
        tolerance: Largest |a - g| / max(1, |g|) allowed. In place of a standard.
        standard: With T = 2^-13 for float32, 2^-10 for float16 and 2^-7 for bfloat16:
            "ecosystem", MERE < T and MARE < 10 T, the aclnn ecosystem's acceptance of one operator;
            "conv", the same with both taken over |g| >= s = 2^-7 max|g|, and |a - g| <= 10 T s below: where terms
            cancel, no bound holds for the relative error of a sum.
        dtype: In which the result was computed, if the array has another one, such as bfloat16 stored as float32.
        name: What the result is called in the report.

    Raises:
        ValueError: Shapes differ, or another argument is not as described.
    """
    check_request(tolerance, standard)
    if actual.shape != golden.shape:
        raise ValueError(
            f"{COMMAND}: {name}: both must have one shape, got {list(actual.shape)} and {list(golden.shape)}"
        )
    kind = threshold_dtype(actual, dtype) if tolerance is None else dtype or actual.dtype.name
    a, g = np.asarray(actual).astype(np.float64), np.asarray(golden).astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(g)
    nonfinite = int(np.sum(~finite & (a != g) & ~(np.isnan(a) & np.isnan(g))))
    error = np.abs(np.where(finite, a, 0.0) - np.where(finite, g, 0.0))
    magnitude = np.abs(np.where(finite, g, 0.0))
    relative = error / (magnitude + _OFFSET)
    small = SMALL * magnitude.max(initial=0.0)
    large = finite & (magnitude >= small)
    mere = float(np.mean(relative, where=finite)) if finite.any() else 0.0
    mare = float(relative.max(where=finite, initial=0.0))
    mare_large = float(relative.max(where=large, initial=0.0))

    reasons = []
    if nonfinite:
        reasons.append(f"{nonfinite} elements are NaN or infinite on one side only")
    if tolerance is not None:
        largest = float((error / np.maximum(1.0, magnitude)).max(initial=0.0))
        if not largest <= tolerance:
            reasons.append(f"|a - g| / max(1, |g|) = {largest:.3g} > {tolerance:g}")
    else:
        limit = THRESHOLDS[kind]
        mean, highest = mere, mare
        if standard == "conv":
            mean, highest = float(np.mean(relative, where=large)) if large.any() else 0.0, mare_large
            cancelled = float(error.max(where=finite & ~large, initial=0.0))
            if cancelled > 10 * limit * small:
                reasons.append(f"|a - g| = {cancelled:.3g} > 10 T s = {10 * limit * small:.3g} where |g| < s")
        if not mean < limit:
            reasons.append(f"MERE = {mean:.3g} >= T = {limit:.3g}")
        if not highest < 10 * limit:
            reasons.append(f"MARE = {highest:.3g} >= 10 T = {10 * limit:.3g}")

    worst = np.unravel_index(int(error.argmax()), error.shape) if error.size else None
    return Comparison(
        name=name,
        shape=tuple(actual.shape),
        dtype=kind,
        standard=standard if tolerance is None else f"tolerance {tolerance:g}",
        passed=not reasons,
        reason="; ".join(reasons),
        mere=mere,
        mare=mare,
        mare_large=mare_large,
        max_abs=float(error.max(initial=0.0)),
        worst=() if worst is None else tuple(int(i) for i in worst),
        actual=float("nan") if worst is None else float(a[worst]),
        golden=float("nan") if worst is None else float(g[worst]),
        nonfinite=nonfinite,
        exact=float(np.mean((a == g) | (np.isnan(a) & np.isnan(g)))) if a.size else 1.0,
        histogram=_histogram(relative[finite]),
    )


def _as_numbers(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype == np.dtype("V2"):  # as NumPy stores a bfloat16 array
        return array.view(ml_dtypes.bfloat16)
    if array.dtype.kind not in "fiub" and array.dtype != DTYPES["bfloat16"]:
        raise ValueError(f"{COMMAND}: {name} must hold real numbers, got {array.dtype}")
    return array


def load_arrays(path: str | Path) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz file by name, or that of an .npy file under "y".

    Raises:
        OSError: It cannot be read.
        ValueError: It is neither, or holds something else than numbers.
    """
    try:
        loaded = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{COMMAND}: {path} must be an .npy or .npz file of numbers: {error}") from error
    if isinstance(loaded, np.ndarray):
        return {"y": _as_numbers(str(path), loaded)}
    with loaded:
        return {name: _as_numbers(f"{path}: {name}", loaded[name]) for name in loaded.files}


def compare_all(
    actual: Mapping[str, NDArray[Any]],
    golden: Mapping[str, NDArray[Any]],
    *,
    tolerance: float | None = None,
    standard: str = "conv",
    dtype: str | None = None,
) -> list[Comparison]:
    """compare() for arrays of equal names; two lone arrays need no common name.

    Raises:
        ValueError: The names differ; what compare() raises.
    """
    if len(actual) == len(golden) == 1:
        golden = dict(zip(actual, golden.values(), strict=True))
    if set(actual) != set(golden):
        raise ValueError(f"{COMMAND}: both must hold the same names, got {sorted(actual)} and {sorted(golden)}")
    return [
        compare(array, golden[name], tolerance=tolerance, standard=standard, dtype=dtype, name=name)
        for name, array in actual.items()
    ]
