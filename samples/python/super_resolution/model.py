"""ESPCN, the efficient sub-pixel convolutional network of Shi et al. 2016 (arXiv:1609.05158), in conv + tanh layers.

The paper's sizes: 5x5 1 -> 64, 3x3 64 -> 32, 3x3 32 -> scale * scale channels, then a sub-pixel shuffle. Two choices
are ours. The last layer has its tanh too, and what it gives, in [-1, 1], is the detail that bicubic enlargement misses,
in units of `DETAIL_RANGE`. No layer pads: the caller adds `MARGIN` pixels on every side, so that the training patches
can have true ones.
"""

import numpy as np

import mindspore as ms
from mindspore import nn

import images

SCALE = 2  # the enlargement that the checkpoint is trained for
MARGIN = 4  # low-resolution pixels that the three layers use up on every side: 2 + 1 + 1
DETAIL_RANGE = 0.25  # of the luma range [0, 1]; missing detail hardly ever exceeds it


class StockConvTanh(nn.Conv2d):
    """conv2d and tanh of stock MindSpore, with the parameter names of `ms_convtanh.ConvTanh`."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.tanh = nn.Tanh()

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return self.tanh(super().construct(x))


class Espcn(nn.Cell):
    """The network, built from any layer class with nn.Conv2d's constructor that computes tanh(conv2d(x)).

    Input: luma in [-1, 1], (N, 1, height + 2 * MARGIN, width + 2 * MARGIN).
    Output: detail in [-1, 1], (N, 1, scale * height, scale * width).
    """

    def __init__(self, layer: type[nn.Cell], scale: int = SCALE) -> None:
        super().__init__()
        self.conv1 = layer(1, 64, 5, pad_mode="valid", has_bias=True)
        self.conv2 = layer(64, 32, 3, pad_mode="valid", has_bias=True)
        self.conv3 = layer(32, scale * scale, 3, pad_mode="valid", has_bias=True)
        self.shuffle = nn.PixelShuffle(scale)

    def construct(self, luma: ms.Tensor) -> ms.Tensor:
        return self.shuffle(self.conv3(self.conv2(self.conv1(luma))))


def network_input(luma: np.ndarray) -> np.ndarray:
    """Luma in [0, 1] as the network wants it: centred on 0. The shape is kept."""
    return luma * np.float32(2) - np.float32(1)


def whole_image_input(luma: np.ndarray) -> ms.Tensor:
    """A whole image (height, width), luma in [0, 1], with its edge pixels repeated into the margin."""
    return ms.Tensor(network_input(np.pad(luma, MARGIN, mode="edge"))[None, None])


def add_detail(luma: np.ndarray, detail: np.ndarray, scale: int = SCALE) -> np.ndarray:
    """The enlarged image, luma in [0, 1]: bicubic enlargement plus the network's detail (1, 1, height, width)."""
    return np.clip(images.bicubic(luma, scale) + np.float32(DETAIL_RANGE) * detail[0, 0], 0, 1)


def upscale(network: nn.Cell, luma: np.ndarray, scale: int = SCALE) -> np.ndarray:
    """Enlarges an image (height, width), luma in [0, 1], by the network."""
    return add_detail(luma, network(whole_image_input(luma)).asnumpy(), scale)
