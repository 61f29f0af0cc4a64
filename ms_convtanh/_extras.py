"""Optional dependencies."""

import importlib
from typing import Any


def require(command: str, module: str, extra: str) -> Any:
    """A module of an optional dependency.

    Raises:
        RuntimeError: It is not installed; the message names the extra that has it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise RuntimeError(f"{command}: needs {name}, pip install 'ms_convtanh[{extra}]': {error}") from error
