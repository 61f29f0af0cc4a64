"""Automatic fusion: a graph pass that puts the operator into graphs whose source does not name it."""

import atexit
import ctypes
import logging
import threading
from typing import Any

from mindspore import context, graph

from ms_convtanh import _library, _plugin
from ms_convtanh._custom import check_library_path, register

_log = logging.getLogger("ms_convtanh")

_REPORT = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p)
_lock = threading.Lock()
_plugin_library: Any = None  # the loaded plugin; MindSpore cannot forget it again


def _log_pair(fused: int, message: bytes) -> None:
    _log.log(logging.INFO if fused else logging.DEBUG, "auto fusion: %s", message.decode(errors="replace"))


_report = _REPORT(_log_pair)


def enable_auto_fusion() -> None:
    """From now on, graphs that MindSpore compiles compute tanh(conv2d(x, filter, bias)) as one operator.

    A graph pass replaces `Tanh(Conv2D(x, w))` and `Tanh(BiasAdd(Conv2D(x, w), b))` in every graph: networks in graph
    mode, `@ms.jit` functions, training steps, MindIR files in `nn.GraphCell`. Their source and their parameters do not
    change. Left alone are convolutions whose output something else reads as well, formats other than NCHW, and dtypes
    other than float32, float16 and bfloat16. In a training graph the forward part is fused; its gradients are
    MindSpore's own. Graphs that are compiled already, and PyNative mode, stay as they are.

    Each fusion is a line of level INFO of the logger "ms_convtanh", each pair left alone one of level DEBUG.

    The first call on a machine compiles the pass, which takes a C++ compiler and some 20 seconds, and keeps it in
    $XDG_CACHE_HOME/ms_convtanh (by default ~/.cache/ms_convtanh). Further calls find it there.

    Raises:
        RuntimeError: Another MindSpore than 2.10, a device target that is not CPU, no C++ compiler (CXX, g++, c++ or
            clang++), a cache folder that cannot be used; or MindSpore cannot load the library from where it is.
    """
    global _plugin_library
    target = context.get_context("device_target")
    if target != "CPU":
        raise RuntimeError(f"{_plugin.CALLER}: the device target must be CPU, got {target}; use ms_convtanh.fuse(net)")
    check_library_path(_plugin.CALLER)
    with _lock:
        if _plugin_library is None:
            path = _plugin.built()
            register()
            if not graph.register_custom_pass("FuseConvTanh", str(path), device="cpu"):
                raise RuntimeError(
                    f"{_plugin.CALLER}: MindSpore did not accept the graph pass {path}; remove the file, then "
                    "the next call compiles it again"
                )
            _plugin_library = ctypes.CDLL(str(path))
            atexit.register(disable_auto_fusion)  # no calls into Python when it has ended
        _plugin_library.msctEnableFusion(f"{_library.PATH}:FusedConvTanh".encode(), _report)


def disable_auto_fusion() -> None:
    """Graphs compiled from now on stay as they are. Those compiled before keep the operator."""
    with _lock:
        if _plugin_library is not None:
            _plugin_library.msctDisableFusion()
