"""Trains LeNet-5 with ConvTanh layers on scikit-learn's handwritten digits, and draws the loss curve.

A quarter of the 1797 digits is held out; the accuracy is that on them. --compare trains once more, with stock nn.Conv2d
and nn.Tanh from the same initial weights and in the same order, and fails if the accuracies differ by more than noise.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

os.environ.setdefault("GLOG_v", "3")  # before MindSpore is imported: errors only

import mindspore as ms
from mindspore import nn

from lenet5 import IMAGE_SIDE, LeNet5, stock_conv_tanh
from ms_convtanh import ConvTanh

DIGIT_SIDE = 24  # pixels: 3 times the data set's; the rest of an image is background, as in the paper
MARGIN = (IMAGE_SIDE - DIGIT_SIDE) // 2
SHIFT = 1  # pixel that a digit is moved at most while training, along either axis; within the margin
HELD_OUT = 0.25  # of the digits
NOISE = 0.02  # three standard errors of an accuracy of 98 % on the 450 held-out digits: 3 * sqrt(0.98 * 0.02 / 450)

console = Console(highlight=False)


class Digits(NamedTuple):
    """Images (N, 1, 32, 32) in [0, 1], float32, and the digits (N,) that they show, int32."""

    images: np.ndarray
    labels: np.ndarray


class Epoch(NamedTuple):
    loss: float  # mean over the epoch's batches
    accuracy: float  # on the held-out digits, in [0, 1]
    seconds: float  # of training; without measuring the accuracy


def read_digits(seed: int) -> tuple[Digits, Digits]:
    """The digits to train on and those held out, with the same share of every digit in both."""
    data = load_digits()
    split = train_test_split(data.images, data.target, test_size=HELD_OUT, random_state=seed, stratify=data.target)
    train_images, held_out_images, train_labels, held_out_labels = split
    return (
        Digits(network_input(train_images), train_labels.astype(np.int32)),
        Digits(network_input(held_out_images), held_out_labels.astype(np.int32)),
    )


def network_input(images: np.ndarray) -> np.ndarray:
    """Images (N, 8, 8) in [0, 16] as the network wants them: enlarged, with a margin of background."""
    size = (DIGIT_SIDE, DIGIT_SIDE)
    scaled = (images / 16).astype(np.float32)
    enlarged = np.stack(
        [np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BILINEAR)) for image in scaled]
    )
    return np.pad(enlarged, ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN)))[:, None]


def shifted(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The images (N, 1, 32, 32), each moved at random by at most SHIFT pixels along both axes."""
    shifts = random.integers(-SHIFT, SHIFT, (len(images), 2), endpoint=True)
    return np.stack([np.roll(image, shift, axis=(1, 2)) for image, shift in zip(images, shifts, strict=True)])


def batches(digits: Digits, batch: int, random: np.random.Generator) -> Iterator[tuple[ms.Tensor, ms.Tensor]]:
    """The digits once, shifted and in random order, without those that do not fill the last batch."""
    order = random.permutation(len(digits.labels))
    for start in range(0, len(order) - batch + 1, batch):
        chosen = order[start : start + batch]
        yield ms.Tensor(shifted(digits.images[chosen], random)), ms.Tensor(digits.labels[chosen])


def accuracy(network: nn.Cell, digits: Digits) -> float:
    logits = network(ms.Tensor(digits.images)).asnumpy()
    return float(np.mean(np.argmax(logits, axis=1) == digits.labels))


