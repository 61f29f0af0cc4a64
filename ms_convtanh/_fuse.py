"""fuse and unfuse: a network's Conv2d and Tanh cells become ConvTanh cells, and back."""

import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from mindspore import Tensor, nn, ops
from mindspore.nn.layer.conv import _Conv

from ms_convtanh._cell import ConvTanh
from ms_convtanh._chains import Network, Place, has_hooks
from ms_convtanh._library import ACL_DTYPES

Net = TypeVar("Net", bound=nn.Cell)


@dataclass(frozen=True)
class Pair:
    """One convolution of the network.

    Attributes:
        convolution: Its path from the network, such as "head.0".
        tanh: Path of the tanh cell behind it; empty if there is none.
        reason: Why it was left alone; empty if it was changed.
    """

    convolution: str
    tanh: str
    reason: str = ""


@dataclass(frozen=True)
class Report:
    """What fuse or unfuse did. str() makes a table of it.

    Attributes:
        changed: The convolutions that are cells of another kind now.
        left: The others, with the reasons.
    """

    changed: tuple[Pair, ...]
    left: tuple[Pair, ...]

    def __str__(self) -> str:
        rows = [("convolution", "tanh", "result")]
        rows += [(pair.convolution, pair.tanh or "-", "changed") for pair in self.changed]
        rows += [(pair.convolution, pair.tanh or "-", f"left alone: {pair.reason}") for pair in self.left]
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        return "\n".join(f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}" for row in rows)


class FusedTanh(nn.Cell):
    """Stands where the nn.Tanh was that the ConvTanh before it computes now, so that indices and names stay."""

    def construct(self, x: Tensor) -> Tensor:
        return x


class Conv2dTanh(nn.Conv2d):
    """A ConvTanh of MindSpore's own operators: what unfuse leaves where ConvTanh had no tanh cell behind it."""

    def construct(self, x: Tensor) -> Tensor:
        y = self.conv2d(x, self.weight)
        if self.has_bias:
            y = self.bias_add(y, self.bias)
        return ops.tanh(y)


def fuse(net: Net, *, inplace: bool = False) -> tuple[Net, Report]:
    """Replaces each nn.Conv2d that an nn.Tanh follows by a ConvTanh.

    Pairs are found in `nn.SequentialCell` and `nn.CellList` at any depth. A CellList, and a cell of either kind that
    belongs to a cell of your own, counts only where your code calls it, or runs it by `for cell in self.cells: x =
    cell(x)` and does nothing else with it. The new cell has the very Parameters of the convolution, so that names,
    checkpoints and optimisers that hold them stay valid. Where the tanh was, a cell that returns its input keeps the
    indices as they are.

    Left alone is what might compute something else: subclasses of nn.Conv2d and nn.Tanh, cells with hooks, recompute or
    a parallel strategy, cells that the network has more than once, pairs of different precision (`to_float`, amp),
    dtypes and layouts that the operator does not have.

    Args:
        net (nn.Cell): The network.
        inplace (bool): False copies the cells (but no Parameter) and leaves net as it is; True changes net.

    Returns:
        The fused network, and what was done: print it for a table.

    Raises:
        TypeError: net is not a Cell.
    """
    _check(net, "fuse")
    net = net if inplace else _copied(net)
    network = Network(net)
    behind = {here.path: there for chain in network.chains for here, there in pairwise(chain)}
    chained = {place.path for chain in network.chains for place in chain}
    pairs = []
    for place in network.places:
        if not isinstance(place.cell, _Conv) or isinstance(place.cell, ConvTanh):
            continue
        after = behind.get(place.path)
        reason = _reason_to_keep(network, place, after, place.path in chained)
        pairs.append(Pair(place.path, after.path if after and type(after.cell) is nn.Tanh else "", reason))
        if after and not reason:
            place.put(_as(ConvTanh, place.cell))
            after.put(_like(after.cell, FusedTanh()))
    _forget_compiled(net)
    return net, _report(pairs)


