"""ms-convtanh config."""

import shlex
from pathlib import Path

import click

import ms_convtanh
from ms_convtanh._cli import json_option, print_json, reports_errors

PACKAGE = Path(__file__).resolve().parent


@click.command()
@click.option("--cflags", is_flag=True, help="Compiler options.")
@click.option("--libs", is_flag=True, help="Linker options.")
@click.option("--includedir", is_flag=True, help="Folder of the C headers.")
@click.option("--libdir", is_flag=True, help="Folder of the library.")
@click.option("--cmakedir", is_flag=True, help="Folder for CMake's ms_convtanh_DIR.")
@click.option("--pkgconfigdir", is_flag=True, help="Folder for PKG_CONFIG_PATH.")
@click.option("--version", is_flag=True, help="Version of the package.")
@json_option
@click.pass_context
@reports_errors
def config(context: click.Context, as_json: bool, **wanted: bool) -> None:
    """Print what a C or C++ build needs. Options for the compiler and linker are quoted for the shell.

    --json alone prints everything.

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
    chosen = {name: answer for name, answer in answers.items() if wanted[name]}
    if as_json:
        print_json(chosen or answers)
    elif chosen:
        click.echo(" ".join(chosen.values()))
    else:
        raise click.UsageError("name at least one option", context)