def train(
    layer: Callable[..., nn.Cell],
    training: Digits,
    held_out: Digits,
    *,
    epochs: int,
    batch: int,
    learning_rate: float,
    seed: int,
) -> Iterator[Epoch]:
    """Trains a new network, and yields what came of each epoch. The seed fixes initial weights and order."""
    ms.set_seed(seed)
    random = np.random.default_rng(seed)
    network = LeNet5(layer)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    steps = epochs * (len(training.labels) // batch)
    optimizer = nn.Adam(network.trainable_params(), nn.CosineDecayLR(0.0, learning_rate, steps))
    step = nn.TrainOneStepCell(nn.WithLossCell(network, loss), optimizer)
    step.set_train()
    for _ in range(epochs):
        start = time.perf_counter()
        losses = [step(*one) for one in batches(training, batch, random)]
        mean_loss = float(np.mean([value.asnumpy() for value in losses]))
        seconds = time.perf_counter() - start
        yield Epoch(mean_loss, accuracy(network, held_out), seconds)


def train_with_progress(name: str, epochs: int, training: Iterator[Epoch]) -> list[Epoch]:
    """Runs a training to its end, and prints its epochs as they come."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    done: list[Epoch] = []
    with Progress(*columns, console=console) as progress:
        for epoch in progress.track(training, total=epochs, description=name):
            done.append(epoch)
            progress.print(
                f"epoch {len(done)}: loss {epoch.loss:.4f}, accuracy {epoch.accuracy:.2%}, {epoch.seconds:.2f} s"
            )
    return done


def chart(histories: dict[str, list[Epoch]]) -> Figure:
    """Loss and accuracy per epoch of every training."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    losses, accuracies = figure.subplots(1, 2)
    for (name, history), style in zip(histories.items(), ("o-", "s--"), strict=False):
        numbers = range(1, len(history) + 1)
        losses.plot(numbers, [epoch.loss for epoch in history], style, label=name, markersize=4)
        accuracies.plot(numbers, [100 * epoch.accuracy for epoch in history], style, label=name, markersize=4)
    losses.set(xlabel="epoch", ylabel="mean cross-entropy", yscale="log", title="Training loss")
    accuracies.set(xlabel="epoch", ylabel="%", title="Accuracy on held-out digits")
    for axes in (losses, accuracies):
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
        axes.legend()
    return figure


def report(histories: dict[str, list[Epoch]]) -> None:
    """Prints where the trainings ended."""
    table = Table("layers", "loss", "held-out accuracy", "seconds of training")
    for name, history in histories.items():
        last, seconds = history[-1], sum(epoch.seconds for epoch in history)
        table.add_row(name, f"{last.loss:.4f}", f"{last.accuracy:.2%}", f"{seconds:.1f}")
    console.print(table)


def check_noise(ours: Epoch, stock: Epoch) -> None:
    """Raises click.ClickException when two trainings ended too far apart."""
    difference = abs(ours.accuracy - stock.accuracy)
    if difference > NOISE:
        raise click.ClickException(
            f"accuracies differ from stock MindSpore: expected at most {NOISE:.2%}, got {difference:.2%}"
        )


def check_output(_context: click.Context, _parameter: click.Parameter, output: Path) -> Path:
    if output.suffix.lower() != ".png":
        raise click.BadParameter(f"expected a name that ends in .png, got '{output}'.")
    if not output.absolute().parent.is_dir():  # known before the training, not after it
        raise click.BadParameter(f"the folder '{output.parent}' does not exist.")
    return output


@click.command(help=__doc__)
@click.option("--epochs", default=30, show_default=True, type=click.IntRange(1))
@click.option("--batch", default=32, show_default=True, type=click.IntRange(1), help="Digits of one step.")
@click.option(
    "--learning-rate",
    default=4e-3,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    help="Of the first step; it falls to 0 along a cosine.",
)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0, 2**32 - 1))
@click.option("--compare", is_flag=True, help="Train stock nn.Conv2d + nn.Tanh too.")
@click.option(
    "--output",
    default="lenet5.png",
    show_default=True,
    help="The loss curve to write.",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=check_output,
)
def main(epochs: int, batch: int, learning_rate: float, seed: int, compare: bool, output: Path) -> None:
    ms.set_context(device_target="CPU", mode=ms.GRAPH_MODE)
    training, held_out = read_digits(seed)
    if batch > len(training.labels):
        raise click.BadParameter(f"--batch: expected at most {len(training.labels)} digits, got {batch}")
    console.print(f"{len(training.labels)} digits to train on, {len(held_out.labels)} held out")
    layers = {"ms_convtanh.ConvTanh": ConvTanh}
    if compare:
        layers["nn.Conv2d + nn.Tanh"] = stock_conv_tanh
    settings = {"epochs": epochs, "batch": batch, "learning_rate": learning_rate, "seed": seed}
    histories = {
        name: train_with_progress(name, epochs, train(layer, training, held_out, **settings))
        for name, layer in layers.items()
    }
    report(histories)
    try:
        chart(histories).savefig(output, dpi=100)
    except OSError as error:
        raise click.ClickException(f"cannot write {output}: {error}") from error
    console.print(f"wrote {output}", soft_wrap=True)
    if compare:
        check_noise(*(history[-1] for history in histories.values()))


if __name__ == "__main__":
    main()
