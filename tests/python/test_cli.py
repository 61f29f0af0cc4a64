"""One style for all commands of ms-convtanh."""

import json
import sys

import pytest
from click.testing import CliRunner, Result

import ms_convtanh
from ms_convtanh.cli import main

COMMANDS = sorted(main.commands)
RETURNING_DATA = [
    name for name in ("check", "config", "explain", "info", "profile", "relocate", "bench", "tune") if name in COMMANDS
]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example(name: str) -> None:
    short, long = invoke(name, "-h"), invoke(name, "--help")
    assert short.exit_code == long.exit_code == 0
    assert short.stdout == long.stdout
    example = [line for line in short.stdout.splitlines() if f"ms-convtanh {name} " in line and "Usage" not in line]
    assert example or f"  ms-convtanh {name}\n" in short.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_wrong_usage(name: str) -> None:
    result = invoke(name, "--no-such-option")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "No such option" in result.stderr


@pytest.mark.parametrize("name", RETURNING_DATA)
def test_data_commands_print_json(name: str) -> None:
    assert "--json" in {option for parameter in main.commands[name].params for option in parameter.opts}


def test_json_of_config() -> None:
    """Alone it prints everything, beside other options those."""
    everything = json.loads(invoke("config", "--json").stdout)
    assert everything["version"] == ms_convtanh.__version__
    assert set(everything) == {"cflags", "libs", "includedir", "libdir", "cmakedir", "pkgconfigdir", "version"}
    assert json.loads(invoke("config", "--json", "--libdir").stdout) == {"libdir": everything["libdir"]}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    result = invoke("completion", shell)
    assert result.exit_code == 0
    assert "_MS_CONVTANH_COMPLETE" in result.stdout


def test_completion_completes() -> None:
    """What the script asks for: commands and options that begin as given."""

    def complete(words: str, index: int) -> list[str]:
        asked = {"_MS_CONVTANH_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(index)}
        result = CliRunner().invoke(main, env=asked, prog_name="ms-convtanh")
        assert result.exit_code == 0, result.output
        return [line.partition(",")[2] for line in result.stdout.splitlines()]

    assert complete("ms-convtanh c", 1) == [name for name in COMMANDS if name.startswith("c")]
    assert complete("ms-convtanh explain --di", 2) == ["--dilations"]


def test_unknown_shell_and_command() -> None:
    assert invoke("completion", "tcsh").exit_code == invoke("no-such-command").exit_code == 2


def test_missing_extras_name_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that needs an optional package says which extra has it."""
    for module in ("rich.console", "rich.table"):
        monkeypatch.setitem(sys.modules, module, None)
    result = invoke("profile", "--x", "1,1,4,4", "--filter", "1,1,3,3", "--repeat", "1")
    assert result.exit_code == 1
    assert "needs rich, pip install 'ms_convtanh[tools]'" in result.stderr
