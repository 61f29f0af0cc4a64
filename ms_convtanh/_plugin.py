"""The graph pass as a library, compiled on first use against the installed MindSpore and kept in the user's cache."""

import fcntl
import hashlib
import importlib.metadata
import logging
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mindspore

CALLER = "enable_auto_fusion"
SUPPORTED = "2.10"  # the MindSpore whose headers and graphs the source is written for
SOURCE = Path(__file__).resolve().parent / "graph_pass" / "fuse_conv_tanh.cc"

_log = logging.getLogger("ms_convtanh")

_HOME = Path(mindspore.__file__).resolve().parent
_INCLUDES = (
    "",
    "mindspore",
    "mindspore/core",
    "mindspore/core/include",
    "mindspore/ccsrc",
    "mindspore/ccsrc/include",
    "mindspore/ops",
    "mindspore/ops/include",
    "mindapi",
    "third_party",
    "third_party/robin_hood_hashing",
)
_OPTIONS = (
    *("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w"),
    "-D_GLIBCXX_USE_CXX11_ABI=0",  # as MindSpore is built
    "-DENABLE_FAST_HASH_TABLE=1",  # likewise: it decides the layout of MindSpore's classes
)
# Without a path at run time: MindSpore has them in memory when it loads the plugin.
_LIBRARIES = ("-lmindspore_core", "-lmindspore_common", "-lmindspore_backend_common")


def check_version() -> str:
    """MindSpore's version.

    Raises:
        RuntimeError: It is another one than the pass is written for.
    """
    version = importlib.metadata.version("mindspore")
    if not f"{version}.".startswith(f"{SUPPORTED}."):
        raise RuntimeError(f"{CALLER}: expected MindSpore {SUPPORTED}, got {version}; use ms_convtanh.fuse(net) there")
    return version


def compiler() -> list[str]:
    """The C++ compiler's command: that of the environment variable CXX, or the first that is there.

    Raises:
        RuntimeError: There is none.
    """
    wanted = shlex.split(os.environ.get("CXX", ""))
    candidates = [wanted] if wanted else [["g++"], ["c++"], ["clang++"]]
    for command in candidates:
        if shutil.which(command[0]):
            return command
    names = ", ".join(command[0] for command in candidates)
    raise RuntimeError(
        f"{CALLER}: expected a C++ compiler for the graph pass, found none (looked for {names}); "
        "install g++ 9 or newer (Debian, Ubuntu: apt-get install g++), or use ms_convtanh.fuse(net), which needs none"
    )


def cache_folder() -> Path:
    """Folder of compiled plugins; made if it is not there.

    Raises:
        RuntimeError: It cannot be made, or another user owns it and could change what is loaded.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ms_convtanh"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise RuntimeError(f"{CALLER}: cannot make the cache folder {folder}; set XDG_CACHE_HOME: {error}") from error
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise RuntimeError(f"{CALLER}: the cache folder {folder} must be yours and writable by you alone")
    return folder


def built() -> Path:
    """The plugin for the installed MindSpore, compiled if the cache does not hold it.

    Processes may call it at the same time: one compiles, the others wait for it.

    Raises:
        RuntimeError: Another MindSpore, no compiler, no cache folder, or the compiler fails.
    """
    version = check_version()
    identity = hashlib.sha256(SOURCE.read_bytes() + " ".join(_OPTIONS).encode()).hexdigest()[:12]
    name = f"fuse_conv_tanh-mindspore_{version}-{platform.machine()}-{identity}.so"
    library = cache_folder() / name
    if not library.exists():
        with _locked(library.with_suffix(".lock")):
            if not library.exists():
                _compile(library)
    return library


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(library: Path) -> None:
    _log.info("%s: compiling the graph pass; this is done once for each MindSpore version", CALLER)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        output = Path(folder) / library.name
        command = [*compiler(), *_OPTIONS, str(SOURCE), "-o", str(output)]
        for include in _INCLUDES:
            command += ["-isystem", str(_HOME / "include" / include)]
        command += [f"-L{_HOME / 'lib'}", *_LIBRARIES]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if result.returncode != 0:
            errors = [line for line in result.stdout.splitlines() if "error" in line] or result.stdout.splitlines()
            raise RuntimeError(
                f"{CALLER}: could not compile the graph pass: {'; '.join(errors[:3]) or 'no message'}. "
                f"The command was: {shlex.join(command)}"
            )
        output.replace(library)
