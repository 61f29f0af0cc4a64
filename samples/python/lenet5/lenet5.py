"""LeNet-5 of LeCun et al. 1998 (Gradient-based learning applied to document recognition, section II.B).

The sizes are the paper's. As is usual today, C3 sees all maps of S2, tanh comes before the averaging of S2 and S4 and
is not scaled, and softmax takes the place of the radial basis functions.
"""

from collections.abc import Callable

import mindspore as ms
from mindspore import nn

IMAGE_SIDE = 32  # pixels


def stock_conv_tanh(*args, **kwargs) -> nn.Cell:
    """What ConvTanh replaces: conv2d and tanh of stock MindSpore, with the arguments of nn.Conv2d."""
    return nn.SequentialCell(nn.Conv2d(*args, **kwargs), nn.Tanh())


class LeNet5(nn.Cell):
    """The network, built from any layer with nn.Conv2d's arguments that computes tanh(conv2d(x)).

    Input: images (N, 1, 32, 32). Output: logits (N, 10).
    """

    def __init__(self, layer: Callable[..., nn.Cell]) -> None:
        super().__init__()
        self.c1 = layer(1, 6, 5, pad_mode="valid", has_bias=True)
        self.s2 = nn.AvgPool2d(2, 2)
        self.c3 = layer(6, 16, 5, pad_mode="valid", has_bias=True)
        self.s4 = nn.AvgPool2d(2, 2)
        self.c5 = layer(16, 120, 5, pad_mode="valid", has_bias=True)  # leaves one pixel
        self.flatten = nn.Flatten()
        self.f6 = nn.Dense(120, 84, activation="tanh")
        self.output = nn.Dense(84, 10)

    def construct(self, images: ms.Tensor) -> ms.Tensor:
        maps = self.s4(self.c3(self.s2(self.c1(images))))
        return self.output(self.f6(self.flatten(self.c5(maps))))
