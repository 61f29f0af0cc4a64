"""Building C programs against the installed package, and what a failed native build says."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from installation import ROOT, Installed, run

CONSUMER = Path(__file__).parent / "consumer"
STRICT = "-Wall -Wextra -Wpedantic -Werror"


def shell(command: str, installed: Installed, folder: Path) -> str:
    return run("sh", "-ec", command, env=installed.environment(), cwd=folder)


def check_consumer(output: str, installed: Installed) -> None:
    version, y = output.split()
    assert version == installed.command("config", "--version")
    assert math.isclose(float(y), math.tanh(0.5), rel_tol=1e-6)


def test_config(installed: Installed, tmp_path: Path) -> None:
    build = f"eval cc -std=c99 {STRICT} {CONSUMER}/consumer.c $(ms-convtanh config --cflags --libs) -o consumer"
    check_consumer(shell(f"{build}; ./consumer", installed, tmp_path), installed)


def test_pkg_config(installed: Installed, tmp_path: Path) -> None:
    pkg = f'{sys.executable} -m pkgconf --with-path="$(ms-convtanh config --pkgconfigdir)"'
    build = f"eval cc -std=c99 {CONSUMER}/consumer.c $({pkg} --cflags --libs ms_convtanh) -o consumer"
    check_consumer(shell(f"{build}; ./consumer", installed, tmp_path), installed)


def test_cmake(installed: Installed, tmp_path: Path) -> None:
    configure = f'cmake -S {CONSUMER} -B . -G Ninja -Dms_convtanh_DIR="$(ms-convtanh config --cmakedir)"'
    build = f"{configure} >log; cmake --build . >log"
    check_consumer(shell(f"{build}; ./consumer", installed, tmp_path), installed)


def test_installation_can_be_moved(installed: Installed, tmp_path: Path) -> None:
    text = "\n".join(
        path.read_text() for path in (installed.package / "lib").rglob("*") if path.suffix in (".cmake", ".pc")
    )
    assert str(installed.source) not in text
    assert str(installed.site) not in text


def test_headers_stand_alone_in_c_and_cpp(installed: Installed, tmp_path: Path) -> None:
    include = installed.package / "include"
    headers = sorted(include.rglob("*.h"))
    assert headers
    for header in headers:
        for compiler, standard, suffix in (("cc", "c99", "c"), ("c++", "c++17", "cc")):
            source = tmp_path / f"includes.{suffix}"
            source.write_text(f'#include "{header.relative_to(include)}"\nint defined;\n')
            run(compiler, f"-std={standard}", *STRICT.split(), "-fsyntax-only", "-I", include, source)


def test_c_sample(installed: Installed, tmp_path: Path) -> None:
    sample = ROOT / "samples/c/fused_conv_tanh.cc"
    build = f"eval c++ -std=c++17 {STRICT} {sample} $(ms-convtanh config --cflags --libs) -o sample"
    assert shell(f"{build}; ./sample", installed, tmp_path).strip()


def test_info_and_explain(installed: Installed) -> None:
    info = json.loads(installed.command("info", "--json"))
    assert info["library"] == str(installed.package / "lib/libms_convtanh.so")
    assert "portable" in info["built"]
    plan = json.loads(installed.command("explain", "--x", "1,64,32,32", "--filter", "8,64,3,3", "--json"))
    assert plan["k1"] == info["k1"]
    assert plan["workspace_bytes"] >= 0


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["config"], 2, "name at least one option"),
        (["explain", "--x", "1,a", "--filter", "1,1,1,1"], 2, "integers separated by commas"),
        (["explain", "--x", "1,2,8,8", "--filter", "4,3,3,3"], 1, "filter"),
        (["explain", "--x", "1,2,8,8", "--filter", "4,2,3,3", "--dtype", "float64"], 1, "float64"),
    ],
)
def test_command_errors(installed: Installed, arguments: list[str], status: int, words: str) -> None:
    command = [str(installed.site / "bin/ms-convtanh"), *arguments]
    result = subprocess.run(command, env=installed.environment(), capture_output=True, text=True)
    assert result.returncode == status
    assert result.stdout == ""
    assert words in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("compiler", "words"),
    [("no-such-compiler", "Install g++"), ("false", "could not configure the native library")],
)
def test_failed_native_build_says_why(installed: Installed, tmp_path: Path, compiler: str, words: str) -> None:
    command = [sys.executable, "setup.py", "build", "--build-base", str(tmp_path)]
    environment = installed.environment(CXX=compiler)
    result = subprocess.run(command, cwd=installed.source, env=environment, capture_output=True, text=True)
    assert result.returncode != 0
    assert words in result.stderr
    assert "Traceback" not in result.stderr
