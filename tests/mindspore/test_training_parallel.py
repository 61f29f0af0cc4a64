"""Data-parallel training on MindSpore's own engine, by the sample."""

import os
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np

import mindspore as ms

SAMPLE = Path(__file__).parents[2] / "samples/python/data_parallel/train.py"
MSRUN = str(Path(sysconfig.get_path("scripts"), "msrun"))
TOLERANCE = 1e-5  # the sample's, for the order of float32 sums


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def train(*launcher: str, output: Path) -> None:
    command = [*launcher, str(SAMPLE), "--output", str(output), "--epochs", "1", "--batch", "128"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # msrun starts the first python on PATH
    result = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stdout + result.stderr


def test_two_processes_like_one(tmp_path: Path) -> None:
    """Feature: data-parallel. Description: msrun, half a batch each. Expectation: losses and weights as one process."""
    one, two = tmp_path / "one", tmp_path / "two"
    train(sys.executable, output=one)
    train(
        MSRUN,
        "--worker_num=2",
        "--local_worker_num=2",
        f"--master_port={free_port()}",
        "--log_dir=logs",
        "--join=True",
        output=two,
    )
    losses = [np.loadtxt(folder / "losses.txt") for folder in (one, two)]
    assert len(losses[0]) == 14
    assert losses[0][-1] < losses[0][0] / 2
    np.testing.assert_allclose(losses[1], losses[0], rtol=0, atol=TOLERANCE)
    weights, other = (ms.load_checkpoint(str(folder / "weights.ckpt")) for folder in (one, two))
    assert list(weights) == list(other)
    for name, weight in weights.items():
        np.testing.assert_allclose(other[name].asnumpy(), weight.asnumpy(), rtol=0, atol=TOLERANCE)
