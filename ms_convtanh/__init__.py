"""y = tanh(conv2d(x, filter, bias)) as one operator.

For MindSpore: `ConvTanh`, a cell with the interface of `mindspore.nn.Conv2d`; `fused_conv_tanh`, its functional form.
For networks as they are: `fuse`, `unfuse`, `enable_auto_fusion`; for exported ones: `load_mindir`, `relocate_mindir`.
For NumPy: `ms_convtanh.native`. What runs here and how: `features` and `explain`.

Importing the package loads nothing: MindSpore is imported at the first use of `ConvTanh` or `fused_conv_tanh`, the
native library at the first use of anything.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ms_convtanh import native
    from ms_convtanh._auto_fusion import disable_auto_fusion, enable_auto_fusion
    from ms_convtanh._cell import ConvTanh
    from ms_convtanh._functional import fused_conv_tanh
    from ms_convtanh._fuse import fuse, unfuse
    from ms_convtanh._options import options
    from ms_convtanh._relocate import load_mindir, relocate_mindir
    from ms_convtanh._reports import explain, features

    __version__: str

__all__ = [
    "ConvTanh",
    "__version__",
    "disable_auto_fusion",
    "enable_auto_fusion",
    "explain",
    "features",
    "fuse",
    "fused_conv_tanh",
    "load_mindir",
    "native",
    "options",
    "relocate_mindir",
    "unfuse",
]

_HOMES = {
    "ConvTanh": "_cell",
    "disable_auto_fusion": "_auto_fusion",
    "enable_auto_fusion": "_auto_fusion",
    "explain": "_reports",
    "features": "_reports",
    "fuse": "_fuse",
    "fused_conv_tanh": "_functional",
    "load_mindir": "_relocate",
    "options": "_options",
    "relocate_mindir": "_relocate",
    "unfuse": "_fuse",
}


def __getattr__(name: str) -> Any:
    if name == "native":
        return importlib.import_module("ms_convtanh.native")
    if name == "__version__":
        value = importlib.import_module("ms_convtanh._library").version()
    elif name in _HOMES:
        value = getattr(importlib.import_module(f"ms_convtanh.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'ms_convtanh' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
