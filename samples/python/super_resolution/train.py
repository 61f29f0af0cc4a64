"""Trains the network of model.py, with ConvTanh layers in MindSpore, and writes its checkpoint.

The photographs are those that scikit-learn and scikit-image ship. One is held out: the demo's. Its PSNR is shown while
training; the checkpoint is that of the last step, not of the best.
"""

import os
from pathlib import Path

import click
import numpy as np
from PIL import Image
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

os.environ.setdefault("GLOG_v", "3")  # before MindSpore is imported: errors only

import mindspore as ms
from mindspore import nn

import images
from model import DETAIL_RANGE, MARGIN, SCALE, Espcn, network_input, upscale
from ms_convtanh import ConvTanh

HERE = Path(__file__).parent
TRAINING = [
    ("sklearn.datasets.images", "china.jpg"),
    *[("skimage.data", name) for name in ("astronaut.png", "camera.png", "chelsea.png", "coffee.png", "rocket.jpg")],
    *[("skimage.data", name) for name in ("brick.png", "grass.png", "gravel.png")],
]
SIZES = (1.0, 0.8, 0.6)  # every photograph is also used shrunk, for finer detail


class Patches:
    """Random patches of photographs as (input, wanted output) of the network."""

    def __init__(self, photos: list[Image.Image], patch: int, seed: int) -> None:
        """patch: the side, in low-resolution pixels, of what the network enlarges of one patch.

        Raises ValueError when a photograph is smaller than a patch and its margin.
        """
        self._patch = patch
        self._random = np.random.default_rng(seed)
        self._images = []
        for photo in photos:
            for size in SIZES:
                whole = photo.resize((int(photo.width * size), int(photo.height * size)), Image.Resampling.BICUBIC)
                whole = images.trim(whole, SCALE)
                low = images.luma_of(images.shrink(whole, SCALE))
                detail = (images.luma_of(whole) - images.bicubic(low, SCALE)) / np.float32(DETAIL_RANGE)
                self._images.append((network_input(low), detail))
        largest = min(min(low.shape) for low, _ in self._images) - 2 * MARGIN
        if patch > largest:
            raise ValueError(f"patch: expected at most {largest}, the smallest photograph's side, got {patch}")
        areas = np.array([low.size for low, _ in self._images], dtype=np.float64)
        self._weights = areas / areas.sum()

    def batch(self, count: int) -> tuple[ms.Tensor, ms.Tensor]:
        pairs = [self._one() for _ in range(count)]
        return tuple(ms.Tensor(np.stack(arrays)[:, None]) for arrays in zip(*pairs, strict=True))

    def _one(self) -> tuple[np.ndarray, np.ndarray]:
        low, detail = self._images[self._random.choice(len(self._images), p=self._weights)]
        side = self._patch + 2 * MARGIN
        y, x = (int(self._random.integers(length - side + 1)) for length in low.shape)
        top, left, inner = (y + MARGIN) * SCALE, (x + MARGIN) * SCALE, self._patch * SCALE
        turns, mirrored = int(self._random.integers(4)), bool(self._random.integers(2))
        pair = (low[y : y + side, x : x + side], detail[top : top + inner, left : left + inner])
        pair = tuple(np.rot90(array, turns) for array in pair)
        return tuple(np.fliplr(array) for array in pair) if mirrored else pair


def held_out_psnr(network: nn.Cell) -> tuple[float, float]:
    """PSNR of bicubic and of the network on the photograph that is not trained on."""
    photo = images.trim(images.read_photo(images.packaged_photo(*images.HELD_OUT)), SCALE)
    original, low = images.luma_of(photo), images.luma_of(images.shrink(photo, SCALE))
    return (
        images.psnr(images.bicubic(low, SCALE), original, border=SCALE),
        images.psnr(upscale(network, low), original, border=SCALE),
    )


@click.command(help=__doc__)
@click.option("--steps", default=30_000, show_default=True, type=click.IntRange(1))
@click.option("--batch", default=16, show_default=True, type=click.IntRange(1), help="Patches of one step.")
@click.option("--patch", default=17, show_default=True, type=click.IntRange(1), help="Side of a patch, low-resolution.")
@click.option(
    "--learning-rate",
    default=1e-3,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    help="Of the first step; it falls to 0 along a cosine.",
)
@click.option("--validate-every", default=2_000, show_default=True, type=click.IntRange(1), metavar="STEPS")
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--output",
    default=HERE / f"espcn_x{SCALE}.ckpt",
    show_default="beside this script",
    type=click.Path(dir_okay=False, path_type=Path),
)
def main(
    steps: int, batch: int, patch: int, learning_rate: float, validate_every: int, seed: int, output: Path
) -> None:
    ms.set_context(device_target="CPU", mode=ms.GRAPH_MODE)
    ms.set_seed(seed)
    try:
        photos = [images.read_photo(images.packaged_photo(*photo)) for photo in TRAINING]
    except FileNotFoundError as error:
        raise click.ClickException(f"{error}; pip install scikit-learn scikit-image") from error
    try:
        patches = Patches(photos, patch, seed)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if not output.absolute().parent.is_dir():  # known before the long work, not after it
        raise click.BadParameter(f"output: the folder '{output.parent}' does not exist.")
    network = Espcn(ConvTanh)
    optimizer = nn.Adam(network.trainable_params(), nn.CosineDecayLR(0.0, learning_rate, steps))
    step = nn.TrainOneStepCell(nn.WithLossCell(network, nn.MSELoss()), optimizer)
    step.set_train()

    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("", total=steps)
        losses = []
        for done in range(1, steps + 1):
            losses.append(step(*patches.batch(batch)))
            progress.advance(task)
            if done % validate_every == 0 or done == steps:
                loss = np.mean([float(value.asnumpy()) for value in losses])
                losses.clear()
                bicubic, ours = held_out_psnr(network)
                progress.print(
                    f"step {done}: loss {loss:.5f}, held-out photograph {ours:.2f} dB "
                    f"(bicubic {bicubic:.2f} dB, {ours - bicubic:+.2f})"
                )
    ms.save_checkpoint(network, str(output))
    output.chmod(0o644)  # MindSpore lets nobody but its user read a checkpoint
    click.echo(f"wrote {output}")


if __name__ == "__main__":
    main()
