"""The package as a user gets it: source archive, wheel, and an installation in a folder whose name has spaces."""

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


def run(*command: object, **kwargs: object) -> str:
    """Runs a command and returns its stdout; a failure shows everything it printed."""
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, **kwargs)
    assert result.returncode == 0, f"{command} returned {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def search_path(*folders: Path) -> str:
    """PATH with these folders, then the tools of this Python's environment, before the rest."""
    return os.pathsep.join([*map(str, folders), sysconfig.get_path("scripts"), os.environ["PATH"]])


@dataclass
class Installed:
    """Where the package was built and installed."""

    archive: Path  # the source archive
    source: Path  # the unpacked source archive; build/ in it has the object files
    wheel: Path  # the portable one, after auditwheel
    site: Path  # what a site-packages folder would hold

    @property
    def package(self) -> Path:
        return self.site / "ms_convtanh"

    @property
    def objects(self) -> list[Path]:
        objects = sorted(self.source.glob("build/temp.*/native/CMakeFiles/ms_convtanh_objects.dir/**/*.o"))
        assert objects
        return objects

    def environment(self, **extra: str) -> dict[str, str]:
        """An environment in which Python finds this installation first."""
        kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
        return {"PATH": search_path(self.site / "bin"), **kept, "PYTHONPATH": str(self.site), **extra}

    def command(self, *arguments: object) -> str:
        """Output of the installed ms-convtanh."""
        return run(self.site / "bin" / "ms-convtanh", *arguments, env=self.environment(), cwd=self.site).strip()
