"""ms-convtanh bench."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from ms_convtanh._cli import (
    busy,
    json_option,
    prepare_networks,
    print_json,
    print_table,
    progress,
    reports_errors,
    write_text,
)

COMMAND = "bench"
DTYPES = ("float32", "float16", "bfloat16")


def _progress(names: Sequence[str]) -> Iterator[str]:
    with progress(COMMAND, "", len(names)) as update:
        for name in names:
            update(description=name)
            yield name
            update(advance=1)


def _use_cpus(threads: int | None) -> None:
    """Before any library has made its threads: all sides get as many."""
    if threads is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))


def _chosen(names: Sequence[str], cases: Sequence[str], dtypes: Sequence[str]) -> list[str]:
    """Those that contain one of `cases` and are of one of `dtypes`; networks are of float32."""

    def dtype_of(name: str) -> str:
        return next((dtype for dtype in DTYPES if name.endswith(f"_{dtype}")), "float32")

    return [
        name
        for name in names
        if (not cases or any(part in name for part in cases)) and (not dtypes or dtype_of(name) in dtypes)
    ]


@click.command()
@click.option(
    "--case", "cases", multiple=True, metavar="TEXT", help="Only cases and networks whose name contains this."
)
@click.option("--dtype", "dtypes", multiple=True, type=click.Choice(DTYPES), help="Only these; networks are float32.")
@click.option("--peers", default=None, metavar="NAMES", help="Separated by commas, or none. Default: all.")
@click.option("--threads", type=click.IntRange(1), default=None, help="CPUs for all sides. Default: all available.")
@click.option("--quick", is_flag=True, help="A tenth of the time; for a first look.")
@click.option("--training", is_flag=True, help="Forward and backward instead, and a train step.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=None,
    help="Write OUTPUT.json after each case, and OUTPUT.csv and OUTPUT.html in the end.",
)
@click.option(
    "--compare",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    default=None,
    metavar="OLD.json",
    help="Show changes against an earlier run; exit status 1 if something became slower by more than 10 %.",
)
@click.option("--list", "lists", is_flag=True, help="Show cases, networks and peers, and measure nothing.")
@json_option
@click.pass_context
@reports_errors
def bench(
    context: click.Context,
    cases: tuple[str, ...],
    dtypes: tuple[str, ...],
    peers: str | None,
    threads: int | None,
    quick: bool,
    training: bool,
    output: Path | None,
    compare: Path | None,
    lists: bool,
    as_json: bool,
) -> None:
    """Time the operator beside other libraries.

    24 layers and four networks, against MindSpore's own layers, PyTorch, torch.compile, ONNX Runtime and OpenVINO
    (pip install 'ms_convtanh[bench]'; what is absent is named). Each result is compared with float64 before it is
    timed; all sides take turns.

    \b
    ms-convtanh bench --quick --case k3 --dtype float32
    ms-convtanh bench --output run && ms-convtanh bench --compare run.json
    """
    _use_cpus(threads)
    prepare_networks()
    from ms_convtanh import benchmark
    from ms_convtanh.benchmark import results

    known = benchmark.TRAINING_NAMES if training else benchmark.NAMES
    if lists:
        _show_names({"cases": list(known), "peers": list(benchmark.PEER_NAMES)}, as_json)
        return
    names = _chosen(known, cases, dtypes)
    if not names:
        raise click.UsageError("no case fits --case and --dtype; --list shows all", context)
    chosen_peers = benchmark.PEER_NAMES if peers is None else [] if peers == "none" else peers.split(",")
    old = results.read(compare) if compare is not None else None

    def keep(run: dict[str, Any]) -> None:
        if output is None:
            return
        file, part = output.with_name(f"{output.name}.json"), output.with_name(f"{output.name}.part")
        part.write_text(results.to_json(run), encoding="utf-8")
        os.replace(part, file)  # whatever interrupts this, the file is whole

    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
    run = benchmark.run(names, chosen_peers, quick=quick, of_training=training, progress=_progress, keep=keep)
    if output is not None:
        _write(output, run)
    if as_json:
        print_json(run)
    else:
        _print(run)
    if old is not None and _print_changes(old, run, to_stderr=as_json):
        context.exit(1)


def _show_names(names: dict[str, list[str]], as_json: bool) -> None:
    if as_json:
        print_json(names)
        return
    for kind, values in names.items():
        click.echo(f"{kind}:")
        for value in values:
            click.echo(f"  {value}")


def _write(output: Path, run: dict[str, Any]) -> None:
    from ms_convtanh.benchmark import report, results

    write_text(output.with_name(f"{output.name}.json"), results.to_json(run))
    write_text(output.with_name(f"{output.name}.csv"), results.to_csv(run))
    with busy(COMMAND, "drawing"):
        page = report.as_html(run)
    write_text(output.with_name(f"{output.name}.html"), page)


def _print(run: dict[str, Any]) -> None:
    from ms_convtanh.benchmark import report, results

    machine, features = run["machine"], run["machine"]["features"]
    click.echo(
        f"ms_convtanh {features['version']} ({features['k1']}) on {machine['cpu']}, {run['peaks']['threads']} threads; "
        f"peak {report.peaks_text(run)}"
    )
    for kind in ("case", "network", "training"):
        records = results.of_kind(run, kind)
        if records:
            titles, rows = report.table(run, records, brief=True)
            print_table(report.TITLES[kind], titles, rows, COMMAND)
    for line in report.absences(run):
        click.echo(f"not measured: {line}")
    for line in report.summary_lines(run):
        click.echo(line)


def _print_changes(old: dict[str, Any], new: dict[str, Any], to_stderr: bool) -> bool:
    """Whether something regressed."""
    from ms_convtanh.benchmark import report, results

    found = results.changes(old, new)
    if old["machine"]["cpu"] != new["machine"]["cpu"]:
        click.echo(f"the earlier run was on another CPU: {old['machine']['cpu']}", err=True)
    rows = [
        (
            c.name,
            report.microseconds(c.old),
            report.microseconds(c.new),
            f"{c.ratio:.2f}",
            "slower" if c.regressed else "",
        )
        for c in found
    ]
    if to_stderr:
        for row in rows:
            click.echo(" ".join(row).rstrip(), err=True)
    else:
        print_table("Changes", ("case", "old us", "new us", "new / old", ""), rows, COMMAND)
    return any(change.regressed for change in found)
