"""Builds and installs the package once, the way a user's pip does."""

import shutil
import sys
import tarfile

import pytest
from installation import ROOT, Installed, run


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
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", folder, source)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site of a user"
    run(*pip, "install", "--no-deps", "--no-index", "--target", site, wheel)
    return Installed(source, wheel, site)
