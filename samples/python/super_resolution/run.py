"""Upscales a photograph by a network of ConvTanh layers, and compares it with bicubic and with stock MindSpore.

The photograph is shrunk to half its size, enlarged again in two ways, and measured against itself. Without --image it
is flower.jpg of scikit-learn, which the network was not trained on.
"""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.table import Table

os.environ.setdefault("GLOG_v", "3")  # before MindSpore is imported: errors only

import mindspore as ms
from mindspore import nn

import figure
import images
from model import SCALE, Espcn, StockConvTanh, add_detail, whole_image_input
from ms_convtanh import ConvTanh

CHECKPOINT = Path(__file__).with_name(f"espcn_x{SCALE}.ckpt")
TOLERANCE = 1e-3  # between the outputs in [-1, 1]: stock nn.Tanh errs by 1e-4 a layer; 1e-3 is 0.06 of a grey level
TIMED_RUNS, TIMED_SECONDS = 10, 5.0  # runs are repeated until either is reached

console = Console(highlight=False)


def load_network(layer: type[nn.Cell]) -> Espcn:
    network = Espcn(layer)
    missing, unknown = ms.load_param_into_net(network, ms.load_checkpoint(str(CHECKPOINT)), strict_load=True)
    if missing or unknown:
        raise click.ClickException(f"{CHECKPOINT} does not fit the network: missing {missing}, unknown {unknown}")
    return network


def timed(run: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    """The result of run and the median seconds of a run, after a first one that compiles."""
    result = run()
    seconds: list[float] = []
    while len(seconds) < TIMED_RUNS and sum(seconds) < TIMED_SECONDS:
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return result, statistics.median(seconds)


def network_detail(layer: type[nn.Cell], luma: np.ndarray, progress: str) -> tuple[np.ndarray, float]:
    """The network's output for an image, and the median seconds of a run from tensor to array."""
    network, x = load_network(layer), whole_image_input(luma)
    with console.status(progress):
        return timed(lambda: network(x).asnumpy())


def report_times(ours: tuple[np.ndarray, float], stock: tuple[np.ndarray, float]) -> None:
    """Prints both times, if the outputs agree."""
    difference = float(np.max(np.abs(ours[0] - stock[0])))
    if not difference <= TOLERANCE:  # also when it is NaN
        raise click.ClickException(
            f"outputs differ from stock MindSpore: expected at most {TOLERANCE:g}, got {difference:.2g}"
        )
    table = Table("layer", "time of the network", "")
    table.add_row("nn.Conv2d + nn.Tanh", f"{stock[1] * 1e3:.1f} ms", "")
    table.add_row("ms_convtanh.ConvTanh", f"{ours[1] * 1e3:.1f} ms", f"{stock[1] / ours[1]:.1f} times as fast")
    console.print(table)
    console.print(f"largest difference of the outputs, which lie in [-1, 1]: {difference:.1e}")


def check_output(_context: click.Context, _parameter: click.Parameter, output: Path) -> Path:
    if output.suffix.lower() != ".png":
        raise click.BadParameter(f"expected a name that ends in .png, got '{output}'.")
    if not output.absolute().parent.is_dir():
        raise click.BadParameter(f"the folder '{output.parent}' does not exist.")
    return output


@click.command(help=__doc__)
@click.option(
    "--image",
    help="A photograph of your own.",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option(
    "--output",
    default="super_resolution.png",
    show_default=True,
    help="The picture to write.",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=check_output,
)
@click.option("--mode", default="graph", show_default=True, type=click.Choice(["graph", "pynative"]))
@click.option("--no-stock", is_flag=True, help="Do not run stock MindSpore, which takes long on some CPUs.")
def main(image: Path | None, output: Path, mode: str, no_stock: bool) -> None:
    try:
        path = image or images.packaged_photo(*images.HELD_OUT)
        original = images.trim(images.read_photo(path), SCALE)
    except FileNotFoundError as error:
        raise click.ClickException(f"{error}; pip install scikit-learn") from error
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    ms.set_context(device_target="CPU", mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    low = images.shrink(original, SCALE)
    low_luma, original_luma = images.luma_of(low), images.luma_of(original)
    sizes = f"{low.width} x {low.height} -> {original.width} x {original.height}"
    console.print(f"{path.name}: {sizes} pixels, {mode} mode")

    ours = network_detail(ConvTanh, low_luma, "running the network with ms_convtanh.ConvTanh")
    bicubic_luma, ours_luma = images.bicubic(low_luma, SCALE), add_detail(low_luma, ours[0])
    bicubic_psnr, ours_psnr = (images.psnr(luma, original_luma, border=SCALE) for luma in (bicubic_luma, ours_luma))
    table = Table("enlarged by", "PSNR of luma", "")
    table.add_row("bicubic", f"{bicubic_psnr:.2f} dB", "")
    table.add_row("ConvTanh network", f"{ours_psnr:.2f} dB", f"{ours_psnr - bicubic_psnr:+.2f} dB")
    console.print(table)

    captions = (
        f"low resolution, {low.width} x {low.height}",
        f"bicubic, {bicubic_psnr:.2f} dB",
        f"ConvTanh network, {ours_psnr:.2f} dB",
        f"original, {original.width} x {original.height}",
    )
    picture = figure.side_by_side(low, original, bicubic_luma, ours_luma, captions)
    try:
        picture.save(output, format="PNG")
    except OSError as error:
        raise click.ClickException(f"cannot write {output}: {error}") from error
    console.print(f"wrote {output}", soft_wrap=True)

    if no_stock:
        console.print(f"time of the network: {ours[1] * 1e3:.1f} ms")
    else:
        stock = network_detail(StockConvTanh, low_luma, "running the same network with stock nn.Conv2d + nn.Tanh")
        report_times(ours, stock)


if __name__ == "__main__":
    main()
