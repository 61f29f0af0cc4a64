"""Between NumPy arrays and MindSpore tensors, bfloat16 included."""

from typing import Any

import ml_dtypes
import numpy as np

import mindspore as ms
from mindspore import Tensor

MS_DTYPES = {"float32": ms.float32, "float16": ms.float16, "bfloat16": ms.bfloat16}


def tensor(array: np.ndarray | None) -> Any:
    """The array as a tensor of the same dtype; None stays None."""
    if array is None:
        return None
    if array.dtype == ml_dtypes.bfloat16:  # exact both ways
        return Tensor(array.astype(np.float32)).astype(ms.bfloat16)
    return Tensor(np.ascontiguousarray(array))


def array(value: Tensor) -> np.ndarray:
    """The tensor's values; bfloat16 as float32."""
    return (value.astype(ms.float32) if value.dtype == ms.bfloat16 else value).asnumpy()


def random_tensor(seed: int, *shape: int) -> Tensor:
    return Tensor(np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32))
