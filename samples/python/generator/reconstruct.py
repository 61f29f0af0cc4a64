"""Times a CycleGAN generator with a ConvTanh tail beside stock layers, and trains it to reconstruct photographs.

The photographs are the two that scikit-learn ships, shrunk. First the tail and the whole generator run forward and
backward, with stock nn.Conv2d and nn.Tanh and with ConvTanh; outputs and gradients are compared before times are
printed. Then the generator with the ConvTanh tail trains for a few steps on both photographs, and what it makes of them
is drawn.
"""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from sklearn.datasets import load_sample_images

os.environ.setdefault("GLOG_v", "3")  # before MindSpore is imported: errors only

import mindspore as ms
from mindspore import nn

from generator import STRIDE, TAIL_CHANNELS, TAIL_KERNEL, Generator, make_tail, stock_conv_tanh
from ms_convtanh import ConvTanh

STOCK, OURS = "stock layers", "ConvTanh"
LAYERS = {STOCK: stock_conv_tanh, OURS: ConvTanh}
HEIGHT_STEP = 2 * STRIDE  # then the width, 3 / 2 of the height, is a multiple of STRIDE too
TOLERANCE = 1e-3  # of a tensor's largest element, between the layers: stock nn.Tanh errs by 1e-4
TIMED_RUNS, TIMED_SECONDS = 10, 5.0  # runs are repeated until either is reached

console = Console(highlight=False)


class Measured(NamedTuple):
    """What a network gives, and the median seconds of a run, after a first one that compiles."""

    output: np.ndarray
    gradients: dict[str, np.ndarray]  # by the names of the parameters, and "x" if asked for
    forward: float
    forward_backward: float


def read_photos(height: int) -> np.ndarray:
    """The photographs china.jpg and flower.jpg of scikit-learn, shrunk, in [-1, 1]: (2, 3, height, width), float32."""
    size = (height * 3 // 2, height)  # both are 640 x 427
    photos = [Image.fromarray(photo).resize(size, Image.Resampling.BICUBIC) for photo in load_sample_images().images]
    return np.stack([np.asarray(photo, dtype=np.float32).transpose(2, 0, 1) / 127.5 - 1 for photo in photos])


def timed(run: Callable[[], object]) -> float:
    """The median seconds of a run."""
    seconds: list[float] = []
    while len(seconds) < TIMED_RUNS and sum(seconds) < TIMED_SECONDS:
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def measure(network: nn.Cell, x: np.ndarray, target: np.ndarray, gradient_of_x: bool) -> Measured:
    """Runs a network forward, and backward from its squared error.

    The error is squared, because the gradient of an absolute one jumps where the output meets the target.
    """
    x, target = ms.Tensor(x), ms.Tensor(target)
    parameters = network.trainable_params()
    error = nn.WithLossCell(network, nn.MSELoss())
    backward = ms.value_and_grad(error, 0 if gradient_of_x else None, parameters)

    def forward_backward() -> dict[str, np.ndarray]:
        _, gradients = backward(x, target)
        of_x, of_parameters = gradients if gradient_of_x else (None, gradients)
        named = {"x": of_x} if gradient_of_x else {}
        named.update(zip((parameter.name for parameter in parameters), of_parameters, strict=True))
        return {name: gradient.asnumpy() for name, gradient in named.items()}

    output, gradients = network(x).asnumpy(), forward_backward()
    return Measured(output, gradients, timed(lambda: network(x).asnumpy()), timed(forward_backward))


def measure_tail(layer: Callable[..., nn.Cell], photos: np.ndarray, seed: int) -> Measured:
    """The tail alone, from random features to the photographs, with the gradients of the features too."""
    ms.set_seed(seed)
    count, _, height, width = photos.shape
    shape = (count, TAIL_CHANNELS, height + TAIL_KERNEL - 1, width + TAIL_KERNEL - 1)
    features = np.random.default_rng(seed).uniform(0, 1, shape).astype(np.float32)
    return measure(make_tail(layer), features, photos, gradient_of_x=True)


def measure_generator(layer: Callable[..., nn.Cell], blocks: int, photos: np.ndarray, seed: int) -> Measured:
    """The whole generator from the photographs to themselves, with the gradients that a training step needs."""
    ms.set_seed(seed)
    return measure(Generator(layer, blocks), photos, photos, gradient_of_x=False)


def largest_difference(ours: np.ndarray, stock: np.ndarray) -> float:
    """In parts of stock's largest element."""
    return float(np.max(np.abs(ours - stock)) / np.max(np.abs(stock)))


def check_agreement(name: str, ours: Measured, stock: Measured) -> float:
    """The largest difference of outputs and gradients; raises click.ClickException when it is too large."""
    pairs = {"output": (ours.output, stock.output)}
    stock_gradients = stock.gradients.values()  # in the same order; the parameters' names differ
    for (parameter, gradient), stock_gradient in zip(ours.gradients.items(), stock_gradients, strict=True):
        pairs[f"gradient of {parameter}"] = (gradient, stock_gradient)
    differences = {part: largest_difference(*pair) for part, pair in pairs.items()}
    for part, difference in differences.items():
        if not difference <= TOLERANCE:  # also when it is NaN
            raise click.ClickException(
                f"{name}: {part} differs from stock MindSpore: expected at most {TOLERANCE:g}, got {difference:.2g}"
            )
    return max(differences.values())


def report_times(rows: dict[str, dict[str, Measured]]) -> None:
    """Prints the times of the named networks, each with both layers, if their results agree."""
    difference = max(check_agreement(name, row[OURS], row[STOCK]) for name, row in rows.items())
    table = Table("", STOCK, OURS, "")
    for name, row in rows.items():
        for part, way in (("forward", "forward"), ("forward + backward", "forward_backward")):
            stock, ours = getattr(row[STOCK], way), getattr(row[OURS], way)
            table.add_row(
                f"{name}, {part}", f"{stock * 1e3:.1f} ms", f"{ours * 1e3:.1f} ms", f"{stock / ours:.1f} times as fast"
            )
    console.print(table)
    console.print(f"largest difference of outputs and gradients, of the largest element: {difference:.1e}")


def train(network: nn.Cell, photos: np.ndarray, *, steps: int, seconds: float, learning_rate: float) -> list[float]:
    """Trains the network to give back the photographs, as long as the time allows; the squared error at every step."""
    optimizer = nn.Adam(network.trainable_params(), learning_rate, beta1=0.5)  # the paper's Adam
    step = nn.TrainOneStepCell(nn.WithLossCell(network, nn.MSELoss()), optimizer)
    step.set_train()
    x, losses, end = ms.Tensor(photos), [], time.perf_counter() + seconds
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("training", total=steps)
        while not losses or (len(losses) < steps and time.perf_counter() < end):
            losses.append(float(step(x, x).asnumpy()))
            progress.update(task, advance=1, description=f"training: squared error {losses[-1]:.4f}")
    return losses


def squared_error(output: np.ndarray, photos: np.ndarray) -> float:
    return float(np.mean(np.square(output - photos)))


def picture(losses: list[float], rows: dict[str, np.ndarray]) -> Figure:
    """The loss curve, and below it the captioned rows of photographs."""
    count = len(next(iter(rows.values())))
    figure = Figure(figsize=(4.5 * count, 3 + 3.2 * len(rows)), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=(3, 3.2 * len(rows)))
    axes = top.subplots()
    axes.plot(range(1, len(losses) + 1), losses)
    axes.set(xlabel="step", ylabel="squared error", yscale="log", title="Training loss")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.3)
    for axes_row, (caption, photos) in zip(bottom.subplots(len(rows), count), rows.items(), strict=True):
        for axes, photo in zip(axes_row, photos, strict=True):
            axes.imshow(np.rint((photo.transpose(1, 2, 0) + 1) * 127.5).astype(np.uint8))
            axes.set_title(caption)
            axes.set_axis_off()
    return figure


