"""The LeNet-5 sample: its digits, its network, its training beside stock layers, and its command line."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from sklearn.datasets import load_digits

import mindspore as ms
from mindspore import nn

import train_digits
from lenet5 import LeNet5, stock_conv_tanh
from ms_convtanh import ConvTanh
from train_digits import Digits, Epoch

ROOT = Path(__file__).parents[2]
LAYERS = [ConvTanh, stock_conv_tanh]
SETTINGS = {"batch": 32, "learning_rate": 4e-3, "seed": 1}


@pytest.fixture(scope="module")
def digits() -> tuple[Digits, Digits]:
    return train_digits.read_digits(seed=1)


@pytest.fixture(autouse=True)
def graph_mode() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)


# The digits


def test_split_is_whole_and_keeps_the_share_of_every_digit(digits):
    data = load_digits()
    training, held_out = digits
    assert (len(training.labels), len(held_out.labels)) == (1347, 450)
    whole = train_digits.network_input(data.images)
    wanted = sorted((image.tobytes(), label) for image, label in zip(whole, data.target, strict=True))
    parts = [pair for part in digits for pair in zip(part.images, part.labels, strict=True)]
    assert sorted((image.tobytes(), label) for image, label in parts) == wanted
    shares = np.bincount(held_out.labels) / np.bincount(data.target)
    np.testing.assert_allclose(shares, 0.25, atol=0.01)


def test_split_is_fixed_by_the_seed(digits):
    again, other = train_digits.read_digits(seed=1), train_digits.read_digits(seed=2)
    np.testing.assert_array_equal(again[1].images, digits[1].images)
    assert not np.array_equal(other[1].labels, digits[1].labels)


def test_images_are_enlarged_inside_a_margin():
    images = load_digits().images[:20]
    prepared = train_digits.network_input(images)
    assert (prepared.shape, prepared.dtype) == ((20, 1, 32, 32), np.float32)
    assert np.all(prepared[:, :, [0, 1, 2, 3, -4, -3, -2, -1]] == 0)
    assert np.all(prepared[:, :, :, [0, 1, 2, 3, -4, -3, -2, -1]] == 0)
    centres = prepared[:, 0, 5:-4:3, 5:-4:3]  # of 3x3 pixels that were one
    np.testing.assert_allclose(centres, images / 16, atol=1e-6)


def test_shifts_move_whole_digits_in_all_directions(digits):
    images = np.repeat(digits[0].images[:1], 200, axis=0)
    moved = train_digits.shifted(images, np.random.default_rng(3))
    shift = train_digits.SHIFT
    places = range(-shift, shift + 1)
    wanted = {np.roll(images[0], (y, x), axis=(1, 2)).tobytes() for y in places for x in places}
    assert {image.tobytes() for image in moved} == wanted
    assert shift <= train_digits.MARGIN


def test_batches_hold_every_digit_at_most_once_with_its_label(monkeypatch):
    monkeypatch.setattr(train_digits, "SHIFT", 0)
    numbers = np.arange(70, dtype=np.int32)
    images = np.broadcast_to(numbers[:, None, None, None], (70, 1, 32, 32)).astype(np.float32)
    batches = list(train_digits.batches(Digits(images, numbers), 16, np.random.default_rng(4)))
    assert [images.shape for images, _ in batches] == [(16, 1, 32, 32)] * 4
    labels = np.concatenate([labels.asnumpy() for _, labels in batches])
    shown = np.concatenate([images.asnumpy()[:, 0, 0, 0] for images, _ in batches])
    np.testing.assert_array_equal(shown, labels)
    assert len(set(labels)) == 64
    assert not np.array_equal(labels, np.sort(labels))


# The network


def test_network_has_the_papers_sizes():
    network = LeNet5(ConvTanh)
    counts = {cell: sum(p.size for p in getattr(network, cell).get_parameters()) for cell in ("c1", "c5", "f6")}
    assert counts == {"c1": 156, "c5": 48120, "f6": 10164}  # figures of the paper
    assert sum(p.size for p in network.trainable_params()) == 61706  # C3 sees all maps, the output is a dense layer
    assert all(isinstance(cell, ConvTanh) for cell in (network.c1, network.c3, network.c5))


@pytest.mark.parametrize("layer", LAYERS)
def test_network_is_the_formula_in_float64(layer, digits):
    network = LeNet5(layer)
    images = digits[1].images[:5]
    weights = [p.asnumpy().astype(np.float64) for p in network.trainable_params()]
    x = images.astype(np.float64)
    for weight, bias, pooled in zip(weights[0:6:2], weights[1:6:2], (True, True, False), strict=True):
        windows = np.lib.stride_tricks.sliding_window_view(x, (5, 5), axis=(2, 3))
        x = np.tanh(np.einsum("nchwij,ocij->nohw", windows, weight) + bias[:, None, None])
        if pooled:
            x = x.reshape(*x.shape[:2], x.shape[2] // 2, 2, x.shape[3] // 2, 2).mean(axis=(3, 5))
    x = np.tanh(x[:, :, 0, 0] @ weights[6].T + weights[7]) @ weights[8].T + weights[9]
    np.testing.assert_allclose(network(ms.Tensor(images)).asnumpy(), x, rtol=0, atol=1e-3)


# Training


def test_reaches_97_percent_on_held_out_digits(digits):
    epochs = list(train_digits.train(ConvTanh, *digits, epochs=12, **SETTINGS))
    assert len(epochs) == 12
    assert epochs[-1].accuracy >= 0.97
    assert epochs[-1].loss < 0.1 < epochs[0].loss


def test_stock_layers_train_alike(digits):
    ours, stock = (list(train_digits.train(layer, *digits, epochs=2, **SETTINGS)) for layer in LAYERS)
    assert [epoch.loss for epoch in ours] == pytest.approx([epoch.loss for epoch in stock], rel=0.02)
    assert ours[-1].accuracy == pytest.approx(stock[-1].accuracy, abs=train_digits.NOISE)


def test_training_is_repeatable(digits):
    few = Digits(*(array[:200] for array in digits[0]))

    def losses(seed: int) -> list[float]:
        settings = {**SETTINGS, "seed": seed}
        return [epoch.loss for epoch in train_digits.train(ConvTanh, few, digits[1], epochs=2, **settings)]

    first, second, other = losses(1), losses(1), losses(2)
    assert first == second
    assert first != other


def test_accuracy_is_the_share_of_right_digits():
    labels = np.array([0, 1, 2, 3], dtype=np.int32)
    logits = np.eye(10, dtype=np.float32)[[0, 1, 2, 9]].reshape(4, 1, 1, 10)
    assert train_digits.accuracy(nn.Flatten(), Digits(logits, labels)) == 0.75


# The report and the command line


def test_accuracies_that_differ_by_more_than_noise_are_an_error():
    train_digits.check_noise(Epoch(0.1, 0.98, 1.0), Epoch(0.1, 0.97, 1.0))
    with pytest.raises(train_digits.click.ClickException, match=r"expected at most 2\.00%, got 5\.00%"):
        train_digits.check_noise(Epoch(0.1, 0.93, 1.0), Epoch(0.1, 0.98, 1.0))


def test_chart_shows_every_training():
    history = [Epoch(1.0, 0.5, 1.0), Epoch(0.1, 0.9, 1.0)]
    losses, accuracies = train_digits.chart({"one": history, "other": history[::-1]}).axes
    assert [list(line.get_ydata()) for line in losses.lines] == [[1.0, 0.1], [0.1, 1.0]]
    assert [list(line.get_ydata()) for line in accuracies.lines] == [[50.0, 90.0], [90.0, 50.0]]
    assert [text.get_text() for text in losses.get_legend().get_texts()] == ["one", "other"]


def test_script_trains_both_and_draws_the_curve(tmp_path):
    result = subprocess.run(
        [sys.executable, train_digits.__file__, "--epochs", "2", "--compare"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    for text in ("1347 digits", "epoch 2: loss", "ms_convtanh.ConvTanh", "nn.Conv2d + nn.Tanh", "wrote lenet5.png"):
        assert text in result.stdout
    with Image.open(tmp_path / "lenet5.png") as picture:
        assert picture.size == (1000, 400)
        assert len(picture.convert("RGB").getcolors(400_000)) > 50


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch", "1348"], "expected at most 1347 digits, got 1348"),
        (["--epochs", "0"], "0 is not in the range"),
        (["--learning-rate", "0"], "0.0 is not in the range"),
        (["--seed", "-1"], "-1 is not in the range"),
        (["--output", "curve.pdf"], "expected a name that ends in .png"),
        (["--output", "no/such/folder.png"], "the folder 'no/such' does not exist"),
    ],
)
def test_wrong_options_give_a_usage_error(arguments, message):
    result = CliRunner().invoke(train_digits.main, arguments)
    assert result.exit_code == 2
    assert message in result.output
