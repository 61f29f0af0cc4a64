"""The generator of CycleGAN (Zhu et al. 2017, arXiv:1703.10593, appendix 7.2), which follows Johnson et al. 2016.

In the paper's notation: c7s1-64, d128, d256, residual blocks R256, u128, u64, c7s1-3. The last, the tail, is the only
layer that ends in tanh: a 7x7 convolution of 64 to 3 channels. Reflection padding stands before it, outside the layer.
All other convolutions are followed by instance normalisation and have no bias.
"""

from collections.abc import Callable

import mindspore as ms
from mindspore import nn

TAIL_CHANNELS = 64
TAIL_KERNEL = 7
STRIDE = 4  # of both down layers together: sides of images are multiples of it


def stock_conv_tanh(*args, **kwargs) -> nn.Cell:
    """What ConvTanh replaces: conv2d and tanh of stock MindSpore, with the arguments of nn.Conv2d."""
    return nn.SequentialCell(nn.Conv2d(*args, **kwargs), nn.Tanh())


def instance_norm(channels: int) -> nn.Cell:
    """Normalises each channel of each image: group normalisation with one channel a group."""
    return nn.GroupNorm(channels, channels)


def make_tail(layer: Callable[..., nn.Cell]) -> nn.Cell:
    """c7s1-3 without its padding, from any layer with nn.Conv2d's arguments that computes tanh(conv2d(x))."""
    return layer(TAIL_CHANNELS, 3, TAIL_KERNEL, pad_mode="valid", has_bias=True)


def head(channels: int) -> nn.Cell:
    """c7s1, from an image."""
    convolution = nn.Conv2d(3, channels, 7, pad_mode="valid")
    return nn.SequentialCell(nn.ReflectionPad2d(3), convolution, instance_norm(channels), nn.ReLU())


def down(channels: int) -> nn.Cell:
    """d, to half the height and width, from half the channels."""
    convolution = nn.Conv2d(channels // 2, channels, 3, stride=2, pad_mode="pad", padding=1)
    return nn.SequentialCell(convolution, instance_norm(channels), nn.ReLU())


def up(channels: int) -> nn.Cell:
    """u, to twice the height and width, from twice the channels."""
    convolution = nn.Conv2dTranspose(2 * channels, channels, 3, stride=2, pad_mode="same")
    return nn.SequentialCell(convolution, instance_norm(channels), nn.ReLU())


class ResidualBlock(nn.Cell):
    """R, x plus two 3x3 convolutions of it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.SequentialCell(
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, 3, pad_mode="valid"),
            instance_norm(channels),
            nn.ReLU(),
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, 3, pad_mode="valid"),
            instance_norm(channels),
        )

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return x + self.body(x)


class Generator(nn.Cell):
    """Images (N, 3, H, W) in [-1, 1] to images of the same shape; H and W are multiples of STRIDE, from 8 on.

    Args:
        layer: Makes the tail: `ms_convtanh.ConvTanh` or `stock_conv_tanh`.
        blocks: Residual blocks; the paper has 6 for 128x128 images, 9 for larger ones.
    """

    def __init__(self, layer: Callable[..., nn.Cell], blocks: int) -> None:
        super().__init__()
        residual = [ResidualBlock(256) for _ in range(blocks)]
        self.body = nn.SequentialCell(head(64), down(128), down(256), *residual, up(128), up(TAIL_CHANNELS))
        self.pad = nn.ReflectionPad2d(TAIL_KERNEL // 2)
        self.tail = make_tail(layer)

    def construct(self, images: ms.Tensor) -> ms.Tensor:
        return self.tail(self.pad(self.body(images)))
