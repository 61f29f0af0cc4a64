"""What the wheel holds, and that it needs no compiler, no CPU beyond the baseline and no name beyond the API."""

import json
import os
import platform
import re
import sys
import zipfile

import pytest
from installation import ROOT, Installed, run, search_path

MINDSPORE_ENTRIES = {
    operator + entry
    for operator in ("FusedConvTanh", "FusedConvTanhBackward")
    for entry in ("", "Init", "InferShape", "InferType")
}
x86_only = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the ISA variants are for x86-64")


def test_name_says_any_python_on_this_platform(installed: Installed) -> None:
    """auditwheel, looking at the library's symbol versions, finds the platform that the name promises."""
    match = re.fullmatch(r"ms_convtanh-[\d.]+-py3-none-(manylinux[\w.]+)\.whl", installed.wheel.name)
    assert match
    promised = match[1].split(".")
    assert all(tag.endswith(f"_{platform.machine()}") for tag in promised)
    show = (sys.executable, "-m", "auditwheel", "show", "--json", installed.wheel)
    found = json.loads(run(*show, env={**os.environ, "PATH": search_path()}))
    assert found["overall_tag"] in promised


def test_is_small(installed: Installed) -> None:
    assert installed.wheel.stat().st_size < 5e6
    assert installed.archive.stat().st_size < 5e6


def test_holds_modules_library_and_headers_only(installed: Installed) -> None:
    names = {name for name in zipfile.ZipFile(installed.wheel).namelist() if not name.endswith("/")}
    modules = {
        str(path.relative_to(ROOT))
        for folder in (ROOT / "ms_convtanh", ROOT / "ms_convtanh/benchmark")
        for path in folder.glob("*")
        if path.is_file()
    }
    headers = {
        f"ms_convtanh/include/{path.relative_to(ROOT / 'aclnn/include')}"
        for path in (ROOT / "aclnn/include").rglob("*.h")
    }
    native = {
        "ms_convtanh/lib/libms_convtanh.so",
        "ms_convtanh/lib/pkgconfig/ms_convtanh.pc",
        "ms_convtanh/lib/cmake/ms_convtanh/ms_convtanh-config.cmake",
        "ms_convtanh/lib/cmake/ms_convtanh/ms_convtanh-config-release.cmake",
        "ms_convtanh/lib/cmake/ms_convtanh/ms_convtanh-config-version.cmake",
    }
    assert headers
    sources = {"ms_convtanh/graph_pass/fuse_conv_tanh.cc"}  # compiled at first use
    ascend = {name for name in names if name.startswith("ms_convtanh/share/ascend/")}  # see test_opp_package.py
    assert ascend
    assert {name for name in names if ".dist-info/" not in name} == modules | headers | native | sources | ascend
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_metadata(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        text = wheel.read(name).decode()
    assert "License-Expression: Apache-2.0" in text
    assert "Requires-Python: <3.13,>=3.10" in text
    required = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", text, re.MULTILINE)
    assert sorted(required) == ["click", "ml_dtypes", "numpy"]
    assert "# ms_convtanh" in text  # the README is the long description


def test_runs_without_a_compiler(installed: Installed) -> None:
    program = """
import numpy as np
from ms_convtanh import native
x = np.linspace(-2, 2, 2 * 3 * 9 * 7, dtype=np.float32).reshape(2, 3, 9, 7)
y = native.fused_conv_tanh(x, np.full((1, 3, 1, 1), 0.5, np.float32))
assert np.allclose(y[:, 0], np.tanh(0.5 * x.astype(np.float64).sum(1)), atol=1e-6)
print(native.__file__)
"""
    out = run(sys.executable, "-c", program, env=installed.environment(PATH="/nonexistent"), cwd=installed.site)
    assert out.strip() == str(installed.package / "native.py")


def test_exports_the_public_api_and_nothing_else(installed: Installed) -> None:
    text = "\n".join(path.read_text() for path in (installed.package / "include").rglob("*.h"))
    text = re.sub(r"/\*.*?\*/|//[^\n]*|^\s*#[^\n]*", "", text, flags=re.DOTALL | re.MULTILINE)
    declared = set(re.findall(r"\b((?:acl|msct)\w+)\s*\([^;{}]*\)\s*;", text))
    symbols = run("nm", "-D", "--defined-only", installed.package / "lib/libms_convtanh.so").split("\n")
    exported = {line.split()[-1] for line in symbols if line}
    assert "aclnnFusedConvTanhGetWorkspaceSize" in declared
    assert exported == declared | MINDSPORE_ENTRIES


def test_needs_only_the_standard_libraries(installed: Installed) -> None:
    dynamic = run("readelf", "-d", installed.package / "lib/libms_convtanh.so")
    needed = {name.split(".so")[0] for name in re.findall(r"NEEDED.*\[(.*)\]", dynamic)}
    assert needed <= {"libc", "libm", "libgcc_s", "libstdc++", "libpthread", "ld-linux-x86-64", "ld-linux-aarch64"}
    assert not re.search("RPATH|RUNPATH", dynamic)


def test_stack_and_code_are_protected(installed: Installed) -> None:
    """No executable stack, no memory both writable and executable, no relocation that writes into code."""
    library = installed.package / "lib/libms_convtanh.so"
    headers = re.findall(r"^ +(\w+)(?: +0x\w+){5} ([R ][W ][E ]) ", run("readelf", "-lW", library), re.MULTILINE)
    assert [flags for kind, flags in headers if kind == "GNU_STACK"] == ["RW "]
    loaded = {flags for kind, flags in headers if kind == "LOAD"}
    assert "R E" in loaded
    assert "RWE" not in loaded
    assert "TEXTREL" not in run("readelf", "-dW", library)


@x86_only
def test_isa_objects_export_no_weak_symbol(installed: Installed) -> None:
    """The linker may take any copy of a weak symbol: one compiled for AVX would then run on every CPU."""
    objects = [path for path in installed.objects if re.search("_a(vx|mx)", path.name)]
    assert {path.name for path in objects} >= {"k1_conv_avx2.cc.o", "k2_tanh_avx2.cc.o"}
    for path in objects:
        weak = [line for line in run("nm", "--demangle", path).splitlines() if re.search(r"^\S+ [WVu] ", line)]
        assert not weak, f"{path.name}: {weak}"


@x86_only
def test_no_avx_outside_the_isa_files(installed: Installed) -> None:
    for path in installed.objects:
        uses = re.findall(r"%[yz]mm\d+", run("objdump", "--disassemble", path))
        if re.search("_a(vx|mx)", path.name):
            assert uses, f"{path.name} has no AVX code"
        else:
            assert not uses, f"{path.name} needs AVX"
