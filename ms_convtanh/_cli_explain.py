"""ms-convtanh explain."""

from typing import Any

import click

import ms_convtanh
from ms_convtanh._cli import json_option, problem_options, reports_errors, show


@click.command()
@problem_options
@json_option
@reports_errors
def explain(as_json: bool, **problem: Any) -> None:
    """Show the plan of a problem.

    That is kernel variants, fusion, tiling, threads, workspace, and the candidates for the convolution with their
    estimated cost; nothing is computed.

    \b
    ms-convtanh explain --x 1,64,256,256 --filter 32,64,3,3 --pads 1
    """
    show(ms_convtanh.explain(**problem), as_json)
