"""What the commands of ms-convtanh share: option types, errors and output."""

import dataclasses
import json
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

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

_problem = (
    click.option("--x", "x_shape", type=Ints(), required=True, help="Shape: N,Cin,H,W or N,Cin,L."),
    click.option(
        "--filter",
        "filter_shape",
        type=Ints(),
        required=True,
        help="Shape: Cout,Cin/groups,KH,KW or Cout,Cin/groups,K.",
    ),
    click.option("--dtype", default="float32", show_default=True, help="float32, float16 or bfloat16."),
    click.option("--bias/--no-bias", default=True, show_default=True, help="Whether there is a bias of shape Cout."),
    click.option(
        "--strides", type=Ints(one_for_all=True), default="1", show_default=True, help="H,W or L or one for all."
    ),
    click.option("--pads", type=Ints(one_for_all=True), default="0", show_default=True, help="Top,bottom,left,right."),
    click.option("--dilations", type=Ints(one_for_all=True), default="1", show_default=True, help="As --strides."),
    click.option("--groups", type=int, default=1, show_default=True, help="Groups of channels."),
)


def problem_options(command: Callable[..., Result]) -> Callable[..., Result]:
    """Adds the options that describe one problem, with the names and defaults of ms_convtanh.explain."""
    for option in reversed(_problem):
        command = option(command)
    return command


def reports_errors(command: Callable[..., Result]) -> Callable[..., Result]:
    """Turns the package's own errors into one line on stderr and exit status 1."""

    @wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> Result:
        try:
            return command(*args, **kwargs)
        except (BrokenPipeError, click.exceptions.Exit):  # click's: the reader has seen enough, or an exit status
            raise
        except (TypeError, ValueError, RuntimeError, OSError) as error:
            raise click.ClickException(str(error)) from error

    return wrapper


def show(record: Any, as_json: bool) -> None:
    """Prints a dataclass as aligned lines or as JSON."""
    values = dataclasses.asdict(record)
    if as_json:
        click.echo(json.dumps(values, indent=2))
        return
    width = max(map(len, values))
    for name, value in values.items():
        click.echo(f"{name:<{width}}  {as_text(value)}")


def as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        value = ", ".join(value)
    return "none" if value in (None, "") else str(value)
