"""ms-convtanh profile."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from ms_convtanh import profiler
from ms_convtanh._cli import (
    busy,
    json_option,
    optional_problem_options,
    prepare_networks,
    print_json,
    print_table,
    reports_errors,
    write_text,
)
from ms_convtanh._compare import load_arrays
from ms_convtanh._trace import COMMAND

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_OUTPUT = click.Path(dir_okay=False, path_type=Path)


@click.command()
@optional_problem_options
@click.option("--backward", is_flag=True, help="Profile the gradients of the problem.")
@click.option("--network", help="A .mindir file, or module:function that returns a cell.")
@click.option("--checkpoint", type=_FILE, help="Parameters of module:function.")
@click.option("--input", "inputs", type=_FILE, help="Inputs of the network, .npy or .npz in their order.")
@click.option("--mode", type=click.Choice(["graph", "pynative"]), default="graph", show_default=True)
@click.option("--repeat", type=click.IntRange(1), default=20, show_default=True, help="Calls to record.")
@click.option("--trace", type=_OUTPUT, help="Write a Chrome trace, which ui.perfetto.dev opens as well.")
@click.option("--flame", type=_OUTPUT, help="Write a flame graph as SVG.")
@json_option
@click.pass_context
@reports_errors
def profile(
    context: click.Context,
    network: str | None,
    checkpoint: Path | None,
    inputs: Path | None,
    mode: str,
    backward: bool,
    repeat: int,
    trace: Path | None,
    flame: Path | None,
    as_json: bool,
    **problem: Any,
) -> None:
    """Show where the time of a problem or of a network goes.

    Each call is broken into phases: framework, phase 1, launch, and on each thread pack, K1, K2 and wait. K1 is
    compared with the measured peak of multiply-adds, the whole with the measured bandwidth. Targets: K1 above 85 % of
    the peak where that is the limit, above 60 % of the bandwidth where that is, overhead below 5 us.

    \b
    ms-convtanh profile --x 1,64,56,56 --filter 64,64,3,3 --pads 1 --flame flame.svg
    ms-convtanh profile --network model.mindir --input x.npy --trace trace.json
    """
    has_problem = problem["x_shape"] is not None and problem["filter_shape"] is not None
    if (network is not None) == has_problem:
        raise click.UsageError("give --x and --filter, or --network and --input", context)
    with busy(COMMAND, "measuring"):
        if network is None:
            result = profiler.profile_case(**problem, backward=backward, repeat=repeat)
        else:
            if inputs is None or backward:
                raise click.UsageError("--network goes with --input, and without --backward", context)
            prepare_networks()
            arrays = list(load_arrays(inputs).values())
            result = profiler.profile_network(network, arrays, checkpoint=checkpoint, mode=mode, repeat=repeat)
    if trace is not None:
        write_text(trace, profiler.as_chrome_trace(result.events))
    if flame is not None:
        write_text(flame, profiler.as_flame_graph(result.events))
    if as_json:
        print_json({f.name: getattr(result, f.name) for f in fields(result) if f.name != "events"})
    else:
        _print(result)


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f}"


def _print(result: profiler.Profile) -> None:
    peaks = result.peaks
    click.echo(
        f"one iteration {_us(result.wall)} us, outside the library {_us(result.framework)} us "
        f"(medians of {result.iterations})"
    )
    click.echo(
        f"peaks on {peaks.threads} threads: {peaks.flops / 1e9:.1f} GFLOP/s, {peaks.bytes / 1e9:.1f} GB/s; times in us"
    )
    if not result.problems:
        click.echo("no call of the operator was recorded")
        return
    print_table(
        "phases (medians; pack to wait: average over threads)",
        ("problem", "calls", "phase 1", "launch", "overhead", "run", "pack", "K1", "K2", "wait"),
        [
            (p.name, str(p.calls), *map(_us, (p.phase1, p.launch, p.overhead, p.run, p.pack, p.k1, p.k2, p.wait)))
            for p in result.problems
        ],
        COMMAND,
    )
    print_table(
        "utilisation",
        ("problem", "GFLOP/s", "K1 of peak", "of bandwidth", "bound", "target", "overhead < 5 us"),
        [
            (
                p.name,
                f"{p.flops / p.run / 1e9:.1f}" if p.run > 0 else "-",
                f"{p.k1_utilisation:.0%}",
                f"{p.bandwidth_utilisation:.0%}",
                p.bound,
                ("K1 > 85 %" if p.bound == "compute" else "bandwidth > 60 %") + (": met" if p.met else ": missed"),
                "met" if p.overhead_met else "missed",
            )
            for p in result.problems
        ],
        COMMAND,
    )
    print_table(
        "threads (sums over all runs)",
        ("thread", "pack", "K1", "K2", "wait", "idle", "K1 of peak"),
        [
            (str(t.thread), *map(_us, (t.pack, t.k1, t.k2, t.wait, t.idle)), f"{t.k1_utilisation:.0%}")
            for t in result.threads
        ],
        COMMAND,
    )
    if result.dropped:
        click.echo(f"{result.dropped} events found no room: fewer --repeat record all")
