"""Photographs in and out: reading, luma, the low-resolution image, bicubic enlargement and PSNR.

Luma is the Y of ITU-R BT.601 in full range, as JPEG files use it: a float32 array (height, width) in [0, 1].
"""

import importlib.resources
import math
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

HELD_OUT = ("sklearn.datasets.images", "flower.jpg")  # the demo's photograph, which the network never saw in training
SMALLEST_SIDE = 16  # pixels of a photograph; below, hardly anything is left after shrinking
LARGEST_AREA = 50_000_000  # pixels of a photograph; the network needs about 100 bytes for each


def packaged_photo(package: str, name: str) -> Path:
    """The path of a photograph that an installed package ships.

    Raises FileNotFoundError, with what to install, when it is not there.
    """
    try:
        folder = importlib.resources.files(package)
    except ModuleNotFoundError as error:
        raise FileNotFoundError(f"the photograph {name} comes with the package {package}: {error}") from error
    path = Path(str(folder / name))
    if not path.is_file():
        raise FileNotFoundError(f"the installed {package} does not ship {name}")
    return path


def read_photo(path: Path) -> Image.Image:
    """A photograph as 8-bit RGB, upright. Other kinds are converted to it, and transparency becomes white.

    Raises ValueError when the file is no readable image, or too small or too large to enlarge.
    """
    try:
        with Image.open(path) as file:
            _check_size(path, *file.size)
            photo = ImageOps.exif_transpose(file)
            photo.load()
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:  # SyntaxError: Pillow's word for a broken PNG
        raise ValueError(f"cannot read {path} as an image: {error}") from error
    if photo.mode in ("I", "F"):
        raise ValueError(f"cannot use {path}: expected 8 or 16 bits a channel, got 32")
    if photo.mode.startswith("I;16"):
        photo = Image.fromarray((np.asarray(photo).astype(np.uint16) >> 8).astype(np.uint8))
    if photo.has_transparency_data:
        photo = photo.convert("RGBA")
        photo = Image.alpha_composite(Image.new("RGBA", photo.size, "white"), photo)
    return photo.convert("RGB")


def _check_size(path: Path, width: int, height: int) -> None:
    if min(width, height) < SMALLEST_SIDE:
        raise ValueError(
            f"{path} is too small: expected at least {SMALLEST_SIDE} x {SMALLEST_SIDE} pixels, got {width} x {height}"
        )
    if width * height > LARGEST_AREA:
        raise ValueError(
            f"{path} is too large: expected at most {LARGEST_AREA // 10**6} megapixels, got {width} x {height}"
        )


def trim(photo: Image.Image, scale: int) -> Image.Image:
    """The photograph without the right columns and bottom rows that do not divide by scale."""
    return photo.crop((0, 0, photo.width // scale * scale, photo.height // scale * scale))


def shrink(photo: Image.Image, scale: int) -> Image.Image:
    """The low-resolution image: bicubic with anti-aliasing, 8 bits a channel."""
    return photo.resize((photo.width // scale, photo.height // scale), Image.Resampling.BICUBIC)


def luma_of(photo: Image.Image) -> np.ndarray:
    return np.asarray(photo.convert("YCbCr").getchannel("Y"), dtype=np.float32) / 255


def bicubic(luma: np.ndarray, scale: int) -> np.ndarray:
    """Bicubic enlargement in float32; like every cubic, it may overshoot [0, 1] a little."""
    height, width = luma.shape
    enlarged = Image.fromarray(luma).resize((width * scale, height * scale), Image.Resampling.BICUBIC)
    return np.asarray(enlarged)


def colour(luma: np.ndarray, low: Image.Image) -> Image.Image:
    """An RGB image of this luma, with the colour of the low-resolution image, enlarged by bicubic."""
    height, width = luma.shape
    _, blue, red = low.resize((width, height), Image.Resampling.BICUBIC).convert("YCbCr").split()
    return Image.merge("YCbCr", (Image.fromarray(eight_bit(luma)), blue, red)).convert("RGB")


def psnr(luma: np.ndarray, original: np.ndarray, border: int) -> float:
    """Peak signal-to-noise ratio in dB of 8-bit luma, without `border` pixels on every side."""
    inner = (slice(border, -border), slice(border, -border))
    difference = eight_bit(luma)[inner].astype(np.float64) - eight_bit(original)[inner]
    error = np.mean(difference**2)
    return 10 * math.log10(255**2 / error) if error else math.inf


def eight_bit(luma: np.ndarray) -> np.ndarray:
    return np.rint(np.clip(luma, 0, 1) * 255).astype(np.uint8)
