"""Public networks in small, as their authors write them, and a float64 run of each for the accuracy of the result."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import reference

import mindspore as ms
from mindspore import Tensor, nn, ops


def lenet() -> nn.Cell:
    """LeNet-5 with its original activation."""
    return nn.SequentialCell(
        nn.Conv2d(1, 6, 5, pad_mode="valid", has_bias=True),
        nn.get_activation("tanh"),
        nn.AvgPool2d(2, 2),
        nn.Conv2d(6, 16, 5, pad_mode="valid", has_bias=True),
        nn.get_activation("tanh"),
        nn.AvgPool2d(2, 2),
        nn.Flatten(),
        nn.Dense(16 * 4 * 4, 32),
        nn.Tanh(),
        nn.Dense(32, 10),
    )


class Espcn(nn.Cell):
    """Super-resolution with a sub-pixel layer."""

    def __init__(self, scale: int = 2) -> None:
        super().__init__()
        self.features = nn.SequentialCell(
            OrderedDict(
                conv1=nn.Conv2d(1, 16, 5, pad_mode="pad", padding=2, has_bias=True),
                tanh1=nn.Tanh(),
                conv2=nn.Conv2d(16, 8, 3, pad_mode="pad", padding=1, has_bias=True),
                tanh2=nn.Tanh(),
            )
        )
        self.upscale = nn.SequentialCell(nn.Conv2d(8, scale**2, 3, has_bias=True), nn.PixelShuffle(scale))

    def construct(self, x: Tensor) -> Tensor:
        return self.upscale(self.features(x))

    def golden(self, x: np.ndarray) -> np.ndarray:
        return golden(self.upscale, golden(self.features, x))


class Residual(nn.Cell):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.block = nn.SequentialCell(
            nn.ReflectionPad2d(1), nn.Conv2d(channels, channels, 3, pad_mode="valid"), nn.GroupNorm(channels, channels)
        )

    def construct(self, x: Tensor) -> Tensor:
        return x + self.block(x)

    def golden(self, x: np.ndarray) -> np.ndarray:
        return x + golden(self.block, x)


def cyclegan() -> nn.Cell:
    """The generator: reflection pads, instance norms (as group norms of one channel), a 7x7 head with tanh."""

    def norm(channels: int) -> list[nn.Cell]:
        return [nn.GroupNorm(channels, channels), nn.ReLU()]

    return nn.SequentialCell(
        nn.SequentialCell(nn.ReflectionPad2d(3), nn.Conv2d(3, 8, 7, pad_mode="valid", has_bias=True), *norm(8)),
        nn.SequentialCell(nn.Conv2d(8, 16, 3, 2, pad_mode="pad", padding=1, has_bias=True), *norm(16)),
        Residual(16),
        Residual(16),
        nn.SequentialCell(nn.Conv2dTranspose(16, 8, 4, 2, pad_mode="pad", padding=1), *norm(8)),
        nn.SequentialCell(nn.ReflectionPad2d(3), nn.Conv2d(8, 3, 7, pad_mode="valid", has_bias=True)),
        nn.Tanh(),
    )


def dcgan() -> nn.Cell:
    """The generator: transposed convolutions up to the tanh."""
    return nn.SequentialCell(
        nn.SequentialCell(nn.Conv2dTranspose(8, 8, 4, 1, pad_mode="valid"), nn.BatchNorm2d(8), nn.ReLU()),
        nn.SequentialCell(nn.Conv2dTranspose(8, 3, 4, 2, pad_mode="pad", padding=1), nn.Tanh()),
    )


class Pix2pix(nn.Cell):
    """The U-Net generator, one level: what goes down is joined to what comes up."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.CellList(
            [nn.Conv2d(3, 8, 4, 2, pad_mode="pad", padding=1), nn.Conv2d(8, 8, 4, 2, pad_mode="pad", padding=1)]
        )
        self.leaky = nn.LeakyReLU(0.2)
        self.up = nn.Conv2dTranspose(8, 8, 4, 2, pad_mode="pad", padding=1)
        self.last = nn.SequentialCell(nn.ReLU(), nn.Conv2dTranspose(16, 3, 4, 2, pad_mode="pad", padding=1), nn.Tanh())

    def construct(self, x: Tensor) -> Tensor:
        skip = self.down[0](x)
        inner = self.up(self.down[1](self.leaky(skip)))
        return self.last(ops.concat((inner, skip), 1))

    def golden(self, x: np.ndarray) -> np.ndarray:
        skip = golden(self.down[0], x)
        inner = golden(self.up, golden(self.down[1], np.where(skip > 0, skip, 0.2 * skip)))
        return golden(self.last, np.concatenate((inner, skip), 1))


