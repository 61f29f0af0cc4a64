"""What is measured: single layers tanh(conv2d(x)), and whole networks whose convolutions all carry a tanh.

Both are models: a chain of layers with their weights, from which every side of the comparison builds its own form.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ms_convtanh._compare import DTYPES
from ms_convtanh._reference import conv2d

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class ConvTanhLayer:
    """tanh(conv2d(x, filter, bias))."""

    conv_filter: Array  # [co, ci / groups, kh, kw]
    bias: Array  # [co]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)  # top, bottom, left, right
    dilations: tuple[int, int] = (1, 1)
    groups: int = 1

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes, by the operator's names."""
        return {name: getattr(self, name) for name in ("strides", "pads", "dilations", "groups")}

    def golden(self, x: Array) -> Array:
        w, bias = self.conv_filter.astype(np.float64), self.bias.astype(np.float64)
        sums = conv2d(x, w, self.strides, self.pads, self.dilations, self.groups)
        return np.tanh(sums + bias[:, None, None])

    def flops(self, y: Array) -> int:
        return 2 * y.size * math.prod(self.conv_filter.shape[1:])


@dataclass(frozen=True)
class AveragePool:
    """The mean of each 2x2 block of pixels."""

    def golden(self, x: Array) -> Array:
        n, channels, height, width = x.shape
        return x.reshape(n, channels, height // 2, 2, width // 2, 2).mean((3, 5))

    def flops(self, y: Array) -> int:
        return 0


@dataclass(frozen=True)
class Flatten:
    """[n, c, 1, 1] as [n, c]."""

    def golden(self, x: Array) -> Array:
        return x.reshape(x.shape[0], -1)

    def flops(self, y: Array) -> int:
        return 0


@dataclass(frozen=True, eq=False)
class Dense:
    """x W^T + b, and tanh of it."""

    weight: Array  # [outputs, inputs]
    bias: Array
    tanh: bool

    def golden(self, x: Array) -> Array:
        z = x @ self.weight.astype(np.float64).T + self.bias.astype(np.float64)
        return np.tanh(z) if self.tanh else z

    def flops(self, y: Array) -> int:
        return 2 * y.size * self.weight.shape[1]


@dataclass(frozen=True)
class PixelShuffle:
    """Depth to space: [n, scale * scale, h, w] as [n, 1, scale * h, scale * w]."""

    scale: int

    def golden(self, x: Array) -> Array:
        n, _, height, width = x.shape
        parts = x.reshape(n, self.scale, self.scale, height, width)
        return parts.transpose(0, 3, 1, 4, 2).reshape(n, 1, height * self.scale, width * self.scale)

    def flops(self, y: Array) -> int:
        return 0


Layer = ConvTanhLayer | AveragePool | Flatten | Dense | PixelShuffle


@dataclass(frozen=True, eq=False)
class Model:
    """A chain of layers and its input."""

    name: str
    dtype: str
    x: Array
    layers: tuple[Layer, ...]

    @property
    def is_case(self) -> bool:
        """Whether it is one convolution, and no network."""
        return len(self.layers) == 1

    @cached_property
    def _outputs(self) -> tuple[Array, int]:
        """The output in float64, and the operations on the way."""
        y, flops = self.x.astype(np.float64), 0
        for layer in self.layers:
            y = layer.golden(y)
            flops += layer.flops(y)
        return y, flops

    @property
    def golden(self) -> Array:
        """The output in float64."""
        return self._outputs[0]

    @property
    def flops(self) -> int:
        """Of convolutions and dense layers; a multiplication and an addition for each product."""
        return self._outputs[1]

    @property
    def bytes(self) -> int:
        """Of input, weights and output, each once: what has to move at least."""
        weights = sum(
            value.nbytes for layer in self.layers for value in vars(layer).values() if hasattr(value, "nbytes")
        )
        return self.x.nbytes + weights + self.golden.size * self.x.itemsize


# name, x, filter, stride, pad and dilation of the eight geometries, each in three dtypes. A case's number, from 1,
# seeds its data.
_GEOMETRIES: tuple[tuple[str, Sequence[int], Sequence[int], int, int, int], ...] = (
    ("k1_64_128_28", (4, 64, 28, 28), (128, 64, 1, 1), 1, 0, 1),
    ("k1_320_16_127", (1, 320, 127, 127), (16, 320, 1, 1), 1, 0, 1),
    ("k3_64_32_256", (1, 64, 256, 256), (32, 64, 3, 3), 1, 1, 1),
    ("k3_s2_64_128_56", (2, 64, 56, 56), (128, 64, 3, 3), 2, 1, 1),
    ("k3_d2_64_64_32", (1, 64, 32, 32), (64, 64, 3, 3), 1, 2, 2),
    ("k5_1_64_256", (1, 1, 256, 256), (64, 1, 5, 5), 1, 2, 1),
    ("k7_s2_3_64_224", (1, 3, 224, 224), (64, 3, 7, 7), 2, 3, 1),
    ("k7_64_3_256", (1, 64, 256, 256), (3, 64, 7, 7), 1, 3, 1),
)
_CASE_DTYPES = ("float16", "float32", "bfloat16")


def case_names() -> list[str]:
    """The 24 cases in their order."""
    return [f"{name}_{dtype}" for name, *_ in _GEOMETRIES for dtype in _CASE_DTYPES]


def _case(name: str) -> Model:
    names = case_names()
    index = names.index(name)
    _, x_shape, filter_shape, stride, pad, dilation = _GEOMETRIES[index // len(_CASE_DTYPES)]
    dtype = _CASE_DTYPES[index % len(_CASE_DTYPES)]
    random = np.random.default_rng(index + 1)

    def uniform(limit: float, shape: Sequence[int]) -> Array:
        return random.uniform(-limit, limit, tuple(shape)).astype(DTYPES[dtype])

    x, conv_filter, bias = uniform(1, x_shape), uniform(0.1, filter_shape), uniform(0.5, filter_shape[:1])
    layer = ConvTanhLayer(conv_filter, bias, (stride,) * 2, (pad,) * 4, (dilation,) * 2)
    return Model(name, dtype, x, (layer,))


def _weights(random: np.random.Generator, *shape: int) -> tuple[Array, Array]:
    """Of a layer, scaled so that its sums are of the order of 1, and a bias."""
    limit = math.sqrt(3 / math.prod(shape[1:]))
    return random.uniform(-limit, limit, shape).astype(np.float32), random.uniform(-0.1, 0.1, shape[0]).astype(
        np.float32
    )


def _network(name: str, x_shape: Sequence[int], layers: Sequence[Layer]) -> Model:
    x = np.random.default_rng(1).uniform(-1, 1, tuple(x_shape)).astype(np.float32)
    return Model(name, "float32", x, tuple(layers))


def espcn(name: str, batch: int, side: int) -> Model:
    """ESPCN x2 of Shi et al. 2016 (arXiv:1609.05158) on side x side images, as in samples/python/super_resolution:
    every convolution has its tanh, and the caller pads by the 4 pixels that the layers use up."""
    random = np.random.default_rng(side)
    shapes = ((64, 1, 5, 5), (32, 64, 3, 3), (4, 32, 3, 3))
    layers = tuple(ConvTanhLayer(*_weights(random, *shape)) for shape in shapes)
    return _network(name, (batch, 1, side + 8, side + 8), (*layers, PixelShuffle(2)))


def _lenet5(name: str, batch: int) -> Model:
    """LeNet-5 of LeCun et al. 1998 as in samples/python/lenet5."""
    random = np.random.default_rng(5)
    c1, c3, c5 = (ConvTanhLayer(*_weights(random, *shape)) for shape in ((6, 1, 5, 5), (16, 6, 5, 5), (120, 16, 5, 5)))
    head = (Dense(*_weights(random, 84, 120), tanh=True), Dense(*_weights(random, 10, 84), tanh=False))
    return _network(name, (batch, 1, 32, 32), (c1, AveragePool(), c3, AveragePool(), c5, Flatten(), *head))


def _depth_tail(name: str, side: int) -> Model:
    """The last layers of an image generator or depth network: 7x7 to three channels, then 3x3."""
    random = np.random.default_rng(7)
    tail = ConvTanhLayer(*_weights(random, 3, 64, 7, 7), pads=(3, 3, 3, 3))
    return _network(name, (1, 64, side, side), (tail, ConvTanhLayer(*_weights(random, 3, 3, 3, 3), pads=(1, 1, 1, 1))))


_NETWORKS = {
    "espcn_256": lambda name: espcn(name, 1, 256),
    "espcn_1024": lambda name: espcn(name, 1, 1024),
    "lenet5_b64": lambda name: _lenet5(name, 64),
    "depth_tail_256": lambda name: _depth_tail(name, 256),
}


def network_names() -> list[str]:
    """The networks, which are in float32."""
    return list(_NETWORKS)


def make(name: str) -> Model:
    """The case or network of this name."""
    return _NETWORKS[name](name) if name in _NETWORKS else _case(name)
