"""The demo's picture: four versions of a photograph side by side, and a detail of each, enlarged."""

import math

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import images

PANEL_SIDE = 640  # pixels of a panel's longer side; larger photographs are shrunk to it
ZOOM = 4  # of the details against the photograph's own pixels
GAP = 16
FONT_SIZE = 22
LINE = FONT_SIZE + 14
PAPER, INK, FRAME = "white", "#202020", "#ff2d2d"


def panel_scale(size: tuple[int, int]) -> float:
    """How much larger a panel is than the photograph: a whole number for small ones, so that pixels stay square."""
    scale = PANEL_SIDE / max(size)
    return float(int(scale)) if scale >= 1 else scale


def detail_box(size: tuple[int, int], original: np.ndarray, bicubic: np.ndarray) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) of the detail: in the shape of a panel, where bicubic loses most."""
    scale = panel_scale(size)
    zoom = ZOOM * max(scale, 1)
    width, height = (max(1, int(length * scale / zoom)) for length in size)
    error = np.pad(np.square(original - bicubic, dtype=np.float64), ((1, 0), (1, 0))).cumsum(0).cumsum(1)
    sums = error[height:, width:] - error[:-height, width:] - error[height:, :-width] + error[:-height, :-width]
    top, left = np.unravel_index(np.argmax(sums), sums.shape)
    return int(left), int(top), int(left) + width, int(top) + height


def compose(panels: list[tuple[str, Image.Image]], box: tuple[int, int, int, int]) -> Image.Image:
    """One picture of captioned panels, all of one size, above their details inside box."""
    size = panels[0][1].size
    scale = panel_scale(size)
    width, height = (max(1, int(length * scale)) for length in size)
    font = ImageFont.load_default(FONT_SIZE)
    detail_captions = [f"detail of {caption.split(',')[0]}" for caption, _ in panels]
    widest = max(font.getlength(caption) for caption in [*detail_captions, *(caption for caption, _ in panels)])
    column = GAP + max(width, math.ceil(widest))
    sheet = Image.new("RGB", (GAP + len(panels) * column, 2 * (LINE + height + GAP) + GAP), PAPER)
    draw = ImageDraw.Draw(sheet)
    frame_left, frame_top, frame_right, frame_bottom = (round(edge * scale) for edge in box)
    for index, (caption, panel) in enumerate(panels):
        left, top = GAP + index * column, GAP + LINE
        whole = panel.resize((width, height), Image.Resampling.NEAREST if scale >= 1 else Image.Resampling.LANCZOS)
        sheet.paste(whole, (left, top))
        frame = (left + frame_left, top + frame_top, left + frame_right, top + frame_bottom)
        draw.rectangle(frame, outline=FRAME, width=2)
        draw.text((left, GAP), caption, INK, font)
        detail = panel.crop(box).resize((width, height), Image.Resampling.NEAREST)
        sheet.paste(detail, (left, top + height + GAP + LINE))
        draw.text((left, top + height + GAP), detail_captions[index], INK, font)
    return sheet


def side_by_side(
    low: Image.Image,
    original: Image.Image,
    bicubic: np.ndarray,
    ours: np.ndarray,
    captions: tuple[str, str, str, str],
) -> Image.Image:
    """The picture of the low-resolution image, two enlargements given by their luma, and the original."""
    versions = [
        low.resize(original.size, Image.Resampling.NEAREST),
        images.colour(bicubic, low),
        images.colour(ours, low),
        original,
    ]
    box = detail_box(original.size, images.luma_of(original), bicubic)
    return compose(list(zip(captions, versions, strict=True)), box)
