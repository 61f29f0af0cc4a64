"""ms-convtanh opp: what is laid out, and how it is built where CANN is (with stand-ins for CANN's own build)."""

import ast
import json
import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ms_convtanh import _library, _opp
from ms_convtanh.cli import main

INCLUDE = _library.PATH.parents[1] / "include"
VENDOR_FILES = [
    "op_api/include/aclnn_fused_conv_tanh.h",
    "op_api/include/aclnnop/aclnn_fused_conv_tanh.h",
    "op_impl/ai_core/tbe/config/ascend950/aic-ascend950-ops-info.json",
    "op_proto/inc/fused_conv_tanh_proto.h",
]

# Stands in for an operator repository's build: a package that installs where the repositories' packages do.
BUILD = """#!/bin/bash
set -e
echo "$*" > arguments
test -f examples/fused_conv_tanh/aclnn/ascend/CMakeLists.txt
mkdir -p build_out
cat > build_out/cann-ops-math-ms_convtanh_linux.run <<'END'
for option in "$@"; do case $option in --install-path=*) path=${option#*=} ;; esac; done
vendor=$path/vendors/ms_convtanh_math
config=$vendor/op_impl/ai_core/tbe/config/ascend950
mkdir -p "$vendor/bin" "$vendor/op_api/lib" "$vendor/op_impl/ai_core/tbe/kernel/ascend950/k1_conv" "$config"
touch "$vendor/op_api/lib/libcust_opapi.so" "$vendor/op_impl/ai_core/tbe/kernel/ascend950/k1_conv/k1_conv.o"
echo '{"ConvTanhPack": {}}' > "$config/aic-ascend950-ops-info.json"
echo "export ASCEND_CUSTOM_OPP_PATH=$vendor" > "$vendor/bin/set_env.bash"
END
"""


@pytest.fixture
def cann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like CANN, pypto_pro beside it, and an operator repository with a build.sh."""
    header = tmp_path / "cann/include/aclnn/aclnn_base.h"
    header.parent.mkdir(parents=True)
    header.touch()
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "cann"))
    (tmp_path / "python/pypto_pro").mkdir(parents=True)
    (tmp_path / "python/pypto_pro/__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "python")
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "build.sh").write_text(BUILD)
    (repository / "examples").mkdir()
    (repository / "examples/CMakeLists.txt").touch()
    (repository / "cmake").mkdir()
    (repository / "cmake/func.cmake").write_text("function(enable_pypto_kernel op_file)\nendfunction()\n")
    return repository


@pytest.fixture
def no_cann(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "nowhere"))


def test_layout_without_cann(no_cann: None, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["opp", "--output", str(tmp_path / "out"), "--json"])
    report = json.loads(result.output)
    assert result.exit_code == 1
    assert report["files"] == VENDOR_FILES
    missing = " ".join(report["missing"])
    for word in ("set_env.sh", "--repository", "libcust_opapi.so", "kernel/ascend950"):
        assert word in missing
    old = tmp_path / "out/project/aclnn/ascend/fused_conv_tanh/op_api/of_an_earlier_version.cpp"
    old.parent.mkdir()
    old.touch()
    text = CliRunner().invoke(main, ["opp", "--output", str(tmp_path / "out")])  # once more, over itself
    assert text.exit_code == 1
    assert not old.exists()
    assert "missing:" in text.output
    assert "Error" not in text.output


def test_other_operators_stay_in_the_description(tmp_path: Path) -> None:
    description = tmp_path / "ms_convtanh" / VENDOR_FILES[2]
    description.parent.mkdir(parents=True)
    description.write_text('{"Other": {}}')
    _opp.lay_out(tmp_path)
    assert set(json.loads(description.read_text())) == {"Other", "FusedConvTanh"}


def test_project_is_complete(tmp_path: Path) -> None:
    """All shared C++ compiles from the project alone (CANN's host declarations: ours); all kernel imports are there."""
    _, project = _opp.lay_out(tmp_path)
    acl = tmp_path / "acl"  # only what CANN has under the same names
    for folder in ("acl", "aclnn"):
        shutil.copytree(INCLUDE / folder, acl / folder)
    sources = [*(project / "aclnn/src").glob("*.cc"), *(project / "kernels/ascend").glob("*.cc")]
    assert len(sources) == 5
    for source in sources:
        command = ["g++", "-std=c++17", "-fsyntax-only", "-Wall", "-Werror", f"-I{project}", f"-I{acl}", source]
        subprocess.run(command, check=True)
    for operator, kernel in _opp.KERNELS.items():
        folder = project / "aclnn/ascend" / operator / "op_kernel"
        here = {path.stem for path in folder.glob("*.py")}
        assert kernel in here
        for path in folder.glob("*.py"):
            imported = {n.module for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)}
            local = {name for name in imported if (project / "kernels/ascend" / f"{name}.py").exists()}
            assert local <= here, path
        host = folder.parent / "op_host"
        assert f"enable_pypto_kernel({kernel})" in (host / "CMakeLists.txt").read_text()
        assert f'"{kernel}"' in (host / f"{operator}_def.cpp").read_text()


