"""Global memory with its views, and the on-chip buffers with their tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .ordering import Region
from .types import BY_NUMPY, DataType, ExecutorError, MemorySpace, TileType


class GlobalBuffer:
    """One kernel argument in GM: its elements, which of them were ever written, and by whom in this launch."""

    def __init__(self, name: str, array: np.ndarray, written: bool) -> None:
        if not array.flags.c_contiguous:
            raise ExecutorError(f"{name}: kernels take contiguous arrays")
        self.name = name
        self.data = array.reshape(-1)
        self.written = np.full(self.data.size, written)
        self.start_launch()

    def start_launch(self) -> None:
        self.writer = np.zeros(self.data.size, np.int32)
        self.epoch = np.zeros(self.data.size, np.int32)


@dataclass(frozen=True)
class Pointer:
    """A pl.Ptr argument; buffer None is a null pointer."""

    name: str
    buffer: GlobalBuffer | None


class Tensor:
    """A view of GM: make_tensor(pointer, shape, stride, dtype)."""

    def __init__(self, pointer: Pointer, shape: Sequence[int], stride: Sequence[int] | None, dtype: DataType) -> None:
        self.pointer = pointer
        self.shape = [int(size) for size in shape]
        if stride is None:
            stride = [1] * len(self.shape)
            for axis in range(len(self.shape) - 2, -1, -1):
                stride[axis] = stride[axis + 1] * self.shape[axis + 1]
        self.stride = [int(step) for step in stride]
        self.dtype = dtype
        if len(self.stride) != len(self.shape) or self.stride[-1] != 1:
            raise ExecutorError(f"make_tensor({pointer.name}): one stride per axis, the last of them 1")
        if any(step >= 2**31 for step in self.stride):
            raise ExecutorError(f"make_tensor({pointer.name}): a stride is beyond 32 bits")

    def window(self, offsets: Sequence[int], rows: int, columns: int) -> tuple[GlobalBuffer, int]:
        """The buffer and the first element of a [rows, columns] window over the last two axes."""
        buffer, name = self.pointer.buffer, self.pointer.name
        if buffer is None:
            raise ExecutorError(f"{name}: access through a null pointer")
        if BY_NUMPY[buffer.data.dtype] != self.dtype:
            raise ExecutorError(f"{name} is {buffer.data.dtype}, the kernel reads it as {self.dtype}")
        if len(offsets) != len(self.shape):
            raise ExecutorError(f"{name}: {len(offsets)} offsets for {len(self.shape)} axes")
        extent = [1] * (len(self.shape) - 2) + [rows, columns]
        for axis, (offset, size) in enumerate(zip(offsets, extent, strict=True)):
            if offset < 0 or offset + size > self.shape[axis]:
                raise ExecutorError(
                    f"{name}: out of bounds, axis {axis} has {self.shape[axis]} elements, "
                    f"[{int(offset)}, {int(offset) + size}) are touched"
                )
        first = sum(int(offset) * step for offset, step in zip(offsets, self.stride, strict=True))
        last = first + (rows - 1) * self.stride[-2] + columns - 1
        if last >= buffer.data.size:
            raise ExecutorError(f"{name}: out of bounds, element {last} of {buffer.data.size}")
        return buffer, first

    def view(self, array: np.ndarray, first: int, rows: int, columns: int) -> np.ndarray:
        """That window of data, written, writer or epoch."""
        step = self.stride[-2] * array.itemsize
        return as_strided(array[first:], (rows, columns), (step, array.itemsize))


class Buffer:
    """One on-chip memory. Every byte knows whether it was written; what was not is NaN."""

    def __init__(self, space: MemorySpace) -> None:
        self.data = np.full(space.capacity, 255, np.uint8)
        self.written = np.zeros(space.capacity, bool)
        self.regions: dict[tuple[object, ...], Region] = {}

    def reset(self) -> None:
        self.data[:] = 255
        self.written[:] = False
        self.regions = {}

    def region(self, tile: Tile) -> Region:
        # Tiles of UB that share address and mutex are two views of one thing; fractal layouts cannot be viewed so.
        signature: tuple[object, ...] = (tile.mutexes,)
        if tile.type.space is not MemorySpace.Vec:
            signature += (tile.type.shape, tile.type.dtype)
        key = (tile.address, tile.type.shape, tile.type.dtype, tile.mutexes)
        if key not in self.regions:
            self.regions[key] = Region(tile.name, tile.address, tile.address + tile.type.bytes, signature)
        return self.regions[key]


class Tile:
    """One slot of a tile group."""

    def __init__(self, name: str, tile_type: TileType, address: int, mutexes: frozenset[int]) -> None:
        self.name = name
        self.type = tile_type
        self.address = address
        self.mutexes = mutexes
        self.valid = tile_type.shape
        space = tile_type.space
        if address % space.alignment:
            raise ExecutorError(f"{name}: address {address:#x} in {space.name} is no multiple of {space.alignment}")
        if address < 0 or address + tile_type.bytes > space.capacity:
            raise ExecutorError(
                f"{name}: [{address:#x}, {address + tile_type.bytes:#x}) does not fit into "
                f"{space.name} with {space.capacity:#x} bytes"
            )

    def __getitem__(self, index: tuple[slice, slice]) -> Piece:
        return Piece(self, index)

    def window(self, buffer: Buffer, array: np.ndarray, row: int, column: int, rows: int, columns: int) -> np.ndarray:
        """[rows, columns] at (row, column) of this tile: elements of buffer.data, or bytes of buffer.written."""
        height, width = self.type.shape
        size = self.type.dtype.size
        raw = array[self.address : self.address + self.type.bytes].reshape(height, width * size)
        raw = raw[row : row + rows, column * size : (column + columns) * size]
        return raw.view(self.type.dtype.numpy) if array is buffer.data else raw


class Piece:
    """tile[a:b, c:d], a part of a Vec tile that can be stored."""

    def __init__(self, tile: Tile, index: tuple[slice, slice]) -> None:
        if tile.type.space is not MemorySpace.Vec:
            raise ExecutorError(f"{tile.name}: only Vec tiles can be sliced")
        self.tile = tile
        self.row, self.column = (int(part.start or 0) for part in index)
        stops = (int(part.stop if part.stop is not None else size) for part, size in zip(index, tile.valid, strict=True))
        rows, columns = (stop - start for stop, start in zip(stops, (self.row, self.column), strict=True))
        self.valid = (min(rows, tile.valid[0] - self.row), min(columns, tile.valid[1] - self.column))
        if min(self.row, self.column) < 0 or min(self.valid) < 1:
            raise ExecutorError(f"{tile.name}: an empty slice")
        address = tile.address + (self.row * tile.type.shape[1] + self.column) * tile.type.dtype.size
        if address % 32:
            raise ExecutorError(f"{tile.name}: a slice at {address:#x}, which is no multiple of 32 bytes")


class TileGroup:
    """make_tile_group: slots taken in turn."""

    def __init__(self, name: str, tile_type: TileType, addrs: int | Sequence[int], mutexes: Sequence[int]) -> None:
        if not mutexes:
            raise ExecutorError(f"{name}: the executor knows tile groups with mutex_ids only")
        if any(not 0 <= mutex <= 31 for mutex in mutexes):
            raise ExecutorError(f"{name}: mutex ids are 0 to 31")
        if isinstance(addrs, int):
            addrs = [addrs + slot * tile_type.bytes for slot in range(len(mutexes))]
        if len(addrs) != len(mutexes):
            raise ExecutorError(f"{name}: {len(addrs)} addresses for {len(mutexes)} mutex ids")
        self.tiles = [
            Tile(f"{name}[{slot}]", tile_type, address, frozenset((mutex,)))
            for slot, (address, mutex) in enumerate(zip(addrs, mutexes, strict=True))
        ]
        self.cursor = -1

    def next(self) -> Tile:
        self.cursor += 1
        return self.current()

    def current(self) -> Tile:
        return self.tiles[self.cursor % len(self.tiles)]