def check_height(_context: click.Context, _parameter: click.Parameter, height: int) -> int:
    if height % HEIGHT_STEP:
        raise click.BadParameter(f"expected a multiple of {HEIGHT_STEP}, got {height}.")
    return height


def check_output(_context: click.Context, _parameter: click.Parameter, output: Path) -> Path:
    if output.suffix.lower() != ".png":
        raise click.BadParameter(f"expected a name that ends in .png, got '{output}'.")
    if not output.absolute().parent.is_dir():  # known before the training, not after it
        raise click.BadParameter(f"the folder '{output.parent}' does not exist.")
    return output


@click.command(help=__doc__)
@click.option("--steps", default=60, show_default=True, type=click.IntRange(1))
@click.option(
    "--seconds",
    default=60.0,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    help="No further step begins later: stock convolutions are slow on some CPUs.",
)
@click.option(
    "--height",
    default=48,
    show_default=True,
    type=click.IntRange(HEIGHT_STEP, 416),
    callback=check_height,
    help=f"Of the photographs, in pixels; a multiple of {HEIGHT_STEP}.",
)
@click.option("--blocks", default=2, show_default=True, type=click.IntRange(1), help="Residual blocks.")
@click.option("--learning-rate", default=2e-4, show_default=True, type=click.FloatRange(0, min_open=True))
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0, 2**32 - 1))
@click.option("--no-stock", is_flag=True, help="Do not run stock layers beside ConvTanh: no times, only training.")
@click.option(
    "--output",
    default="generator.png",
    show_default=True,
    help="The picture to write.",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=check_output,
)
def main(
    steps: int,
    seconds: float,
    height: int,
    blocks: int,
    learning_rate: float,
    seed: int,
    no_stock: bool,
    output: Path,
) -> None:
    ms.set_context(device_target="CPU", mode=ms.GRAPH_MODE)
    photos = read_photos(height)
    if not no_stock:
        with console.status("running stock layers and ConvTanh forward and backward"):
            rows = {
                "tail": {name: measure_tail(layer, photos, seed) for name, layer in LAYERS.items()},
                "generator": {name: measure_generator(layer, blocks, photos, seed) for name, layer in LAYERS.items()},
            }
        report_times(rows)

    ms.set_seed(seed)
    network, x = Generator(ConvTanh, blocks), ms.Tensor(photos)
    before = network(x).asnumpy()
    losses = train(network, photos, steps=steps, seconds=seconds, learning_rate=learning_rate)
    after = network(x).asnumpy()
    console.print(
        f"squared error: {squared_error(before, photos):.4f} before {len(losses)} steps, "
        f"{squared_error(after, photos):.4f} after them"
    )
    rows = {"photograph": photos, "before training": before, f"after {len(losses)} steps": after}
    try:
        picture(losses, rows).savefig(output, dpi=80)
    except OSError as error:
        raise click.ClickException(f"cannot write {output}: {error}") from error
    console.print(f"wrote {output}", soft_wrap=True)


if __name__ == "__main__":
    main()
