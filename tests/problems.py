"""Problems and memory layouts that several tests go through."""

import json
from pathlib import Path
from typing import Any

import numpy as np

CASES = json.loads((Path(__file__).parent / "data/cases24.json").read_text())["cases"]

# x, filter, strides, pads, dilations, groups
GEOMETRIES = {
    "plain": ((2, 3, 9, 11), (4, 3, 3, 3), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "one_by_one": ((2, 17, 5, 7), (9, 17, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "all_different": ((1, 4, 13, 17), (6, 2, 3, 2), (2, 3), (1, 2, 3, 0), (2, 1), 2),
    "depthwise": ((2, 8, 10, 9), (16, 1, 3, 5), (1, 1), (1, 1, 2, 2), (1, 1), 8),
    "stride_above_kernel": ((1, 5, 20, 23), (7, 5, 2, 1), (4, 3), (0, 1, 0, 0), (1, 1), 1),
    "dilated": ((1, 16, 24, 21), (33, 16, 3, 3), (1, 1), (3, 3, 3, 3), (3, 3), 1),
    "pads_above_input": ((1, 2, 1, 2), (3, 2, 4, 4), (1, 1), (5, 4, 3, 6), (1, 1), 1),
    "one_pixel": ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "wide": ((1, 3, 4, 301), (5, 3, 2, 7), (1, 2), (0, 0, 3, 3), (1, 1), 1),
}


def attributes_of(geometry: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("strides", "pads", "dilations", "groups"), geometry[2:], strict=True))


def layouts(array: np.ndarray) -> dict[str, np.ndarray]:
    """The same values in other memory layouts."""
    larger = np.full([size + 2 for size in array.shape], np.nan, array.dtype)
    inner = larger[tuple(slice(1, -1) for _ in array.shape)]
    inner[...] = array
    last = array.ndim - 1
    spread = np.full([*array.shape[:last], array.shape[last] * 3], np.nan, array.dtype)
    spread[..., ::3] = array
    shifted = np.frombuffer(b"\0" + array.tobytes(), np.uint8)[1:].view(array.dtype).reshape(array.shape)
    read_only = array.copy()
    read_only.flags.writeable = False
    return {
        "fortran": np.asfortranarray(array),
        "slice": inner,
        "every_third": spread[..., ::3],
        "reversed": np.ascontiguousarray(np.flip(array)).__getitem__((slice(None, None, -1),) * array.ndim),
        "channels_last": np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1) if last else array,
        "misaligned": shifted,
        "read_only": read_only,
    }
