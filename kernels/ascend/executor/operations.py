"""What the operations of the `pl` subset do, with the checks of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .machine import CUBE, VECTORS, current
from .memory import Piece, Tensor, Tile
from .rounding import round_to
from .types import (
    DT_FP32,
    DT_INT32,
    DT_UINT8,
    AccPhase,
    AccToVecMode,
    ExecutorError,
    MemorySpace,
    Pipe,
    RoundMode,
    STPhase,
)

FRACTAL = 16


class Operation:
    """One operation on a pipe: its accesses to tiles, ordered by their mutex ids."""

    def __init__(self, pipe: Pipe, *tiles: Tile, unordered: Sequence[Tile] = ()) -> None:
        self.actor = current.actor
        self.pipe = (self.actor.name, pipe)
        self.ordering = self.actor.core.ordering
        self.mutexes = {mutex for tile in tiles if tile not in unordered for mutex in tile.mutexes}
        expected = "cube" if pipe in (Pipe.M, Pipe.FIX, Pipe.MTE1) else "vector" if pipe in (Pipe.V, Pipe.MTE3) else ""
        if not self.actor.section or expected not in ("", self.actor.section):
            raise ExecutorError(f"{pipe.name} is no pipe of {self.actor.section or 'code outside the sections'}")

    def __enter__(self) -> Operation:
        self.ordering.begin(self.pipe, self.mutexes)
        return self

    def __exit__(self, *_: object) -> None:
        self.ordering.end(self.pipe, self.mutexes)

    def read(self, tile: Tile, row: int = 0, column: int = 0, valid: tuple[int, int] | None = None) -> np.ndarray:
        """The valid part of a tile, or valid elements at (row, column) of it."""
        buffer = self.actor.core.buffers[self.actor.name, tile.type.space]
        rows, columns = valid or tile.valid
        self.ordering.read(self.pipe, buffer.region(tile), list(buffer.regions.values()))
        if not tile.window(buffer, buffer.written, row, column, rows, columns).all():
            raise ExecutorError(f"{tile.name}: read of data that was never written")
        return tile.window(buffer, buffer.data, row, column, rows, columns)

    def write(self, tile: Tile, values: np.ndarray, owner: str | None = None) -> None:
        """Writes the first rows and columns of a tile."""
        buffer = self.actor.core.buffers[owner or self.actor.name, tile.type.space]
        self.ordering.write(self.pipe, buffer.region(tile), list(buffer.regions.values()))
        rows, columns = values.shape
        tile.window(buffer, buffer.written, 0, 0, rows, columns)[...] = True
        tile.window(buffer, buffer.data, 0, 0, rows, columns)[...] = values


def _same_valid(name: str, *tiles: Tile) -> None:
    if len({tile.valid for tile in tiles}) > 1:
        shapes = ", ".join(f"{tile.name} {list(tile.valid)}" for tile in tiles)
        raise ExecutorError(f"{name}: valid shapes differ: {shapes}")


def set_validshape(tile: Tile, shape: Sequence[int]) -> None:
    if not tile.type.dynamic:
        raise ExecutorError(f"set_validshape: {tile.name} is not of valid_shape [-1, -1]")
    rows, columns = (int(size) for size in shape)
    if not (1 <= rows <= tile.type.shape[0] and 1 <= columns <= tile.type.shape[1]):
        raise ExecutorError(f"set_validshape: [{rows}, {columns}] is not within {tile.name} {list(tile.type.shape)}")
    tile.valid = (rows, columns)


def load(tile: Tile, tensor: Tensor, offsets: Sequence[int]) -> None:
    space = MemorySpace.Mat if current.actor.cube else MemorySpace.Vec
    if tile.type.space is not space:
        raise ExecutorError(f"load: {tile.name} is in {tile.type.space.name}, {current.actor.name} loads into {space.name}")
    if tile.type.dtype != tensor.dtype:
        raise ExecutorError(f"load: {tile.name} is {tile.type.dtype}, the tensor {tensor.dtype}")
    with Operation(Pipe.MTE2, tile) as operation:
        buffer, first = tensor.window(offsets, *tile.valid)
        if not tensor.view(buffer.written, first, *tile.valid).all():
            raise ExecutorError(f"load: {buffer.name} is read where nothing was written")
        if tensor.view(buffer.writer, first, *tile.valid).any():
            raise ExecutorError(f"load: {buffer.name} is read where this launch writes")
        operation.write(tile, tensor.view(buffer.data, first, *tile.valid))


def store(tensor: Tensor, source: Tile | Piece, offsets: Sequence[int], phase: STPhase | None = None) -> None:
    tile, row, column = (source.tile, source.row, source.column) if isinstance(source, Piece) else (source, 0, 0)
    if tile.type.space not in (MemorySpace.Vec, MemorySpace.Acc):
        raise ExecutorError(f"store: {tile.name} is in {tile.type.space.name}; Vec and Acc can be stored")
    if tile.type.dtype != tensor.dtype:
        raise ExecutorError(f"store: {tile.name} is {tile.type.dtype}, the tensor {tensor.dtype}")
    from_acc = tile.type.space is MemorySpace.Acc
    if from_acc:
        _check_compact("store", tile, (0, 1))
    with Operation(Pipe.FIX if from_acc else Pipe.MTE3, tile, unordered=[tile] if phase else []) as operation:
        if phase is not None:
            operation.ordering.store_flag(operation.pipe, tile.address, phase is STPhase.Final)
        values = operation.read(tile, row, column, source.valid)
        buffer, first = tensor.window(offsets, *source.valid)
        writer = tensor.view(buffer.writer, first, *source.valid)
        epoch = tensor.view(buffer.epoch, first, *source.valid)
        me, barriers = operation.actor.number, operation.ordering.barriers.get(operation.pipe, 0)
        if ((writer != 0) & (writer != me)).any():
            raise ExecutorError(f"store: overlapping output, another core has written this part of {buffer.name}")
        if ((writer == me) & (epoch == barriers)).any():
            raise ExecutorError(f"store: {buffer.name} is stored twice, no barrier of the pipe in between")
        writer[...], epoch[...] = me, barriers
        tensor.view(buffer.written, first, *source.valid)[...] = True
        tensor.view(buffer.data, first, *source.valid)[...] = values


def _check_compact(name: str, tile: Tile, axes: Sequence[int]) -> None:
    """Partial rows or columns of an L0 tile need compact=1: its strides follow the valid shape rounded up to 16."""
    for axis in axes:
        if -(-tile.valid[axis] // FRACTAL) * FRACTAL != tile.type.shape[axis] and not tile.type.compact:
            raise ExecutorError(f"{name}: {tile.name} {list(tile.valid)} is a tail, its type needs compact=1")


def move(
    out: Tile, source: Tile, offset: Sequence[int] | None = None, acc_to_vec_mode: AccToVecMode | None = None
) -> None:
    path = (source.type.space, out.type.space)
    if path == (MemorySpace.Acc, MemorySpace.Vec):
        _move_to_vectors(out, source, acc_to_vec_mode)
        return
    if path not in ((MemorySpace.Mat, MemorySpace.Left), (MemorySpace.Mat, MemorySpace.Right)):
        raise ExecutorError(f"move: the executor knows no path from {path[0].name} to {path[1].name}")
    if out.type.dtype != source.type.dtype:
        raise ExecutorError(f"move: {source.name} is {source.type.dtype}, {out.name} {out.type.dtype}")
    if offset is None:
        if out.type.shape != source.type.shape:
            raise ExecutorError(f"move: {source.name} and {out.name} differ in shape and there is no offset")
        _same_valid("move", source, out)
        offset = (0, 0)
    if any(small > large for small, large in zip(out.type.shape, source.type.shape, strict=True)):
        raise ExecutorError(f"move: {out.name} is larger than {source.name}: hardware would insert, not extract")
    _check_compact("move", out, (0,) if path[1] is MemorySpace.Left else (1,))
    row, column = (int(position) for position in offset)
    if row % FRACTAL or column * out.type.dtype.size % 32:
        raise ExecutorError(f"move: offset [{row}, {column}] into {source.name} is not at a fractal")
    if row + out.valid[0] > source.valid[0] or column + out.valid[1] > source.valid[1]:
        raise ExecutorError(f"move: {list(out.valid)} at [{row}, {column}] is beyond {source.name} {list(source.valid)}")
    with Operation(Pipe.MTE1, out, source) as operation:
        operation.write(out, operation.read(source, row, column, out.valid))


def _move_to_vectors(out: Tile, acc: Tile, mode: AccToVecMode | None) -> None:
    if mode is not AccToVecMode.DualModeSplitM:
        raise ExecutorError("move: the executor moves Acc to Vec with acc_to_vec_mode DualModeSplitM only")
    if out.type.dtype != DT_FP32 or out.type.shape != (acc.type.shape[0] // 2, acc.type.shape[1]):
        raise ExecutorError(f"move: {out.name} is not half of {acc.name}")
    _check_compact("move", acc, (0, 1))
    with Operation(Pipe.FIX, acc, out) as operation:
        values = operation.read(acc)
        half = (acc.valid[0] + 1) // 2
        for part, owner in enumerate(VECTORS):
            rows = values[part * half : (part + 1) * half]
            if len(rows):
                operation.write(out, rows, owner)


def matmul(out: Tile, left: Tile, right: Tile, phase: AccPhase | None = None) -> None:
    _multiply(out, left, right, phase, accumulate=False)


def matmul_acc(out: Tile, acc: Tile, left: Tile, right: Tile, phase: AccPhase | None = None) -> None:
    if acc is not out:
        raise ExecutorError("matmul_acc: the executor accumulates in place only")
    _multiply(out, left, right, phase, accumulate=True)


def _multiply(out: Tile, left: Tile, right: Tile, phase: AccPhase | None, accumulate: bool) -> None:
    spaces = (out.type.space, left.type.space, right.type.space)
    if spaces != (MemorySpace.Acc, MemorySpace.Left, MemorySpace.Right) or out.type.dtype != DT_FP32:
        raise ExecutorError("matmul: takes a float32 Acc, a Left and a Right tile")
    (m, k), (k_right, n) = left.valid, right.valid
    if k != k_right or out.valid != (m, n) or left.type.dtype != right.type.dtype:
        raise ExecutorError(f"matmul: {list(left.valid)} x {list(right.valid)} does not give {list(out.valid)}")
    if k * left.type.dtype.size % 32:
        raise ExecutorError(f"matmul: K = {k} is no whole number of fractals; pad the channels with zeros")
    _check_compact("matmul", out, (0, 1))
    with Operation(Pipe.M, out, left, right, unordered=[out] if phase else []) as operation:
        if phase is not None:
            operation.ordering.matmul_flag(operation.pipe, out.address, phase is AccPhase.Final)
        a, b = (operation.read(tile).astype(np.float32) for tile in (left, right))
        with np.errstate(over="ignore", invalid="ignore"):
            product = a @ b
            if accumulate:
                product += operation.read(out)
        operation.write(out, product)


def _vector(name: str, out: Tile, inputs: Sequence[Tile | float], function: Any, scratch: Sequence[Tile] = ()) -> None:
    """An elementwise operation in the inputs' own precision."""
    tiles = [value for value in inputs if isinstance(value, Tile)]
    for tile in (out, *tiles):
        if tile.type.space is not MemorySpace.Vec:
            raise ExecutorError(f"{name}: {tile.name} is not in Vec")
    _same_valid(name, out, *tiles)
    with Operation(Pipe.V, out, *tiles, *scratch) as operation:
        # Copies: out may be one of the inputs.
        values = [
            operation.read(value).copy() if isinstance(value, Tile) else tiles[0].type.dtype.numpy.type(value)
            for value in inputs
        ]
        with np.errstate(all="ignore"):
            operation.write(out, function(*values))


