"""ms-convtanh info."""

import click

import ms_convtanh
from ms_convtanh._cli import json_option, reports_errors, show


@click.command()
@json_option
@reports_errors
def info(as_json: bool) -> None:
    """Show kernel variants, threads, library and versions.

    \b
    ms-convtanh info
    ms-convtanh info --json
    """
    show(ms_convtanh.features(), as_json)