def batch_norm_between() -> nn.Cell:
    return nn.SequentialCell(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Tanh())


class UsedTwice(nn.Cell):
    """Tanh is one of two readers of the convolution's output."""

    def __init__(self) -> None:
        super().__init__()
        self.cells_in_order = nn.CellList([nn.Conv2d(3, 4, 3, has_bias=True), nn.Tanh()])

    def construct(self, x: Tensor) -> Tensor:
        y = self.cells_in_order[0](x)
        return self.cells_in_order[1](y) + y

    def golden(self, x: np.ndarray) -> np.ndarray:
        y = golden(self.cells_in_order[0], x)
        return np.tanh(y) + y


class Stages(nn.Cell):
    """Loops over lists of lists; groups, dilations and strides."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.CellList(
            [
                nn.CellList([nn.Conv2d(4, 8, 3, 2, group=2, has_bias=True), nn.Tanh()]),
                nn.CellList([nn.Conv2d(8, 8, 3, dilation=2, group=8), nn.SequentialCell(nn.Tanh(), nn.ReLU())]),
            ]
        )

    def construct(self, x: Tensor) -> Tensor:
        for stage in self.stages:
            for cell in stage:
                x = cell(x)
        return x

    def golden(self, x: np.ndarray) -> np.ndarray:
        for cell in (cell for stage in self.stages for cell in stage):
            x = golden(cell, x)
        return x


class Functional(nn.Cell):
    """No Tanh cell at all: only a graph pass sees the pair."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, has_bias=True)

    def construct(self, x: Tensor) -> Tensor:
        return ops.tanh(self.conv(x))

    def golden(self, x: np.ndarray) -> np.ndarray:
        return np.tanh(golden(self.conv, x))


def two_in_a_row() -> nn.Cell:
    return nn.SequentialCell(nn.Conv2d(3, 5, 3), nn.Tanh(), nn.Conv2d(5, 2, (1, 3), has_bias=True), nn.Tanh())


def even_kernels() -> nn.Cell:
    """pad_mode "same", whose pads are not equal on both sides here."""
    return nn.SequentialCell(
        nn.Conv2d(3, 4, 2, has_bias=True),
        nn.Tanh(),
        nn.Conv2d(4, 4, (4, 2), 3),
        nn.Tanh(),
        nn.Conv2d(4, 2, 4, dilation=3),
        nn.Tanh(),
    )


@dataclass(frozen=True)
class Case:
    """A network, an input shape, and how many pairs fuse() and the graph pass find in it."""

    make: Callable[[], nn.Cell]
    x: tuple[int, ...]
    cells: int
    graph: int


CASES = {
    "lenet": Case(lenet, (2, 1, 28, 28), 2, 2),
    "espcn": Case(Espcn, (1, 1, 17, 20), 2, 2),
    "cyclegan": Case(cyclegan, (1, 3, 16, 16), 1, 1),
    "dcgan": Case(dcgan, (2, 8, 1, 1), 0, 0),
    "pix2pix": Case(Pix2pix, (1, 3, 16, 16), 0, 0),
    "batch_norm_between": Case(batch_norm_between, (2, 3, 8, 8), 0, 0),
    "used_twice": Case(UsedTwice, (2, 3, 8, 8), 0, 0),
    "stages": Case(Stages, (1, 4, 11, 12), 2, 2),
    "functional": Case(Functional, (1, 3, 8, 8), 0, 1),
    "two_in_a_row": Case(two_in_a_row, (2, 3, 9, 7), 2, 2),
    "even_kernels": Case(even_kernels, (1, 3, 10, 13), 3, 3),
}


def made(case: Case) -> tuple[nn.Cell, np.ndarray]:
    """The network, ready for inference, with weights that differ, and an input."""
    ms.set_seed(3)
    network = case.make().set_train(False)
    rng = np.random.default_rng(3)
    for parameter in network.get_parameters():
        # Not the initial zeros and ones of norms, and sums of the order of 1.
        scale = 1 / np.prod(parameter.shape[1:]) ** 0.5 if parameter.ndim > 1 else 0.25
        start = 1.0 if parameter.name.endswith(("gamma", "moving_variance")) else 0.0
        values = start + rng.uniform(-scale, scale, parameter.shape)
        parameter.set_data(Tensor(values.astype(np.float32)))
    return network, rng.uniform(-1, 1, case.x).astype(np.float32)