def _float32_only(name: str, *tiles: Tile) -> None:
    if any(tile.type.dtype != DT_FP32 for tile in tiles):
        raise ExecutorError(f"{name}: the executor computes in float32 only")


def unary(name: str, out: Tile, source: Tile) -> None:
    _float32_only(name, out, source)
    _vector(name, out, [source], {"abs": np.abs, "exp": np.exp}[name])


def binary(name: str, out: Tile, left: Tile, right: Tile | float) -> None:
    if left.type.dtype not in (DT_FP32, DT_INT32) or out.type.dtype != left.type.dtype:
        raise ExecutorError(f"{name}: {left.type.dtype} to {out.type.dtype} is not in the executor's subset")
    _vector(name, out, [left, right], {"add": np.add, "mul": np.multiply, "div": np.divide}[name])


def less(mask: Tile, left: Tile, right: Tile | float) -> None:
    if mask.type.dtype != DT_UINT8:
        raise ExecutorError("lt: the mask is a UINT8 tile")
    _vector("lt", mask, [left, right], np.less)


def select(out: Tile, mask: Tile, left: Tile, right: Tile, tmp: Tile) -> None:
    if mask.type.dtype != DT_UINT8:
        raise ExecutorError("select: the mask is a UINT8 tile")
    _vector("select", out, [mask, left, right], lambda m, a, b: np.where(m != 0, a, b), scratch=[tmp])


