"""ms-convtanh check."""

from pathlib import Path

import click

from ms_convtanh import _check_report as report
from ms_convtanh._cli import busy, json_option, prepare_networks, print_json, print_table, reports_errors, write_text
from ms_convtanh._compare import COMMAND, STANDARDS, Comparison, compare_all, load_arrays
from ms_convtanh._layers import NetworkCheck, check_network

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("files", nargs=-1, type=_FILE)
@click.option("--network", help="A .mindir file, or module:function that returns a cell.")
@click.option("--checkpoint", type=_FILE, help="Parameters of module:function.")
@click.option("--input", "inputs", type=_FILE, help="Inputs of the network, .npy or .npz in their order.")
@click.option("--golden", type=_FILE, help="Its golden outputs; else those of a float64 run.")
@click.option("--tolerance", type=float, help="Largest |a - g| / max(1, |g|), in place of a standard.")
@click.option(
    "--standard",
    type=click.Choice(STANDARDS),
    default="conv",
    show_default=True,
    help="ecosystem: MERE < T and MARE < 10 T; conv: the same without sums that cancelled.",
)
@click.option("--dtype", help="In which ACTUAL was computed, if it is stored in another dtype.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with histograms.")
@json_option
@click.pass_context
@reports_errors
def check(
    context: click.Context,
    files: tuple[Path, ...],
    network: str | None,
    checkpoint: Path | None,
    inputs: Path | None,
    golden: Path | None,
    tolerance: float | None,
    standard: str,
    dtype: str | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Check the precision of results, or of a network layer by layer.

    FILES are ACTUAL and GOLDEN, .npy or .npz with the same names. T is 2^-13 for float32, 2^-10 for float16 and 2^-7
    for bfloat16. With --network all layers are compared with a float64 run of the same graph, and the first one is
    named where the error jumps. Exit status: 0 passed, 1 failed, 2 wrong usage.

    \b
    ms-convtanh check y.npy golden.npy --standard ecosystem
    ms-convtanh check --network model.mindir --input x.npy --golden y.npy --html report.html
    ms-convtanh check --network mynet:build --checkpoint mynet.ckpt --input x.npz
    """
    result: NetworkCheck | list[Comparison]
    if network is not None:
        if files or inputs is None or dtype is not None:
            raise click.UsageError("--network goes with --input, and without FILES and --dtype", context)
        prepare_networks()
        with busy(COMMAND, "running the network, then in float64"):
            result = check_network(
                network,
                list(load_arrays(inputs).values()),
                None if golden is None else list(load_arrays(golden).values()),
                checkpoint=checkpoint,
                tolerance=tolerance,
                standard=standard,
            )
    else:
        if len(files) != 2 or checkpoint or inputs or golden:
            raise click.UsageError("give ACTUAL and GOLDEN, or --network and --input", context)
        actual, wanted = map(load_arrays, files)
        result = compare_all(actual, wanted, tolerance=tolerance, standard=standard, dtype=dtype)
    if html is not None:
        write_text(html, report.as_html(result))
    if as_json:
        print_json(result)
    else:
        _print(result)
    passed = result.passed if isinstance(result, NetworkCheck) else all(one.passed for one in result)
    context.exit(0 if passed else 1)


def _print(result: NetworkCheck | list[Comparison]) -> None:
    comparisons = result.outputs if isinstance(result, NetworkCheck) else result
    if isinstance(result, NetworkCheck):
        print_table("layers", report.LAYER_TITLES, map(report.layer_row, result.layers), COMMAND)
    print_table("outputs", report.COMPARISON_TITLES, map(report.comparison_row, comparisons), COMMAND)
    for one in comparisons:
        click.echo(f"{one.name}: {'passed' if one.passed else 'failed: ' + one.reason} ({one.standard})")
    if isinstance(result, NetworkCheck):
        for line in result.unreferenced:
            click.echo(f"without a reference: {line}")
        if result.first_jump is not None:
            click.echo(f"first jump: {result.first_jump}: {result.reason}")
