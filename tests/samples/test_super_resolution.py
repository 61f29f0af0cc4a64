"""The super-resolution sample: its parts, its command line, and its checkpoint on a photograph not trained on."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import mindspore as ms

import figure
import images
import model
import run
import train
from ms_convtanh import ConvTanh

ROOT = Path(__file__).parents[2]

LAYERS = [model.StockConvTanh, ConvTanh]
MODES = [ms.GRAPH_MODE, ms.PYNATIVE_MODE]


@pytest.fixture(scope="module")
def crop() -> Image.Image:
    """The middle of the held-out flower, of odd height."""
    return images.read_photo(images.packaged_photo(*images.HELD_OUT)).crop((220, 120, 360, 241))


def luma_pair(photo: Image.Image) -> tuple[np.ndarray, np.ndarray]:
    photo = images.trim(photo, model.SCALE)
    return images.luma_of(images.shrink(photo, model.SCALE)), images.luma_of(photo)


def run_main(*arguments: str | Path):
    return CliRunner().invoke(run.main, [str(argument) for argument in arguments])


# The network


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layer", LAYERS)
def test_beats_bicubic_on_the_held_out_photo(layer, mode, crop):
    ms.set_context(mode=mode)
    low, original = luma_pair(crop)
    upscaled = model.upscale(run.load_network(layer), low)
    assert upscaled.shape == original.shape
    bicubic = images.psnr(images.bicubic(low, model.SCALE), original, border=2)
    assert images.psnr(upscaled, original, border=2) > bicubic + 1.5


def test_whole_held_out_photo_gains_one_decibel():
    ms.set_context(mode=ms.GRAPH_MODE)
    bicubic, ours = train.held_out_psnr(run.load_network(ConvTanh))
    assert ours > bicubic + 1


@pytest.mark.parametrize("mode", MODES)
def test_stock_and_fused_layers_agree(mode, crop):
    ms.set_context(mode=mode)
    x = model.whole_image_input(luma_pair(crop)[0])
    stock, fused = (run.load_network(layer)(x).asnumpy() for layer in LAYERS)
    assert np.abs(stock).max() > 0.3  # there is detail to compare
    np.testing.assert_allclose(fused, stock, rtol=0, atol=run.TOLERANCE)


@pytest.mark.parametrize("layer", LAYERS)
def test_network_is_the_formula_in_float64(layer):
    ms.set_context(mode=ms.GRAPH_MODE)
    network = run.load_network(layer)
    x = np.random.default_rng(5).uniform(-1, 1, (1, 1, 13, 17)).astype(np.float32)
    wanted = x.astype(np.float64)
    for conv in (network.conv1, network.conv2, network.conv3):
        weight, bias = (tensor.asnumpy().astype(np.float64) for tensor in (conv.weight, conv.bias))
        windows = np.lib.stride_tricks.sliding_window_view(wanted, weight.shape[2:], axis=(2, 3))
        wanted = np.tanh(np.einsum("nchwij,ocij->nohw", windows, weight) + bias[:, None, None])
    shuffled = np.empty((10, 18))
    for channel in range(4):
        shuffled[channel // 2 :: 2, channel % 2 :: 2] = wanted[0, channel]
    np.testing.assert_allclose(network(ms.Tensor(x)).asnumpy()[0, 0], shuffled, rtol=0, atol=run.TOLERANCE)


@pytest.mark.parametrize(("source", "target"), [LAYERS, LAYERS[::-1]])
def test_checkpoints_load_both_ways(source, target, tmp_path):
    path = str(tmp_path / "espcn.ckpt")
    network, other = model.Espcn(source), model.Espcn(target)
    ms.save_checkpoint(network, path)
    assert ms.load_param_into_net(other, ms.load_checkpoint(path), strict_load=True) == ([], [])
    for name, parameter in other.parameters_dict().items():
        np.testing.assert_array_equal(parameter.asnumpy(), network.parameters_dict()[name].asnumpy())


# Training


def test_held_out_photo_is_not_trained_on():
    assert images.HELD_OUT not in train.TRAINING


def test_patches_pair_input_and_wanted_detail(crop):
    """Bicubic enlargement of an input plus its wanted detail gives whole 8-bit values: those of the original."""
    low, detail = (batch.asnumpy() for batch in train.Patches([crop], patch=6, seed=3).batch(40))
    assert low.shape == (40, 1, 14, 14)
    assert detail.shape == (40, 1, 12, 12)
    margin = model.MARGIN * model.SCALE
    for one_low, one_detail in zip(low[:, 0], detail[:, 0], strict=True):
        inner = images.bicubic((one_low + 1) / 2, model.SCALE)[margin:-margin, margin:-margin]
        levels = (inner + model.DETAIL_RANGE * one_detail) * 255
        np.testing.assert_allclose(levels, np.rint(levels), rtol=0, atol=1e-3)


def test_training_is_repeatable_and_writes_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(train, "TRAINING", [("sklearn.datasets.images", "china.jpg")])
    checkpoints = []
    for name, seed in (("first", 1), ("second", 1), ("third", 2)):
        path = tmp_path / f"{name}.ckpt"
        arguments = ["--steps", "12", "--batch", "4", "--patch", "9", "--seed", str(seed), "--output", str(path)]
        result = CliRunner().invoke(train.main, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        assert "step 12: loss" in result.output
        checkpoints.append({name: value.asnumpy() for name, value in ms.load_checkpoint(str(path)).items()})
    first, second, third = checkpoints
    assert {name: value.shape for name, value in first.items()} == {
        name: value.shape for name, value in model.Espcn(ConvTanh).parameters_dict().items()
    }
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert not np.array_equal(first["conv2.weight"], third["conv2.weight"])


# Photographs


@pytest.mark.parametrize(
    ("mode", "suffix"),
    [("L", "png"), ("1", "png"), ("P", "png"), ("LA", "png"), ("RGBA", "png"), ("I;16", "png"), ("CMYK", "jpg")],
)
def test_kinds_of_images_are_read_as_rgb(mode, suffix, tmp_path):
    grey = np.tile(np.linspace(0, 255, 32, dtype=np.uint8), (24, 1))
    picture = Image.fromarray(grey)
    picture = Image.fromarray(grey.astype(np.uint16) * 257) if mode == "I;16" else picture.convert(mode)
    path = tmp_path / f"picture.{suffix}"
    picture.save(path, **({"quality": 95} if suffix == "jpg" else {}))
    photo = images.read_photo(path)
    assert (photo.mode, photo.size) == ("RGB", (32, 24))
    if mode != "1":
        assert np.abs(np.asarray(photo).astype(int) - grey[..., None]).max() <= 4


def test_transparent_pixels_become_white(tmp_path):
    Image.new("RGBA", (20, 20), (10, 20, 30, 0)).save(tmp_path / "clear.png")
    assert np.all(np.asarray(images.read_photo(tmp_path / "clear.png")) == 255)


def test_photos_are_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: turned by 90 degrees
    Image.new("RGB", (40, 20)).save(tmp_path / "turned.jpg", exif=exif)
    assert images.read_photo(tmp_path / "turned.jpg").size == (20, 40)


def test_missing_packaged_photo_says_what_to_install():
    with pytest.raises(FileNotFoundError, match="no_such_package"):
        images.packaged_photo("no_such_package", "flower.jpg")
    with pytest.raises(FileNotFoundError, match=r"does not ship tulip\.jpg"):
        images.packaged_photo("sklearn.datasets.images", "tulip.jpg")


# Measures and the picture


def test_psnr_is_that_of_8_bit_luma_inside_the_border():
    original = np.full((10, 12), 100 / 255, dtype=np.float32)
    other = original + np.float32(3 / 255)
    other[:2] = other[-2:] = 1  # in the border
    other[:, :2] = other[:, -2:] = 0
    assert images.psnr(other, original, border=2) == pytest.approx(20 * np.log10(255 / 3))
    assert images.psnr(original + np.float32(0.4 / 255), original, border=2) == np.inf


def test_bicubic_keeps_a_flat_image_and_the_centre_of_a_ramp():
    flat = np.full((8, 9), 0.3, dtype=np.float32)
    np.testing.assert_allclose(images.bicubic(flat, 2), np.full((16, 18), 0.3), atol=1e-6)
    ramp = np.tile(np.arange(12, dtype=np.float32) / 12, (8, 1))
    wanted = (np.arange(24) / 2 - 0.25) / 12  # pixel centres
    np.testing.assert_allclose(images.bicubic(ramp, 2)[8, 6:-6], wanted[6:-6], atol=1e-6)


def test_detail_box_is_where_bicubic_loses_most():
    original, bicubic = np.zeros((100, 200)), np.zeros((100, 200))
    original[70:80, 20:45] = 1
    left, top, right, bottom = figure.detail_box((200, 100), original, bicubic)
    assert left <= 20 < 45 <= right
    assert top <= 70 < 80 <= bottom
    assert 0 <= left < right <= 200
    assert 0 <= top < bottom <= 100


@pytest.mark.parametrize("size", [(16, 16), (16, 400), (400, 16), (16, 20_000), (1300, 900)])
def test_captions_have_room_and_panels_fit(size):
    panels = [(f"a caption of some length, {index}", Image.new("RGB", size)) for index in range(4)]
    sheet = np.asarray(figure.compose(panels, (2, 2, 10, 10)).convert("L"))
    column = (sheet.shape[1] - figure.GAP) // 4
    letters = 2  # may lean out of their boxes a little
    gaps = [slice(index * column, index * column + figure.GAP - letters) for index in range(5)]
    assert all(np.all(sheet[:, gap] == 255) for gap in gaps)


# The command line


def test_run_writes_the_picture_and_both_times(crop, tmp_path):
    photo = tmp_path / "my photo.png"
    crop.save(photo)
    result = subprocess.run(
        [sys.executable, run.__file__, "--image", photo],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    for text in ("70 x 60 -> 140 x 120", "bicubic", "nn.Conv2d + nn.Tanh", "times as fast", "largest difference"):
        assert text in result.stdout
    with Image.open(tmp_path / "super_resolution.png") as picture:
        assert (picture.format, picture.mode) == ("PNG", "RGB")
        scale, width, height = 4, 4 * 140, 4 * 120  # panels of a small photograph are enlarged, up to 640 pixels
        assert picture.size == (5 * figure.GAP + 4 * width, 3 * figure.GAP + 2 * (figure.LINE + height))
        pixels = np.asarray(picture)
    original = np.asarray(crop.crop((0, 0, 140, 120)))
    left, top = figure.GAP + 3 * (width + figure.GAP), figure.GAP + figure.LINE
    shown = pixels[top : top + height : scale, left : left + width : scale]
    assert np.mean(np.all(shown == original, axis=-1)) > 0.95  # all but the red frame
    assert np.any(pixels[: figure.GAP + figure.LINE] != 255)  # a caption


def test_run_in_pynative_mode_without_stock(crop, tmp_path):
    crop.save(tmp_path / "photo.png")
    result = run_main(
        "--image", tmp_path / "photo.png", "--output", tmp_path / "o.png", "--mode=pynative", "--no-stock"
    )
    assert result.exit_code == 0, result.output
    assert "time of the network" in result.output
    assert "nn.Conv2d" not in result.output
    assert (tmp_path / "o.png").is_file()


def test_no_times_when_the_outputs_differ(capsys):
    output = np.zeros((1, 1, 4, 4))
    for other in (output + 0.01, np.full_like(output, np.nan)):
        with pytest.raises(run.click.ClickException, match="outputs differ from stock MindSpore: expected at most"):
            run.report_times((output, 1.0), (other, 2.0))
    assert "ms" not in capsys.readouterr().out


def write_text(path: Path) -> None:
    path.write_text("no image")


def write_truncated(path: Path) -> None:
    Image.effect_noise((64, 64), 50).save(path, format="PNG")
    path.write_bytes(path.read_bytes()[:500])


def write_tiny(path: Path) -> None:
    Image.new("RGB", (40, 15)).save(path, format="PNG")


def write_huge(path: Path) -> None:
    Image.new("1", (10_000, 6_000)).save(path, format="PNG")


def write_float(path: Path) -> None:
    Image.new("F", (40, 40)).save(path, format="TIFF")


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (write_text, "as an image: cannot identify"),
        (write_truncated, "as an image:"),
        (write_tiny, "too small: expected at least 16 x 16 pixels, got 40 x 15"),
        (write_huge, "too large: expected at most 50 megapixels, got 10000 x 6000"),
        (write_float, "expected 8 or 16 bits a channel, got 32"),
    ],
)
def test_unusable_images_give_a_clear_error(write, message, tmp_path):
    path = tmp_path / "picture"
    write(path)
    result = run_main("--image", path, "--output", tmp_path / "o.png")
    assert result.exit_code == 1
    assert message in result.output
    assert str(path) in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "o.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--image", "missing.jpg"], "'missing.jpg' does not exist"),
        (["--output", "picture.jpg"], "expected a name that ends in .png"),
        (["--output", "no/such/folder.png"], "the folder 'no/such' does not exist"),
        (["--mode", "lazy"], "'lazy' is not one of"),
    ],
)
def test_wrong_options_give_a_usage_error(arguments, message):
    result = run_main(*arguments)
    assert result.exit_code == 2
    assert message in result.output