def unfuse(net: Net, *, inplace: bool = False) -> tuple[Net, Report]:
    """Replaces each ConvTanh by MindSpore's own operators: for MindIR, ONNX and users without this package.

    What `fuse` made becomes nn.Conv2d and nn.Tanh again. Any other ConvTanh becomes one cell that computes both. All
    keep their Parameters and their names.

    Args:
        net (nn.Cell): The network.
        inplace (bool): False copies the cells (but no Parameter) and leaves net as it is; True changes net.

    Returns:
        The network, and what was done: print it for a table. Subclasses of ConvTanh are left alone.

    Raises:
        TypeError: net is not a Cell.
    """
    _check(net, "unfuse")
    net = net if inplace else _copied(net)
    if type(net) is ConvTanh:
        if inplace:
            net.__class__ = Conv2dTanh
        return (net if inplace else _as(Conv2dTanh, net)), _report([Pair("", "")])
    network = Network(net)
    behind = {
        here.path: there for chain in network.chains for here, there in pairwise(chain) if type(there.cell) is FusedTanh
    }
    pairs = []
    made: dict[int, nn.Cell] = {}  # cells that the network has more than once stay shared
    for place in network.places:
        if type(place.cell) is not ConvTanh:
            if isinstance(place.cell, ConvTanh):
                pairs.append(Pair(place.path, "", f"{type(place.cell).__name__} is a subclass of ConvTanh"))
            continue
        after = behind.get(place.path)
        pairs.append(Pair(place.path, after.path if after else ""))
        if after:
            after.put(_like(after.cell, nn.Tanh()))
        kind = nn.Conv2d if after else Conv2dTanh
        place.put(made.setdefault(id(place.cell), _as(kind, place.cell)))
    _forget_compiled(net)
    return net, _report(pairs)


def _reason_to_keep(network: Network, place: Place, after: Place | None, is_chained: bool) -> str:
    """Why the convolution and what follows it are not fused; empty if they are."""
    cell = place.cell
    if type(cell) is not nn.Conv2d:
        return f"{type(cell).__name__} is not nn.Conv2d"
    if network.is_shared(cell):
        return "the network has it more than once"
    if not is_chained:
        if not isinstance(place.parent, nn.SequentialCell | nn.CellList):
            return "it is not in a SequentialCell or CellList"
        if network.without_source:
            return f"the source of {network.without_source} is not there to see how it runs its cells"
        return "the code does more with its container than run it, or the network has the container more than once"
    if after is None:
        return "nothing follows it"
    tanh = after.cell
    if type(tanh) is not nn.Tanh:
        return f"{type(tanh).__name__} follows it, not nn.Tanh"
    for name, it in (("convolution", cell), ("tanh", tanh)):
        if has_hooks(it):
            return f"the {name} has hooks"
        if "construct" in vars(it):
            return f"the {name} has a construct of its own"
        if it._has_config_recompute or it._recompute_cell is not None:
            return f"recompute is set on the {name}; call recompute() after fuse()"
        if it._in_strategy or it._out_strategy or it._shard_fn:
            return f"the {name} has a parallel strategy"
    if cell.data_format != "NCHW":
        return f"its data_format is {cell.data_format}"
    dtype = str(cell.weight.dtype).lower()
    if dtype not in ACL_DTYPES:
        return f"its dtype is {dtype}"
    if cell.get_flags() != tanh.get_flags() or cell.mixed_precision_type != tanh.mixed_precision_type:
        return "convolution and tanh have different precisions or flags"
    return ""


def _check(net: Any, caller: str) -> None:
    if not isinstance(net, nn.Cell):
        raise TypeError(f"{caller}: net must be a mindspore.nn.Cell, got {type(net).__name__}")


def _report(pairs: list[Pair]) -> Report:
    return Report(tuple(pair for pair in pairs if not pair.reason), tuple(pair for pair in pairs if pair.reason))


def _copied(net: Net) -> Net:
    """Copies of all cells with the same Parameters and buffers."""
    kept = [*net.get_parameters(), *(buffer for _, buffer in net.named_buffers() if buffer is not None)]
    return copy.deepcopy(net, {id(tensor): tensor for tensor in kept})


def _as(kind: type[nn.Cell], cell: nn.Cell) -> nn.Cell:
    """A cell of another kind with all that the given one has, Parameters included."""
    made = copy.deepcopy(cell, {id(parameter): parameter for parameter in cell.get_parameters()})
    made.__class__ = kind
    return made


def _like(cell: nn.Cell, made: nn.Cell) -> nn.Cell:
    """made, in the mode of the cell whose place it takes."""
    made.set_train(cell.training)
    made.set_grad(cell.requires_grad)
    return made


def _forget_compiled(net: nn.Cell) -> None:
    """MindSpore would run graphs that it compiled from the cells as they were."""
    for _, cell in net.cells_and_names():
        cell.compile_cache.clear()
