"""The ms-convtanh command: what runs here, how a problem would run, and how to build C programs against the package."""

import dataclasses
import json
import shlex
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

import ms_convtanh

PACKAGE = Path(__file__).resolve().parent
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


def reports_errors(command: Callable[..., Result]) -> Callable[..., Result]:
    """Turns the package's own errors into one line on stderr and exit status 1."""

    @wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> Result:
        try:
            return command(*args, **kwargs)
        except BrokenPipeError:  # the reader has seen enough; click ends quietly
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


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "-V", "--version", package_name="ms_convtanh", prog_name="ms-convtanh")
def main() -> None:
    """y = tanh(conv2d(x, filter, bias)) as one operator."""


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reports_errors
def info(as_json: bool) -> None:
    """Show kernel variants, threads, library and versions."""
    show(ms_convtanh.features(), as_json)


@main.command()
@click.option("--x", "x_shape", type=Ints(), required=True, help="Shape: N,Cin,H,W or N,Cin,L.")
@click.option(
    "--filter", "filter_shape", type=Ints(), required=True, help="Shape: Cout,Cin/groups,KH,KW or Cout,Cin/groups,K."
)
@click.option("--dtype", default="float32", show_default=True, help="float32, float16 or bfloat16.")
@click.option("--bias/--no-bias", default=True, show_default=True, help="Whether there is a bias of shape Cout.")
@click.option("--strides", type=Ints(one_for_all=True), default="1", show_default=True, help="H,W or L or one for all.")
@click.option("--pads", type=Ints(one_for_all=True), default="0", show_default=True, help="Top,bottom,left,right.")
@click.option("--dilations", type=Ints(one_for_all=True), default="1", show_default=True, help="As --strides.")
@click.option("--groups", type=int, default=1, show_default=True, help="Groups of channels.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reports_errors
def explain(as_json: bool, **problem: Any) -> None:
    """Show the plan of a problem.

    That is kernel variants, fusion, tiling, threads and workspace; nothing is computed.
    """
    show(ms_convtanh.explain(**problem), as_json)


@main.command()
@click.option("--cflags", is_flag=True, help="Compiler options.")
@click.option("--libs", is_flag=True, help="Linker options.")
@click.option("--includedir", is_flag=True, help="Folder of the C headers.")
@click.option("--libdir", is_flag=True, help="Folder of the library.")
@click.option("--cmakedir", is_flag=True, help="Folder for CMake's ms_convtanh_DIR.")
@click.option("--pkgconfigdir", is_flag=True, help="Folder for PKG_CONFIG_PATH.")
@click.option("--version", is_flag=True, help="Version of the package.")
@click.pass_context
@reports_errors
def config(context: click.Context, **wanted: bool) -> None:
    """Print what a C or C++ build needs. Options for the compiler and linker are quoted for the shell.

    \b
    eval c++ sample.cc $(ms-convtanh config --cflags --libs) -o sample
    cmake -Dms_convtanh_DIR="$(ms-convtanh config --cmakedir)" ..
    """
    include, lib = PACKAGE / "include", PACKAGE / "lib"
    if not include.is_dir() or not lib.is_dir():
        raise FileNotFoundError(f"ms-convtanh config: expected the C headers and the library in {PACKAGE}, found none")
    answers = {
        "cflags": shlex.join([f"-I{include}"]),
        "libs": shlex.join([f"-L{lib}", f"-Wl,-rpath,{lib}", "-lms_convtanh"]),
        "includedir": str(include),
        "libdir": str(lib),
        "cmakedir": str(lib / "cmake" / "ms_convtanh"),
        "pkgconfigdir": str(lib / "pkgconfig"),
        "version": ms_convtanh.__version__,
    }
    chosen = [answer for name, answer in answers.items() if wanted[name]]
    if not chosen:
        raise click.UsageError("name at least one option", context)
    click.echo(" ".join(chosen))
