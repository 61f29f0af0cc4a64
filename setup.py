"""Builds the native library with CMake and Ninja and lays it, with its C headers, inside the package."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
PACKAGE = "ms_convtanh"
INSTALLED = ("include", "lib", "share")  # folders of the package that the native build makes


def find_tool(name: str) -> str:
    """Path of cmake or ninja: on PATH in an isolated build, beside Python where isolation is off."""
    path = shutil.which(name) or shutil.which(name, path=sysconfig.get_path("scripts"))
    if path is None:
        raise SystemExit(f"{PACKAGE}: {name} was not found; install it with: pip install {name}")
    return path


def run(step: str, *command: str) -> None:
    """Runs one step of the native build. Its failure ends the installation."""
    print(f"{PACKAGE}: {step}", flush=True)
    result = subprocess.run(command, cwd=ROOT, stderr=subprocess.STDOUT)
    if result.returncode != 0:
        raise SystemExit(
            f"\n{PACKAGE}: could not {step}: the output above has the reason. The command was:\n  {' '.join(command)}"
        )


def check_compiler() -> None:
    """CMake explains a missing compiler at length; say in one line what to install."""
    compiler = os.environ.get("CXX", "").split() or ["g++", "c++", "clang++"]
    if not any(shutil.which(name) for name in compiler):
        raise SystemExit(
            f"\n{PACKAGE}: no C++ compiler was found (looked for {', '.join(compiler)}). "
            "Install g++ 9 or newer; on Debian or Ubuntu: apt-get install g++"
        )


class BuildModules(build_py):
    """Copies the modules into an empty folder: setuptools keeps those of an earlier build, deleted ones too."""

    def run(self) -> None:
        if not self.editable_mode:
            shutil.rmtree(Path(self.build_lib) / PACKAGE, ignore_errors=True)
        super().run()


class BuildNative(build_ext):
    """Runs CMake in place of setuptools' own compiler driver."""

    def run(self) -> None:
        check_compiler()
        # setuptools gives editable installs a temporary folder; a lasting one makes the next build short.
        build = (ROOT / "build" if self.in_source_tree() else Path(self.build_temp).resolve()) / "native"
        prefix = self.prefix()
        for folder in INSTALLED:  # nothing stale may stay in the package
            shutil.rmtree(prefix / folder, ignore_errors=True)
        cmake, ninja = find_tool("cmake"), find_tool("ninja")
        options = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", f"-DCMAKE_INSTALL_PREFIX={prefix}"]
        # Build environments are temporary: a cache of an earlier one names a ninja that is gone.
        (build / "CMakeCache.txt").unlink(missing_ok=True)
        run("configure the native library", cmake, "-S", str(ROOT), "-B", str(build), *options)
        run("build the native library", cmake, "--build", str(build))
        run("install the native library", cmake, "--install", str(build), "--strip")

    def in_source_tree(self) -> bool:
        return bool(self.inplace or self.editable_mode)

    def prefix(self) -> Path:
        """The package folder to fill."""
        return (ROOT if self.in_source_tree() else Path(self.build_lib).resolve()) / PACKAGE

    def get_outputs(self) -> list[str]:
        prefix = self.prefix()
        return sorted(str(path) for folder in INSTALLED for path in (prefix / folder).rglob("*") if path.is_file())

    def get_output_mapping(self) -> dict[str, str]:
        return {}  # an editable install reads the source tree, where the outputs already are

    def get_source_files(self) -> list[str]:
        return []  # MANIFEST.in lists the native sources


class NativeDistribution(Distribution):
    """Tells setuptools that the package has native code although it has no Python extension module."""

    def has_ext_modules(self) -> bool:
        return True


class PlatformWheel(bdist_wheel):
    """Tags the wheel for any Python 3 on this platform: the library is loaded with ctypes and knows no Python ABI."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


if sys.platform != "linux":
    raise SystemExit(f"{PACKAGE}: only Linux is supported, this is {sys.platform}")

setup(
    cmdclass={"build_py": BuildModules, "build_ext": BuildNative, "bdist_wheel": PlatformWheel},
    distclass=NativeDistribution,
)
