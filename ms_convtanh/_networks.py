"""A network named on the command line: a MindIR file, or module:function and a checkpoint."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def require_mindspore(command: str) -> None:
    """Raises RuntimeError, naming the extra, without MindSpore."""
    try:
        importlib.import_module("mindspore")
    except ImportError as error:
        message = f"{command}: a network needs MindSpore, pip install 'ms_convtanh[mindspore]': {error}"
        raise RuntimeError(message) from error


def make_cell(command: str, network: str, checkpoint: str | Path | None = None) -> Any:
    """The cell that module:function returns, in inference mode, with a checkpoint's parameters.

    Raises:
        ValueError: It is not that, or the checkpoint does not fit.
        OSError: The checkpoint cannot be read.
        RuntimeError: There is no MindSpore.
    """
    require_mindspore(command)
    import mindspore as ms
    from mindspore import nn

    module_name, _, attribute = network.partition(":")
    if not module_name or not attribute:
        raise ValueError(f"{command}: network must be a .mindir file or module:function, got {network!r}")
    try:
        made = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{command}: cannot find {network}: {error}") from error
    cell = made if isinstance(made, nn.Cell) else made()
    if not isinstance(cell, nn.Cell):
        raise ValueError(f"{command}: {network} must return a mindspore.nn.Cell, got {type(cell).__name__}")
    if checkpoint is not None:
        if not Path(checkpoint).is_file():
            raise FileNotFoundError(f"{command}: there is no checkpoint {checkpoint}")
        missing, unknown = ms.load_param_into_net(cell, ms.load_checkpoint(str(checkpoint)), strict_load=True)
        if missing or unknown:
            raise ValueError(f"{command}: {checkpoint} must fit {network}, got missing {missing}, unknown {unknown}")
    cell.set_train(False)
    return cell


def tensor(array: NDArray[Any]) -> Any:
    """array as a tensor of MindSpore."""
    import mindspore as ms

    if array.dtype.name == "bfloat16":
        return ms.Tensor(array.astype(np.float32)).astype(ms.bfloat16)
    return ms.Tensor(array)


@contextmanager
def graph_mode() -> Iterator[None]:
    """MindSpore's graph mode inside the with block."""
    import mindspore as ms

    before = ms.get_context("mode")
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        yield
    finally:
        ms.set_context(mode=before)