def test_build_where_cann_is(cann: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["opp", "--output", str(tmp_path / "out"), "--repository", str(cann), "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.output)
    assert report["missing"] == []
    assert "op_api/lib/libcust_opapi.so" in report["files"]
    arguments = (cann / "arguments").read_text().split()
    operators = ",".join((*_opp.KERNELS, "fused_conv_tanh"))
    assert arguments == ["--pkg", "--soc=ascend950", "--vendor_name=ms_convtanh", f"--ops={operators}"]
    description = json.loads((tmp_path / "out/ms_convtanh" / VENDOR_FILES[2]).read_text())
    assert set(description) == {"ConvTanhPack", "FusedConvTanh"}
    assert not (tmp_path / "out/vendors").exists()
    assert "bin/set_env.bash" not in report["files"]


def test_a_repository_of_another_kind_is_named(cann: Path, tmp_path: Path) -> None:
    shutil.rmtree(cann / "examples")
    (cann / "cmake/func.cmake").write_text("")
    result = CliRunner().invoke(main, ["opp", "--output", str(tmp_path / "out"), "--repository", str(cann)])
    assert result.exit_code == 1
    assert f"examples/CMakeLists.txt in the operator repository {cann}" in result.output
    assert f"enable_pypto_kernel in cmake/ of the operator repository {cann}" in result.output


def test_failed_build_shows_its_output(cann: Path, tmp_path: Path) -> None:
    (cann / "build.sh").write_text("echo no compiler; exit 3\n")
    result = CliRunner().invoke(main, ["opp", "--output", str(tmp_path / "out"), "--repository", str(cann)])
    assert result.exit_code == 1
    assert "failed with status 3" in result.output
    assert "no compiler" in result.output


def test_no_package_comes_out(cann: Path, tmp_path: Path) -> None:
    (cann / "build_out").mkdir()
    (cann / "build_out/cann-ops-math-ms_convtanh_linux.run").touch()  # of an earlier build
    (cann / "build.sh").write_text("true\n")
    with pytest.raises(RuntimeError, match="expected one package"):
        _opp.make_package(tmp_path / "out", cann)


def test_package_installs_nothing(cann: Path, tmp_path: Path) -> None:
    (cann / "build.sh").write_text("mkdir build_out; echo true > build_out/ms_convtanh.run\n")
    with pytest.raises(RuntimeError, match="to install one package, got 0"):
        _opp.make_package(tmp_path / "out", cann)


@pytest.mark.parametrize("language", ["-std=c99 -xc", "-std=c++11 -xc++", "-std=c++17 -xc++"])
def test_public_header_is_one_text(language: str, tmp_path: Path) -> None:
    """The header of the vendor package against our host declarations; test_cann_headers.py has CANN's."""
    vendor, _ = _opp.lay_out(tmp_path)
    program = tmp_path / "program"
    program.write_text(
        '#include "aclnnop/aclnn_fused_conv_tanh.h"\n'
        "aclnnStatus (*phase2)(void *, uint64_t, aclOpExecutor *, aclrtStream) = aclnnFusedConvTanh;\n"
    )
    options = (*language.split(), "-fsyntax-only", "-Wall", "-Wextra", "-Werror")
    subprocess.run(["g++", *options, f"-I{vendor}/op_api/include", f"-I{INCLUDE}", program], check=True)


@pytest.mark.parametrize("rich", [True, False])
def test_on_a_terminal(no_cann: None, tmp_path: Path, rich: bool) -> None:
    """There it says that it works, and needs no extra for that."""
    program = (
        "import importlib.util, sys\n"
        "from ms_convtanh.cli import main\n"
        "find = importlib.util.find_spec\n"
        f"if not {rich}: importlib.util.find_spec = lambda name, *rest: None if name == 'rich' else find(name, *rest)\n"
        f"main(['opp', '--output', {str(tmp_path / 'out')!r}])\n"
    )
    leader, follower = pty.openpty()
    command, environment = [sys.executable, "-c", program], {**os.environ, "TERM": "xterm"}
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=follower, text=True, env=environment)
    said = os.read(leader, 4096).decode() if select.select([leader], [], [], 0)[0] else ""
    os.close(follower)
    os.close(leader)
    assert result.returncode == 1
    assert "missing:" in result.stdout
    assert ("making the operator package" in said) == rich
