"""The Ascend operator package (OPP): what MindSpore and CANN load as a vendor's custom operators.

`lay_out` writes what needs no CANN: the aclnn header, the operator description that MindSpore reads, the graph
prototype, and the project with all sources. `build` compiles the rest with CANN inside a CANN operator repository.
The folders are those of CANN's vendor packages, so ASCEND_CUSTOM_OPP_PATH may name the result.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VENDOR = "ms_convtanh"
SOC = "ascend950"
_SOURCES = Path(__file__).resolve().parent / "share" / "ascend"

# The kernels' operators and their PyPTO files.
KERNELS = {
    "conv_tanh_pack": "k0_pack",
    "conv_tanh_conv": "k1_conv",
    "conv_tanh_tanh": "k2_tanh",
    "conv_tanh_fused": "k12_fused",
}
_KERNEL_MODULES = ("conv_common", "tile_stages")  # imported by the kernels
_OPERATORS = (*KERNELS, "fused_conv_tanh")

_HEADER = "aclnn_fused_conv_tanh.h"
_API = "op_api/lib/libcust_opapi.so"
_DESCRIPTION = f"op_impl/ai_core/tbe/config/{SOC}/aic-{SOC}-ops-info.json"
_PUBLIC_HEADER = _SOURCES / "aclnn" / "include" / "aclnnop" / _HEADER
_PACKAGES = f"*{VENDOR}*.run"  # in build_out
_KERNEL_FOLDER = f"op_impl/ai_core/tbe/kernel/{SOC}"


@dataclass(frozen=True)
class Report:
    """What `ms-convtanh opp` did.

    Attributes:
        vendor: The vendor package, for ASCEND_CUSTOM_OPP_PATH.
        project: The sources, laid out for a CANN operator repository.
        files: What is in the vendor package, relative to it.
        missing: What keeps the package from running, one sentence each; empty for a complete one.
    """

    vendor: str
    project: str
    files: tuple[str, ...]
    missing: tuple[str, ...]


def operator_description() -> dict[str, Any]:
    """The entry of FusedConvTanh in the operator description: names, dtypes, formats and attributes."""
    dtypes = "float16,bfloat16,float"

    def tensor(name: str, presence: str) -> dict[str, str]:
        return {"name": name, "paramType": presence, "dtype": dtypes, "format": "ND,ND,ND"}

    def attribute(kind: str, presence: str = "required", **rest: str) -> dict[str, str]:
        return {"type": kind, "paramType": presence, "value": "all", **rest}

    return {
        "input0": tensor("x", "required"),
        "input1": tensor("filter", "required"),
        "input2": tensor("bias", "optional"),
        "output0": tensor("y", "required"),
        "attr": {"list": "strides,pads,dilations,groups,cubeMathType"},
        "attr_strides": attribute("listInt"),
        "attr_pads": attribute("listInt"),
        "attr_dilations": attribute("listInt"),
        "attr_groups": attribute("int", "optional", defaultValue="1"),
        "attr_cubeMathType": attribute("int", "optional", defaultValue="0"),
    }


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copyfile(source, target)


def _lay_out_project(project: Path) -> None:
    for folder in ("aclnn", "kernels"):  # of an earlier version, whose files may have had other names
        shutil.rmtree(project / folder, ignore_errors=True)
    _copy(_SOURCES, project)
    # The build installs the headers that lie beside an operator's op_api.
    _copy(_PUBLIC_HEADER, project / "aclnn" / "ascend" / "fused_conv_tanh" / "op_host" / "op_api" / _HEADER)
    for operator, kernel in KERNELS.items():
        for module in (kernel, *_KERNEL_MODULES):
            target = project / "aclnn" / "ascend" / operator / "op_kernel" / f"{module}.py"
            _copy(_SOURCES / "kernels" / "ascend" / f"{module}.py", target)


def _describe_operator(vendor: Path) -> None:
    """Adds FusedConvTanh to the operator description, which has the kernels' operators if CANN has built them."""
    description = vendor / _DESCRIPTION
    description.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(description.read_text()) if description.exists() else {}
    known["FusedConvTanh"] = operator_description()
    description.write_text(json.dumps(known, indent=2) + "\n")


def lay_out(output: Path) -> tuple[Path, Path]:
    """Writes the vendor package and the project below `output`; returns both folders.

    Raises:
        FileNotFoundError: This installation has no Ascend sources.
        OSError: `output` cannot be written.
    """
    if not _SOURCES.is_dir():
        raise FileNotFoundError(f"ms-convtanh opp: expected the Ascend sources in {_SOURCES}, found none")
    vendor, project = output / VENDOR, output / "project"
    _lay_out_project(project)
    for folder in ("op_api/include", "op_api/include/aclnnop"):
        _copy(_PUBLIC_HEADER, vendor / folder / _HEADER)
    proto = "fused_conv_tanh_proto.h"
    _copy(project / "aclnn/ascend/fused_conv_tanh/op_graph" / proto, vendor / "op_proto" / "inc" / proto)
    _describe_operator(vendor)
    return vendor, project