def expands(out: Tile, value: float) -> None:
    with Operation(Pipe.V, out) as operation:
        operation.write(out, np.full(out.valid, value, out.type.dtype.numpy))


def fill_index(out: Tile, start: int) -> None:
    if out.type.dtype != DT_INT32 or out.valid[0] != 1:
        raise ExecutorError("fill_index: takes an INT32 tile of one row")
    with Operation(Pipe.V, out) as operation:
        operation.write(out, np.arange(start, start + out.valid[1], dtype=np.int32)[None])


def gather(out: Tile, source: Tile, index: Tile, tmp: Tile) -> None:
    """out[i] = source.flat[index[i]], flat over the physical tile."""
    _same_valid("gather", out, index, tmp)
    if index.type.dtype != DT_INT32 or tmp.type.dtype != DT_INT32 or out.type.dtype != source.type.dtype:
        raise ExecutorError("gather: the index and tmp are INT32 tiles, out has the source's type")
    with Operation(Pipe.V, out, source, index, tmp) as operation:
        operation.read(source)
        positions = operation.read(index).copy()
        operation.write(tmp, positions)
        buffer = operation.actor.core.buffers[operation.actor.name, MemorySpace.Vec]
        whole = (0, 0, *source.type.shape)
        if positions.min() < 0 or positions.max() >= source.type.shape[0] * source.type.shape[1]:
            raise ExecutorError(f"gather: an index is outside {source.name}")
        size = source.type.dtype.size
        written = source.window(buffer, buffer.written, *whole).reshape(-1)[:: 1 if size == 1 else size]
        if not written[positions].all():
            raise ExecutorError(f"gather: {source.name}: read of data that was never written")
        operation.write(out, source.window(buffer, buffer.data, *whole).reshape(-1)[positions])


