"""Times a graph-mode train step of the demo's ESPCN with ConvTanh beside the same step with stock layers.

Both networks start with the same weights and see the same batch. Their losses over a few steps are compared first; then
the steps take turns, and medians are shown.
"""

import os
import sys
from collections.abc import Callable

import click
import numpy as np

os.environ.setdefault("GLOG_v", "3")  # before MindSpore is imported: errors only

from common import ROOT, interleaved

import mindspore as ms
from mindspore import nn

from ms_convtanh import ConvTanh

sys.path.insert(0, str(ROOT / "samples/python/super_resolution"))
from model import MARGIN, SCALE, Espcn, StockConvTanh

CHECKED_STEPS = 5
TOLERANCE = 1e-4  # of the loss: stock nn.Tanh errs by 1e-4


def train_step(layer: type[nn.Cell], weights: dict[str, np.ndarray]) -> nn.Cell:
    network = Espcn(layer)
    ms.load_param_into_net(network, {name: ms.Parameter(value, name=name) for name, value in weights.items()})
    optimizer = nn.Adam(network.trainable_params(), 1e-3)
    return nn.TrainOneStepCell(nn.WithLossCell(network, nn.MSELoss()), optimizer).set_train()


@click.command(help=__doc__)
@click.option("--batch", default=16, show_default=True, type=click.IntRange(1))
@click.option("--patch", default=64, show_default=True, type=click.IntRange(1), help="Side of a patch.")
@click.option("--seconds", default=20.0, show_default=True, help="Time for the measurement.")
def main(batch: int, patch: int, seconds: float) -> None:
    ms.set_context(device_target="CPU", mode=ms.GRAPH_MODE)
    rng = np.random.default_rng(1)
    side = patch + 2 * MARGIN
    x = ms.Tensor(rng.uniform(-1, 1, (batch, 1, side, side)).astype(np.float32))
    wanted = ms.Tensor(rng.uniform(-0.5, 0.5, (batch, 1, SCALE * patch, SCALE * patch)).astype(np.float32))
    ms.set_seed(1)
    weights = {name: value.asnumpy() for name, value in Espcn(ConvTanh).parameters_dict().items()}

    steps = {name: train_step(layer, weights) for name, layer in (("ours", ConvTanh), ("stock", StockConvTanh))}
    losses = {name: np.array([step(x, wanted).asnumpy() for _ in range(CHECKED_STEPS)]) for name, step in steps.items()}
    np.testing.assert_allclose(losses["ours"], losses["stock"], rtol=TOLERANCE)

    def side_of(step: nn.Cell) -> Callable[[], np.ndarray]:
        return lambda: step(x, wanted).asnumpy()

    times = interleaved({name: side_of(step) for name, step in steps.items()}, seconds)
    print(
        f"ESPCN, batch {batch}, {patch} x {patch} patches, graph mode: train step with ConvTanh "
        f"{times['ours'] * 1e3:.1f} ms, with stock layers {times['stock'] * 1e3:.1f} ms: "
        f"{times['stock'] / times['ours']:.2f} times as fast"
    )


if __name__ == "__main__":
    main()
