"""Data-parallel training on MindSpore's own engine, by the sample."""

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import mindspore as ms

SAMPLE = Path(__file__).parents[2] / "samples/python/data_parallel/train.py"
MSRUN = shutil.which("msrun", path=sysconfig.get_path("scripts"))
TOLERANCE = 1e-5  # the sample's, for the order of float32 sums


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def train(*launcher: str, output: Path, mode: str, batch: int = 128) -> subprocess.CompletedProcess[str]:
    arguments = [str(SAMPLE), "--output", str(output), "--epochs", "1", "--mode", mode, "--batch", str(batch)]
    return subprocess.run([*launcher, *arguments], env=environment(), capture_output=True, text=True, timeout=100)


def environment() -> dict[str, str]:
    """msrun starts the first python on PATH."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def msrun(processes: int) -> list[str]:
    assert MSRUN is not None
    workers = [f"--worker_num={processes}", f"--local_worker_num={processes}"]
    return [MSRUN, *workers, f"--master_port={free_port()}", "--log_dir=logs", "--join=True"]


@pytest.mark.parametrize("mode", ["graph", "pynative"])
def test_two_processes_like_one(mode: str, tmp_path: Path) -> None:
    """Feature: data-parallel. Description: msrun, half a batch each. Expectation: losses and weights as one process."""
    one, two = tmp_path / "one", tmp_path / "two"
    alone = train(sys.executable, output=one, mode=mode)
    assert alone.returncode == 0, alone.stderr
    together = train(*msrun(2), output=two, mode=mode)
    assert together.returncode == 0, together.stdout + together.stderr
    losses = [np.loadtxt(folder / "losses.txt") for folder in (one, two)]
    assert len(losses[0]) == 14
    assert losses[0][-1] < losses[0][0] / 2
    np.testing.assert_allclose(losses[1], losses[0], rtol=0, atol=TOLERANCE)
    weights, other = (ms.load_checkpoint(str(folder / "weights.ckpt")) for folder in (one, two))
    assert list(weights) == list(other)
    for name, weight in weights.items():
        np.testing.assert_allclose(other[name].asnumpy(), weight.asnumpy(), rtol=0, atol=TOLERANCE)


def test_batch_that_processes_cannot_share(tmp_path: Path) -> None:
    """Feature: data-parallel. Description: 63 digits for two processes. Expectation: an error that says so."""
    failed = train(*msrun(2), output=tmp_path / "two", mode="graph", batch=63)
    assert failed.returncode != 0
    assert "--batch must be a multiple of the 2 processes, got 63" in failed.stdout + failed.stderr