def transpose(out: Tile, source: Tile) -> None:
    if out.valid != source.valid[::-1] or out.type.dtype != source.type.dtype:
        raise ExecutorError(f"transpose: {list(source.valid)} does not give {list(out.valid)}")
    with Operation(Pipe.V, out, source) as operation:
        operation.write(out, operation.read(source).T.copy())


def cast(out: Tile, source: Tile, mode: RoundMode = RoundMode.CAST_ROUND) -> None:
    if out.type.dtype == source.type.dtype:
        raise ExecutorError(f"cast: {out.type.dtype} to itself rounds to integers on hardware; leave it out")
    _vector("cast", out, [source], lambda values: round_to(values, out.type.dtype.numpy, mode))


def set_cross_core(pipe: Pipe, event: int) -> None:
    with Operation(pipe) as operation:
        receivers = list(VECTORS) if operation.actor.cube else [CUBE]
        operation.ordering.set_event(operation.pipe, receivers, _event(event))


def wait_cross_core(pipe: Pipe, event: int) -> None:
    operation = Operation(pipe)
    actor, ordering = operation.actor, operation.ordering
    senders = list(VECTORS) if actor.cube else [CUBE]
    event = _event(event)
    actor.wait(lambda: ordering.ready(actor.name, senders, event))
    with operation:
        ordering.take_event(operation.pipe, senders, event)


def _event(event: int) -> int:
    if not 0 <= event <= 15:
        raise ExecutorError(f"event ids are 0 to 15, got {event}")
    return int(event)


def barrier(pipe: Pipe) -> None:
    with Operation(pipe) as operation:
        operation.ordering.barrier(operation.pipe)
