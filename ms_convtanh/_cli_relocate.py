"""ms-convtanh relocate."""

from pathlib import Path

import click

import ms_convtanh
from ms_convtanh._cli import json_option, reports_errors, show
from ms_convtanh._extras import require

_file = click.Path(path_type=Path)


@click.command()
@click.argument("model", type=_file)
@click.option("-o", "--output", type=_file, help="Where to write the result. Default: MODEL itself.")
@click.option(
    "--library", type=_file, help="Path of libms_convtanh.so where the model will be loaded. Default: this package's."
)
@json_option
@reports_errors
def relocate(model: Path, output: Path | None, library: Path | None, as_json: bool) -> None:
    """Write the path of this machine's library into a MindIR file.

    MindSpore keeps the absolute path of the library in MODEL, a .mindir file. After this command, mindspore.load loads
    a model here that was exported elsewhere. In Python, ms_convtanh.load_mindir does without it.

    \b
    ms-convtanh relocate model.mindir
    ms-convtanh relocate model.mindir -o here.mindir --json
    """
    require("ms-convtanh relocate", "mindspore", "mindspore")
    show(ms_convtanh.relocate_mindir(model, output, library=library), as_json)
