"""ms-convtanh tune."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from ms_convtanh._cli import json_option, optional_problem_options, print_json, print_table, progress, reports_errors

COMMAND = "tune"


@click.command()
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML file with problems, parameters, metric and iterations. Default: the package's tuning.yaml.",
)
@click.option("--iterations", type=click.IntRange(1), default=None, help="Settings for each problem, at most.")
@click.option("--case", "cases", multiple=True, metavar="TEXT", help="Only benchmark cases whose name contains this.")
@optional_problem_options
@click.option("--dry-run", is_flag=True, help="Show what would be searched and stored; measure nothing.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="Write this file and not the cache; MS_CONVTANH_TUNING=FILE reads it.",
)
@json_option
@click.pass_context
@reports_errors
def tune(
    context: click.Context,
    config: Path | None,
    iterations: int | None,
    cases: tuple[str, ...],
    dry_run: bool,
    output: Path | None,
    as_json: bool,
    bias: bool,
    **problem: Any,
) -> None:
    """Measure settings of dispatch for problems, and keep those that are faster.

    Problems are those of --x and --filter, of --case, or else of the configuration. What is found is kept by CPU model
    in $XDG_CACHE_HOME/ms_convtanh/tuning, from where the package reads it at its first use. Nothing changes a result.

    \b
    ms-convtanh tune --x 1,64,56,56 --filter 64,64,3,3 --pads 1
    ms-convtanh tune --case k3 --iterations 20 --output tuning.yaml
    """
    from ms_convtanh import tuner
    from ms_convtanh._tuning import cache_file
    from ms_convtanh.benchmark.models import case_names

    x_shape, filter_shape = problem.pop("x_shape"), problem.pop("filter_shape")
    if (x_shape is None) != (filter_shape is None) or (x_shape is not None and cases):
        raise click.UsageError("give --x and --filter, or --case, or neither", context)
    problems = None
    if x_shape is not None:
        problems = [tuner.Problem.of(x_shape, filter_shape, **problem)]
    elif cases:
        names = [name for name in case_names() if any(part in name for part in cases)]
        if not names:
            raise click.UsageError("no case fits --case; ms-convtanh bench --list shows all", context)
        problems = tuner.problems_of(names)
    settings = (
        tuner.default_config(problems=problems) if config is None else tuner.read_config(config, problems=problems)
    )
    if not settings.problems:
        raise click.UsageError(f"{config} names neither cases nor problems", context)
    if iterations is not None:
        settings = replace(settings, iterations=iterations)
    target = output if output is not None else cache_file(tuner.features().cpu)
    if dry_run:
        _show(settings, target, as_json)
        return
    found = []
    total = settings.iterations * len(settings.problems)
    with progress(COMMAND, "settings", total) as update:
        for one_problem in settings.problems:
            found += tuner.tune(replace(settings, problems=(one_problem,)), step=partial(update, advance=1))
            written = tuner.store(found[-1:], output)  # what interrupts the rest does not lose it
        update(completed=total)
    if as_json:
        results = [
            {
                "problem": one.problem,
                "setting": one.setting,
                "before": one.before,
                "after": one.after,
                "gain": one.gain,
                "measured": one.measured,
                "plan": one.plan,
            }
            for one in found
        ]
        print_json({"file": str(written), "results": results})
        return
    _print(found)
    click.echo(f"wrote {written}")


def _show(settings: Any, target: Path, as_json: bool) -> None:
    if as_json:
        print_json({"file": str(target), "config": settings})
        return
    for name, values in settings.parameters.items():
        click.echo(f"{name}: {', '.join(map(str, values))}")
    click.echo(f"metric: {settings.metric}; at most {settings.iterations} settings for each of:")
    for problem in settings.problems:
        click.echo(f"  {problem}")
    click.echo(f"would write {target}")


def _print(found: Any) -> None:
    print_table(
        "Tuning",
        ("problem", "before us", "after us", "gain", "measured", "setting"),
        [
            (
                str(one.problem),
                f"{one.before * 1e6:.0f}",
                f"{one.after * 1e6:.0f}",
                f"{one.gain - 1:+.1%}",
                str(one.measured),
                " ".join(f"{name}={value}" for name, value in one.setting.items()) or "dispatch's own",
            )
            for one in found
        ],
        COMMAND,
    )
