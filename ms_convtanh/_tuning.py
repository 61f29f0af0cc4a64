"""What `ms-convtanh tune` found for this CPU, and how the library gets to know it.

The native library reads the file; see aclnn/src/tuning.h for its format. Here is where it lies: in
$XDG_CACHE_HOME/ms_convtanh/tuning (~/.cache without that variable), a file for each CPU model.
"""

import ctypes
import logging
import os
import re
from pathlib import Path

VARIABLE = "MS_CONVTANH_TUNING"  # a file, or "off"

_logger = logging.getLogger("ms_convtanh")


def cache_file(cpu: str) -> Path:
    """The tuning file of a CPU model.

    Raises:
        RuntimeError: There is no home folder.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG Base Directory Specification has relative paths ignored.
    folder = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return folder / "ms_convtanh" / "tuning" / (re.sub(r"[^\w.+-]+", "_", cpu).strip("_") + ".yaml")


def use_tuning(library: ctypes.CDLL) -> None:
    """Hands the library this CPU's file, unless the environment names another one or says off.

    A file that cannot be used is ignored, with a warning to the logger "ms_convtanh": tuning changes no result.
    """
    given = os.environ.get(VARIABLE)
    if given == "off":
        return
    try:
        file = Path(given) if given else cache_file(library.msctGetCpuModel().decode(errors="replace"))
        if not given and not file.exists():
            return
    except (OSError, RuntimeError):  # no home, or one that may not be read: nothing was tuned
        return
    if library.msctSetOption(b"tuning", os.fsencode(file)) != 0:
        message = (library.aclGetRecentErrMsg() or b"").decode(errors="replace")
        _logger.warning("ms_convtanh: the tuning is ignored: %s", message.partition(": ")[2])