def _same_pads(x: np.ndarray, cell: nn.Cell) -> tuple[int, ...]:
    pads: list[int] = []
    for size, taps, stride, dilation in zip(x.shape[2:], cell.kernel_size, cell.stride, cell.dilation, strict=True):
        total = max((-(-size // stride) - 1) * stride + dilation * (taps - 1) + 1 - size, 0)
        pads += [total // 2, total - total // 2]
    return tuple(pads)


def _of(parameter: Any) -> np.ndarray:
    return parameter.asnumpy().astype(np.float64)


def _conv2d(cell: Any, x: np.ndarray) -> np.ndarray:
    pads = _same_pads(x, cell) if cell.pad_mode == "same" else np.broadcast_to(cell.padding, 4)
    bias = _of(cell.bias) if cell.has_bias else None
    return reference.conv2d(x, _of(cell.weight), bias, cell.stride, pads, cell.dilation, cell.group)


def _transposed(cell: Any, x: np.ndarray) -> np.ndarray:
    """The gradient of a convolution by its input."""
    pads = np.broadcast_to(cell.padding, 4)
    sizes = [
        (size - 1) * stride + taps - pads[2 * axis] - pads[2 * axis + 1]
        for axis, (size, stride, taps) in enumerate(zip(x.shape[2:], cell.stride, cell.kernel_size, strict=True))
    ]
    y = np.zeros((x.shape[0], cell.out_channels, *sizes))
    return reference.conv2d_gradients(x, y, _of(cell.weight), cell.stride, pads)[0]


def _group_norm(cell: Any, x: np.ndarray) -> np.ndarray:
    grouped = x.reshape(x.shape[0], cell.num_groups, -1)
    normal = (grouped - grouped.mean(-1, keepdims=True)) / np.sqrt(grouped.var(-1, keepdims=True) + cell.eps)
    return normal.reshape(x.shape) * _of(cell.gamma)[:, None, None] + _of(cell.beta)[:, None, None]


def _batch_norm(cell: Any, x: np.ndarray) -> np.ndarray:
    mean, variance, gamma, beta = (
        _of(p)[:, None, None] for p in (cell.moving_mean, cell.moving_variance, cell.gamma, cell.beta)
    )
    return (x - mean) / np.sqrt(variance + cell.eps) * gamma + beta


def _average_pool(cell: Any, x: np.ndarray) -> np.ndarray:
    n, c, h, w = x.shape
    return x[:, :, : h // 2 * 2, : w // 2 * 2].reshape(n, c, h // 2, 2, w // 2, 2).mean((3, 5))


def _pixel_shuffle(cell: Any, x: np.ndarray) -> np.ndarray:
    n, c, h, w = x.shape
    r = cell.upscale_factor
    return x.reshape(n, c // r**2, r, r, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // r**2, h * r, w * r)


def _reflection_pad(cell: Any, x: np.ndarray) -> np.ndarray:
    left, right, top, bottom = np.broadcast_to(np.ravel(cell.padding), 4)
    return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), "reflect")


_FORMULAS: dict[type[nn.Cell], Callable[[Any, np.ndarray], np.ndarray]] = {
    nn.AvgPool2d: _average_pool,
    nn.BatchNorm2d: _batch_norm,
    nn.Conv2d: _conv2d,
    nn.Conv2dTranspose: _transposed,
    nn.Dense: lambda cell, x: x @ _of(cell.weight).T + _of(cell.bias),
    nn.Flatten: lambda cell, x: x.reshape(len(x), -1),
    nn.GroupNorm: _group_norm,
    nn.PixelShuffle: _pixel_shuffle,
    nn.ReflectionPad2d: _reflection_pad,
    nn.ReLU: lambda cell, x: np.maximum(x, 0),
    nn.Tanh: lambda cell, x: np.tanh(x),
}


def golden(cell: Any, x: np.ndarray) -> np.ndarray:
    """The unfused network's result in float64."""
    x = x.astype(np.float64)
    if isinstance(cell, nn.SequentialCell):
        for inner in cell:
            x = golden(inner, x)
        return x
    return cell.golden(x) if hasattr(cell, "golden") else _FORMULAS[type(cell)](cell, x)
