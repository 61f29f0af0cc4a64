"""What compiles against CANN's own headers, and runs; skipped where there are none.

ASCEND_HOME_PATH names CANN, or any folder that has its headers in include/. Its toolkit lacks headers that the operator
repositories bring along (opbase, aclnn_kernels): MS_CONVTANH_CANN_INCLUDE names their folders, separated by colons.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest
from operator_project import OWN, ROOT, SHARED

from ms_convtanh import _library, _opp

MISSING = re.compile(r"fatal error: (\S+): No such file")


@pytest.fixture(scope="module")
def headers() -> list[str]:
    """Compiler options for CANN's folders. Its headers are not ours to warn about."""
    cann = _opp.find_cann()
    if cann is None:
        pytest.skip("CANN's headers are not here (ASCEND_HOME_PATH)")
    folders = [cann / "include" / name for name in ("", "aclnn", "asc", "op_common")]
    folders += [cann / "pkg_inc", cann / "pkg_inc/op_common"]
    folders += [Path(name) for name in os.environ.get("MS_CONVTANH_CANN_INCLUDE", "").split(":") if name]
    return [option for folder in folders for option in ("-isystem", str(folder))]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """op_api/include of the vendor package, beside which no header of the CPU library lies."""
    vendor, _ = _opp.lay_out(tmp_path_factory.mktemp("package"))
    return vendor / "op_api/include"


def run(*command: str | Path) -> str:
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("language", ["-std=c99 -xc", "-std=c++11 -xc++", "-std=c++17 -xc++"])
def test_public_header(headers: list[str], package: Path, language: str, tmp_path: Path) -> None:
    compile_ = ["g++", *language.split(), "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *headers]
    program = tmp_path / "program"
    program.write_text('#include "aclnn/aclnn_base.h"\n')
    if subprocess.run([*compile_, program], capture_output=True).returncode != 0:
        pytest.skip(f"CANN's own aclnn/aclnn_base.h does not compile with {language}")
    program.write_text(
        '#include "aclnnop/aclnn_fused_conv_tanh.h"\n'
        "aclnnStatus (*phase2)(void *, uint64_t, aclOpExecutor *, aclrtStream) = aclnnFusedConvTanh;\n"
    )
    run(*compile_, f"-I{package}", program)


def build(source: str, target: Path, *options: str | Path) -> None:
    """An executable that is compiled for CANN and linked with the CPU library, which stands for CANN's runtime."""
    library = _library.PATH
    link = (f"-L{library.parent}", f"-l{library.stem.removeprefix('lib')}", f"-Wl,-rpath,{library.parent}")
    run("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", *options, ROOT / source, *link, "-o", target)


def test_sample_is_the_same_for_cann(headers: list[str], package: Path, tmp_path: Path) -> None:
    build("samples/c/fused_conv_tanh.cc", tmp_path / "sample", f"-I{package}", *headers)
    assert "largest error" in run(tmp_path / "sample")


def test_names_and_numbers_are_those_of_cann(headers: list[str], package: Path, tmp_path: Path) -> None:
    options = ("-Wno-deprecated-declarations", f"-I{ROOT}", f"-I{package}", *headers)
    build("tests/native/aclnn_abi_test.cc", tmp_path / "abi", *options)
    assert " 0 failed, 0 skipped" in run(tmp_path / "abi")


def test_callback_of_mindspore(headers: list[str], tmp_path: Path) -> None:
    pytest.importorskip("mindspore", reason="MindSpore is not installed")
    from mindspore.ops.operations import _custom_ops_utils as generators

    from ms_convtanh import _custom_ascend

    generator, info = generators.CustomCodeGenerator(), _custom_ascend.registration()
    types = generator.get_api_types_by_reg_info(info)
    source = tmp_path / "callback.cc"
    source.write_text(generator.generate_callback_by_types(_custom_ascend.ENTRY, info, types))
    run("g++", "-std=c++17", "-fsyntax-only", *headers, source)


@pytest.mark.parametrize("source", [*OWN, *SHARED], ids=lambda path: path.name)
def test_operator_project(headers: list[str], package: Path, source: Path) -> None:
    options = ("-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}", f"-I{package}")
    command = ["g++", *options, *headers, source]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    missing = MISSING.search(result.stderr)
    if missing:
        pytest.skip(f"{missing[1]} is not among CANN's headers here (MS_CONVTANH_CANN_INCLUDE)")
    assert result.returncode == 0, result.stderr
