"""The generator sample: its network, the gradients that it compares, its training, and its command line."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import mindspore as ms

import generator
import reconstruct
from generator import Generator, stock_conv_tanh
from ms_convtanh import ConvTanh
from reconstruct import OURS, STOCK, Measured

ROOT = Path(__file__).parents[2]
LAYERS = [ConvTanh, stock_conv_tanh]


@pytest.fixture(autouse=True)
def graph_mode() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)


@pytest.fixture(scope="module")
def photos() -> np.ndarray:
    return reconstruct.read_photos(16)


def measured(value: float) -> Measured:
    return Measured(np.full((1, 3, 2, 2), value), {"x": np.full(4, value), "weight": np.full(5, value)}, 0.001, 0.002)


# The network


@pytest.mark.parametrize("shape", [(2, 3, 16, 24), (1, 3, 8, 12)])
def test_images_keep_their_shape_and_lie_between_minus_one_and_one(shape, rng):
    network = Generator(ConvTanh, blocks=1)
    y = network(ms.Tensor(rng.uniform(-1, 1, shape).astype(np.float32))).asnumpy()
    assert y.shape == shape
    assert 0.1 < np.abs(y).max() <= 1


def test_network_has_the_papers_layers():
    sizes = [p.size for p in Generator(ConvTanh, blocks=9).trainable_params() if p.ndim == 4]
    down, up = [64 * 128 * 9, 128 * 256 * 9], [256 * 128 * 9, 128 * 64 * 9]
    assert sizes == [3 * 64 * 49, *down, *[256 * 256 * 9] * 18, *up, 64 * 3 * 49]
    assert isinstance(Generator(ConvTanh, blocks=1).tail, ConvTanh)


def test_instance_norm_normalises_each_channel_of_each_image(rng):
    x = (rng.standard_normal((2, 4, 6, 5)) * 3 + np.arange(4)[:, None, None]).astype(np.float32)
    y = generator.instance_norm(4)(ms.Tensor(x)).asnumpy()
    x = x.astype(np.float64)
    wanted = (x - x.mean(axis=(2, 3), keepdims=True)) / np.sqrt(x.var(axis=(2, 3), keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-4)


def test_residual_block_adds_to_its_input(rng):
    block = generator.ResidualBlock(4)
    x = rng.standard_normal((1, 4, 6, 5)).astype(np.float32)
    assert not np.allclose(block(ms.Tensor(x)).asnumpy(), x)
    for parameter in block.trainable_params():
        parameter.set_data(ms.Tensor(np.zeros(parameter.shape, np.float32)))
    np.testing.assert_array_equal(block(ms.Tensor(x)).asnumpy(), x)


def test_tail_reflects_at_the_border(rng):
    network = Generator(ConvTanh, blocks=1)
    weight, bias = (p.asnumpy().astype(np.float64) for p in network.tail.trainable_params())
    features = rng.standard_normal((1, 64, 9, 8)).astype(np.float32)
    padded = np.pad(features.astype(np.float64), ((0, 0), (0, 0), (3, 3), (3, 3)), mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (7, 7), axis=(2, 3))
    wanted = np.tanh(np.einsum("nchwij,ocij->nohw", windows, weight) + bias[:, None, None])
    y = network.tail(network.pad(ms.Tensor(features))).asnumpy()
    np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-5)


# What is measured


@pytest.mark.parametrize("layer", LAYERS)
def test_gradients_of_the_tail_are_the_formulas_in_float64(layer, photos):
    result = reconstruct.measure_tail(layer, photos, seed=3)
    ms.set_seed(3)
    weight, bias = (p.asnumpy().astype(np.float64) for p in generator.make_tail(layer).trainable_params())
    x = np.random.default_rng(3).uniform(0, 1, (2, 64, 22, 30)).astype(np.float32).astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(x, (7, 7), axis=(2, 3))
    y = np.tanh(np.einsum("nchwij,ocij->nohw", windows, weight, optimize=True) + bias[:, None, None])
    dz = 2 * (y - photos) / y.size * (1 - y * y)
    gradient_of_x = np.zeros_like(x)
    for i, j in np.ndindex(7, 7):
        gradient_of_x[:, :, i : i + 16, j : j + 24] += np.einsum("nohw,oc->nchw", dz, weight[:, :, i, j])
    wanted = [gradient_of_x, np.einsum("nohw,nchwij->ocij", dz, windows, optimize=True), dz.sum(axis=(0, 2, 3))]
    np.testing.assert_allclose(result.output, y, rtol=0, atol=reconstruct.TOLERANCE)
    assert len(result.gradients) == 3
    for gradient, one in zip(result.gradients.values(), wanted, strict=True):
        np.testing.assert_allclose(gradient, one, rtol=0, atol=reconstruct.TOLERANCE * np.abs(one).max())


def test_generators_agree_in_all_gradients(photos):
    ours, stock = (reconstruct.measure_generator(layer, 1, photos, seed=3) for layer in LAYERS)
    assert len(ours.gradients) == len(Generator(ConvTanh, 1).trainable_params())
    assert 0 < reconstruct.check_agreement("generator", ours, stock) <= reconstruct.TOLERANCE


@pytest.mark.parametrize("wrong", [0.01, np.nan])
@pytest.mark.parametrize("part", ["output", "x", "weight"])
def test_no_times_when_results_differ(part, wrong, capsys):
    ours = measured(0.5)
    array = ours.output if part == "output" else ours.gradients[part]
    array[0] += wrong
    with pytest.raises(reconstruct.click.ClickException, match=rf"tail: .*{part} differs from stock MindSpore"):
        reconstruct.report_times({"tail": {OURS: ours, STOCK: measured(0.5)}})
    assert "ms" not in capsys.readouterr().out


# Training


def test_photos_are_the_two_of_scikit_learn(photos):
    assert (photos.shape, photos.dtype) == ((2, 3, 16, 24), np.float32)
    assert -1 <= photos.min() < -0.9
    assert 0.8 < photos.max() <= 1
    sky, flower = photos[0, :, 2, 12:], photos[1, :, 8, 12]
    assert np.all(sky > 0.2)
    assert flower[0] > 0.2 > flower[1] > flower[2]  # orange


def test_training_lowers_the_error_and_is_repeatable(photos):
    def losses(steps: int, seconds: float) -> list[float]:
        ms.set_seed(1)
        network = Generator(ConvTanh, blocks=1)
        return reconstruct.train(network, photos, steps=steps, seconds=seconds, learning_rate=2e-4)

    twelve = losses(12, 60)
    assert len(twelve) == 12
    assert twelve[-1] < 0.5 * twelve[0]
    assert losses(12, 1e-9) == twelve[:1]  # the time is over after the first step


# The command line


def test_script_prints_times_and_draws_the_photographs(tmp_path):
    result = subprocess.run(
        [sys.executable, reconstruct.__file__, "--steps", "2", "--height", "8", "--blocks", "1"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    for text in ("tail, forward + backward", "generator, forward", "as fast", "largest difference", "after them"):
        assert text in result.stdout
    with Image.open(tmp_path / "generator.png") as picture:
        assert picture.width == 720
        assert len(picture.convert("RGB").getcolors(10**6)) > 1000


def test_without_stock_there_are_no_times(tmp_path):
    arguments = ["--steps", "1", "--height", "8", "--blocks", "1", "--no-stock", "--output", str(tmp_path / "g.png")]
    result = CliRunner().invoke(reconstruct.main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "as fast" not in result.output
    assert (tmp_path / "g.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--height", "20"], "expected a multiple of 8, got 20"),
        (["--height", "0"], "0 is not in the range"),
        (["--seconds", "0"], "0.0 is not in the range"),
        (["--blocks", "0"], "0 is not in the range"),
        (["--output", "picture.jpg"], "expected a name that ends in .png"),
        (["--output", "no/such/folder.png"], "the folder 'no/such' does not exist"),
    ],
)
def test_wrong_options_give_a_usage_error(arguments, message):
    result = CliRunner().invoke(reconstruct.main, arguments)
    assert result.exit_code == 2
    assert message in result.output
