"""ms-convtanh opp."""

import dataclasses
import json
from pathlib import Path

import click

from ms_convtanh import _opp
from ms_convtanh._cli import busy, json_option, reports_errors


@click.command()
@click.option(
    "--output", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder to write; made if absent."
)
@click.option(
    "--repository",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Checkout of a CANN operator repository (such as ops-math) to build in.",
)
@json_option
@click.pass_context
@reports_errors
def opp(context: click.Context, output: Path, repository: Path | None, as_json: bool) -> None:
    """Lay out the Ascend operator package, and build it where CANN is.

    Exit status: 0 for a package that is complete, 1 for one that lacks what only CANN can build, 2 for wrong usage.

    \b
    ms-convtanh opp --output opp --repository ops-math
    export ASCEND_CUSTOM_OPP_PATH=$PWD/opp/ms_convtanh
    """
    with busy("ms-convtanh opp", "making the operator package"):
        report = _opp.make_package(output, repository)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(report), indent=2))
    else:
        click.echo(f"vendor package  {report.vendor}\nproject         {report.project}")
        for name in report.files:
            click.echo(f"  {name}")
        if report.missing:
            click.echo("missing:")
        for sentence in report.missing:
            click.echo(f"  {sentence}")
    context.exit(1 if report.missing else 0)
