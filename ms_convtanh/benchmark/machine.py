"""Facts about the machine and the program that was measured."""

import os
import platform
import subprocess
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import ms_convtanh


def _from_file(path: str, name: str) -> str:
    """The first value of a line "name : value", "" if there is none."""
    try:
        for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    except OSError:
        pass
    return ""


def _caches() -> dict[str, str]:
    """Sizes of the first CPU's caches by level and kind, such as {"L1 Data": "32K"}."""
    found = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        found[f"L{level} {kind}"] = size
    return found


def commit() -> str:
    """The commit of the source tree that the package is used from, "+" behind it if files differ; "" elsewhere."""

    def git(*words: str) -> str:
        root = Path(ms_convtanh.__file__).resolve().parents[1]
        command = ["git", "-C", str(root), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        inside = Path(git("rev-parse", "--show-toplevel")) == Path(ms_convtanh.__file__).resolve().parents[1]
        if not inside:
            return ""
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def facts() -> dict[str, Any]:
    """What a reader of the results needs to know about where they come from."""
    features = asdict(ms_convtanh.features())
    del features["library"]  # paths are nobody's business
    features["tuning"] = "yes" if features["tuning"] else "no"
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "cpu": features.pop("cpu"),
        "cpus": len(os.sched_getaffinity(0)),
        "caches": _caches(),
        "memory": _from_file("/proc/meminfo", "MemTotal"),
        "system": f"{platform.system()} {platform.release()}",
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],  # before the run: 0 on a quiet machine
        "features": features,
    }
