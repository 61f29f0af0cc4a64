"""The native library: where it is, its functions, and its status codes as exceptions."""

import ctypes
from functools import cache
from pathlib import Path

from ms_convtanh._tuning import use_tuning

# Absolute from the start: it outlives a change of the working directory, and MindSpore needs it so.
PATH = Path(__file__).resolve().parent / "lib" / "libms_convtanh.so"

# The operators, as messages name them.
OPERATOR = "fused_conv_tanh"
BACKWARD_OPERATOR = "fused_conv_tanh_backward"

ACL_DTYPES = {"float32": 0, "float16": 1, "bfloat16": 27}  # ACL_FLOAT, ACL_FLOAT16, ACL_BF16
ACL_FORMAT_NCHW = 0
ACL_FORMAT_NCL = 47
KEEP_DTYPE = 0  # cubeMathType

_ACLNN_ERR_PARAM_NULLPTR = 161001
_ACLNN_ERR_PARAM_INVALID = 161002


class Info(ctypes.Structure):
    """msctInfo of ms_convtanh.h."""

    _fields_ = (
        ("detected", ctypes.c_char_p),
        ("allowed", ctypes.c_char_p),
        ("built", ctypes.c_char_p),
        ("k1", ctypes.c_char_p),
        ("k2", ctypes.c_char_p),
        ("max_isa", ctypes.c_char_p),
        ("fusion", ctypes.c_char_p),
        ("threads", ctypes.c_int64),
        ("compiler", ctypes.c_char_p),
        ("tuning", ctypes.c_char_p),
        ("tuning_ignored", ctypes.c_char_p),
    )


class Candidate(ctypes.Structure):
    """msctCandidate of ms_convtanh.h."""

    _fields_ = (
        ("k1", ctypes.c_char_p),
        ("products", ctypes.c_int64),
        ("folded_taps", ctypes.c_int64),
        ("spread_taps", ctypes.c_int64),
        ("winograd", ctypes.c_int64),
        ("microseconds", ctypes.c_double),
    )


class Plan(ctypes.Structure):
    """msctPlan of ms_convtanh.h."""

    _fields_ = (
        ("k1", ctypes.c_char_p),
        ("k2", ctypes.c_char_p),
        ("fusion", ctypes.c_char_p),
        ("direct", ctypes.c_int64),
        ("tile_rows", ctypes.c_int64),
        ("tile_cols", ctypes.c_int64),
        ("tile_co", ctypes.c_int64),
        ("tile_ci", ctypes.c_int64),
        ("threads", ctypes.c_int64),
        ("workspace_bytes", ctypes.c_uint64),
        ("candidate_count", ctypes.c_int64),
        ("candidates", Candidate * 12),
    )


_INT64S = ctypes.POINTER(ctypes.c_int64)
_HANDLE = ctypes.c_void_p
# x, filter, bias, strides, pads, dilations, groups, cubeMathType, y
_PROBLEM = [_HANDLE] * 6 + [ctypes.c_int64, ctypes.c_int64, _HANDLE]
# gradY, y, x, filter, strides, pads, dilations, groups, cubeMathType, outputMask, gradX, gradFilter, gradBias
_BACKWARD_PROBLEM = [_HANDLE] * 7 + [ctypes.c_int64, ctypes.c_int64] + [_HANDLE] * 4
_PLANNED = [ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(_HANDLE)]  # workspaceSize, executor
_STATUS = ctypes.c_int32
_LAUNCH = (_STATUS, [_HANDLE, ctypes.c_uint64, _HANDLE, _HANDLE])
_PROTOTYPES = {
    "aclCreateTensor": (
        _HANDLE,
        [
            _INT64S,
            ctypes.c_uint64,
            ctypes.c_int,
            _INT64S,
            ctypes.c_int64,
            ctypes.c_int,
            _INT64S,
            ctypes.c_uint64,
            _HANDLE,
        ],
    ),
    "aclDestroyTensor": (_STATUS, [_HANDLE]),
    "aclCreateIntArray": (_HANDLE, [_INT64S, ctypes.c_uint64]),
    "aclDestroyIntArray": (_STATUS, [_HANDLE]),
    "aclCreateBoolArray": (_HANDLE, [ctypes.POINTER(ctypes.c_bool), ctypes.c_uint64]),
    "aclDestroyBoolArray": (_STATUS, [_HANDLE]),
    "aclnnFusedConvTanhGetWorkspaceSize": (_STATUS, [*_PROBLEM, *_PLANNED]),
    "aclnnFusedConvTanh": _LAUNCH,
    "aclnnFusedConvTanhBackwardGetWorkspaceSize": (_STATUS, [*_BACKWARD_PROBLEM, *_PLANNED]),
    "aclnnFusedConvTanhBackward": _LAUNCH,
    "aclDestroyAclOpExecutor": (_STATUS, [_HANDLE]),
    "aclGetRecentErrMsg": (ctypes.c_char_p, []),
    "msctCreateFilterCache": (_HANDLE, []),
    "msctDestroyFilterCache": (_STATUS, [_HANDLE]),
    "msctSetFilterCache": (_STATUS, [_HANDLE, _HANDLE]),
    "msctGetVersion": (ctypes.c_char_p, []),
    "msctGetCpuModel": (ctypes.c_char_p, []),
    "msctSetOption": (_STATUS, [ctypes.c_char_p, ctypes.c_char_p]),
    "msctGetInfo": (_STATUS, [ctypes.POINTER(Info)]),
    "msctExplainFusedConvTanh": (_STATUS, [*_PROBLEM, ctypes.POINTER(Plan)]),
}


@cache
def load() -> ctypes.CDLL:
    """The library. Calls into it release the GIL.

    Raises:
        OSError: It is missing or was built for another system.
    """
    try:
        library = ctypes.CDLL(str(PATH))
    except OSError as error:
        raise OSError(f"ms_convtanh: cannot load the native library, reinstall the package: {error}") from error
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    use_tuning(library)
    return library


def version() -> str:
    """The library's version, which is the package's."""
    return load().msctGetVersion().decode()


def raise_for_status(status: int, caller: str = OPERATOR) -> None:
    """Raises what a status code of the library means, with the library's message under the caller's name.

    Raises:
        ValueError: An argument is wrong.
        RuntimeError: Anything else.
    """
    if status == 0:
        return
    _, _, reason = (load().aclGetRecentErrMsg() or b"").decode(errors="replace").partition(": ")
    message = f"{caller}: {reason or 'failed'}"
    if status in (_ACLNN_ERR_PARAM_NULLPTR, _ACLNN_ERR_PARAM_INVALID):
        raise ValueError(message)
    raise RuntimeError(f"{message} (status {status})")
