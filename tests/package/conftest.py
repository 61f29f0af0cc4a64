"""Builds and installs the package once, the way a user's pip does."""

import os
import shutil
import sys
import sysconfig
import tarfile

import pytest
from installation import PIP, ROOT, Installed, run, search_path


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("package")
    tree = folder / "tree"  # a copy: nothing is built where the developer works
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "build", "dist", "__pycache__", "*.egg-info"))
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder, tree)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extraction_filter = getattr(tarfile, "data_filter", None)  # not in Python 3.11.2, Debian 12's
        file.extractall(folder)
    source = folder / archive.name.removesuffix(".tar.gz")
    # What an earlier build left may not get into the wheel, neither from its build folder nor from the source tree.
    library = source / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
    for stale in (library / "ms_convtanh/deleted.py", source / "ms_convtanh/share/deleted/module.py"):
        stale.parent.mkdir(parents=True)
        stale.touch()
    offline = ("--no-deps", "--no-index")
    run(*PIP, "wheel", *offline, "--no-build-isolation", "--wheel-dir", folder, source)
    assert list(source.glob("build/lib.*")) == [library]
    (linux_wheel,) = folder.glob("*.whl")
    repair = (sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", folder / "portable", linux_wheel)
    run(*repair, env={**os.environ, "PATH": search_path()})
    (wheel,) = folder.glob("portable/*.whl")
    site = folder / "site of a user"
    run(*PIP, "install", *offline, "--target", site, wheel)
    return Installed(archive, source, wheel, site)