def find_cann(environment: Mapping[str, str] = os.environ) -> Path | None:
    """CANN's folder: that of ASCEND_HOME_PATH or ASCEND_TOOLKIT_HOME, or where its installer puts it."""
    for variable in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
        if environment.get(variable):
            return _with_headers(Path(environment[variable]))
    return _with_headers(Path("/usr/local/Ascend/ascend-toolkit/latest"))


def _with_headers(cann: Path) -> Path | None:
    return cann if (cann / "include" / "aclnn" / "aclnn_base.h").is_file() else None


def _lacking(cann: Path | None, repository: Path | None) -> list[str]:
    """What `build` needs and does not find."""
    lacking = []
    if cann is None:
        lacking.append("CANN: install its toolkit and source its set_env.sh, which sets ASCEND_HOME_PATH")
    if importlib.util.find_spec("pypto_pro") is None:
        lacking.append("pypto_pro, which comes with CANN: the kernels are written in it")
    if repository is None:
        lacking.append("a CANN operator repository (--repository) with enable_pypto_kernel, such as ops-math")
    else:
        for name in ("build.sh", "examples/CMakeLists.txt"):
            if not (repository / name).is_file():
                lacking.append(f"{name} in the operator repository {repository}")
        if not any(b"enable_pypto_kernel" in path.read_bytes() for path in (repository / "cmake").rglob("*.cmake")):
            lacking.append(
                f"enable_pypto_kernel in cmake/ of the operator repository {repository}; other versions have it"
            )
    return lacking


def build(project: Path, vendor: Path, repository: Path) -> None:
    """Builds the project inside a CANN operator repository and adds the package that comes out to the folder `vendor`.

    The project becomes an example of the repository, examples/fused_conv_tanh: there build.sh finds operators that are
    none of its own.

    Raises:
        RuntimeError: The build failed or gave no package; the message has the end of its output.
    """
    inside = repository / "examples" / "fused_conv_tanh"
    shutil.rmtree(inside, ignore_errors=True)
    _copy(project, inside)
    (inside / "CMakeLists.txt").write_text("add_subdirectory(aclnn/ascend)\n")
    for old in (repository / "build_out").glob(_PACKAGES):
        old.unlink()
    options = ("--pkg", f"--soc={SOC}", f"--vendor_name={VENDOR}", f"--ops={','.join(_OPERATORS)}")
    _run(["bash", "build.sh", *options], repository)
    packages = sorted((repository / "build_out").glob(_PACKAGES))
    if len(packages) != 1:
        raise RuntimeError(f"ms-convtanh opp: expected one package in {repository / 'build_out'}, got {len(packages)}")
    with tempfile.TemporaryDirectory() as temporary:
        _run(["bash", str(packages[0]), "--quiet", f"--install-path={temporary}"], repository)
        installed = sorted(Path(temporary, "vendors").glob(f"{VENDOR}*"))  # repositories append their own name
        if len(installed) != 1:
            raise RuntimeError(f"ms-convtanh opp: expected {packages[0]} to install one package, got {len(installed)}")
        shutil.rmtree(installed[0] / "bin", ignore_errors=True)  # a set_env.bash for the temporary folder
        _copy(installed[0], vendor)
    _describe_operator(vendor)


def _run(command: list[str], folder: Path) -> None:
    result = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        end = "\n".join(result.stdout.splitlines()[-30:])
        raise RuntimeError(f"ms-convtanh opp: {' '.join(command)} failed with status {result.returncode}:\n{end}")


def make_package(output: Path, repository: Path | None = None) -> Report:
    """Lays the package out below `output` and builds it where CANN is.

    Args:
        output: A folder, made if it is not there.
        repository: A checkout of a CANN operator repository; needed for building.

    Raises:
        FileNotFoundError, OSError: As lay_out.
        RuntimeError: As build.
    """
    output = output.resolve()
    vendor, project = lay_out(output)
    missing = _lacking(find_cann(), repository)
    if not missing and repository is not None:
        build(project, vendor, repository.resolve())
    if not (vendor / _API).is_file():
        missing.append(f"{_API}: the aclnn function, to be built with CANN")
    if not any((vendor / _KERNEL_FOLDER).rglob("*.o")):
        missing.append(f"{_KERNEL_FOLDER}: the kernels, to be compiled by PyPTO")
    files = tuple(sorted(str(path.relative_to(vendor)) for path in vendor.rglob("*") if path.is_file()))
    return Report(str(vendor), str(project), files, tuple(missing))
