"""What the commands of ms-convtanh share: option types, errors and output."""

import dataclasses
import importlib.util
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from ms_convtanh._extras import require

Result = TypeVar("Result")


class Ints(click.ParamType):
    """Integers separated by commas: 1,64,256,256. Attributes also take one integer for all entries."""

    name = "ints"

    def __init__(self, one_for_all: bool = False) -> None:
        self.one_for_all = one_for_all

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            values = tuple(int(part) for part in value.split(","))
        except ValueError:
            self.fail(f"expected integers separated by commas, such as 1,64,256,256, got {value!r}", param, ctx)
        return values[0] if self.one_for_all and len(values) == 1 else values


# Options that several commands have.
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _problem(required: bool) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    one_for_all = Ints(one_for_all=True)
    options = (
        click.option("--x", "x_shape", type=Ints(), required=required, help="Shape: N,Cin,H,W or N,Cin,L."),
        click.option(
            "--filter",
            "filter_shape",
            type=Ints(),
            required=required,
            help="Shape: Cout,Cin/groups,KH,KW or Cout,Cin/groups,K.",
        ),
        click.option("--dtype", default="float32", show_default=True, help="float32, float16 or bfloat16."),
        click.option(
            "--bias/--no-bias", default=True, show_default=True, help="Whether there is a bias of shape Cout."
        ),
        click.option("--strides", type=one_for_all, default="1", show_default=True, help="H,W or L or one for all."),
        click.option("--pads", type=one_for_all, default="0", show_default=True, help="Top,bottom,left,right."),
        click.option("--dilations", type=one_for_all, default="1", show_default=True, help="As --strides."),
        click.option("--groups", type=int, default=1, show_default=True, help="Groups of channels."),
    )

    def add(command: Callable[..., Result]) -> Callable[..., Result]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


# The options that describe one problem, with the names and defaults of ms_convtanh.explain.
problem_options = _problem(required=True)
optional_problem_options = _problem(required=False)


def reports_errors(command: Callable[..., Result]) -> Callable[..., Result]:
    """Turns the package's own errors into one line on stderr and exit status 1."""

    @wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> Result:
        try:
            return command(*args, **kwargs)
        except (BrokenPipeError, click.exceptions.Exit):  # the reader has seen enough, or the command ends itself
            raise
        except (TypeError, ValueError, RuntimeError, OSError) as error:
            raise click.ClickException(str(error)) from error

    return wrapper


def show(record: Any, as_json: bool) -> None:
    """Prints a dataclass as aligned lines or as JSON."""
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(record), indent=2))
        return
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    width = max(map(len, values))
    for name, value in values.items():
        click.echo(f"{name:<{width}}  {as_text(value)}")


def as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        value = ", ".join(map(str, value))
    return "none" if value in (None, "") else str(value)


def prepare_networks() -> None:
    """Lets module:function be found in the working directory, and MindSpore print errors only."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    os.environ.setdefault("GLOG_v", "3")  # read when MindSpore is loaded


def print_json(values: Any) -> None:
    """Prints dataclasses, or containers of them, as JSON. NaN and infinities become null: JSON has none."""

    def plain(value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return plain(dataclasses.asdict(value))
        if isinstance(value, dict):
            return {str(key): plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    click.echo(json.dumps(plain(values), indent=2, allow_nan=False))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], command: str) -> None:
    """Prints a table, as wide as it has to be where the output is no terminal."""
    console = require(command, "rich.console", "tools").Console(highlight=False)
    if not console.is_terminal:
        console.width = 400
    table = require(command, "rich.table", "tools").Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", overflow="fold")
    for row in rows:
        table.add_row(*(require(command, "rich.text", "tools").Text(cell) for cell in row))
    console.print(table)


@contextmanager
def busy(command: str, text: str) -> Iterator[None]:
    """Shows on stderr that something long goes on. Quiet where that is no terminal, or rich is not installed."""
    if not sys.stderr.isatty() or importlib.util.find_spec("rich") is None:
        yield
        return
    console = require(command, "rich.console", "tools").Console(stderr=True)
    with console.status(text):
        yield


@contextmanager
def progress(command: str, text: str, total: int) -> Iterator[Callable[..., None]]:
    """A bar on stderr, which the function moves: advance, completed, description. Nothing where that is no terminal."""
    if not sys.stderr.isatty():
        yield lambda **changes: None
        return
    bars = require(command, "rich.progress", "tools")
    console = require(command, "rich.console", "tools").Console(stderr=True)
    with bars.Progress(*bars.Progress.get_default_columns(), bars.TimeElapsedColumn(), console=console) as bar:
        yield partial(bar.update, bar.add_task(text, total=total))


def write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    click.echo(f"wrote {path}", err=True)
