"""Trains a small classifier of handwritten digits in one process, or data-parallel in several.

    python train.py --output one                                      # the whole batch in one process
    msrun --worker_num=2 --local_worker_num=2 --join=True \\
        train.py --output two                                         # half of each batch in each of two processes

Every process computes the gradients of its share of the batch; MindSpore averages them over the processes (all-reduce)
before the optimizer uses them. Both runs therefore have the same losses and end with the same weights, but for the
order of float32 sums: within 1e-5. The output folder gets losses.txt, the mean loss of each step, and weights.ckpt.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
from sklearn.datasets import load_digits

os.environ.setdefault("GLOG_v", "3")  # before MindSpore is imported: errors only

import mindspore as ms
from mindspore import nn, ops
from mindspore.communication import get_group_size, get_rank, init

import ms_convtanh
from ms_convtanh import ConvTanh

STARTED_BY_MSRUN = "MS_ROLE" in os.environ
MODES = {"graph": ms.GRAPH_MODE, "pynative": ms.PYNATIVE_MODE}


def join_processes() -> tuple[int, int]:
    """This process's number and how many there are; from here on MindSpore averages gradients over all of them."""
    if not STARTED_BY_MSRUN:
        return 0, 1
    init()
    ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True)
    return get_rank(), get_group_size()


def batches(epochs: int, size: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Images (size, 1, 8, 8) in [0, 1], float32, and their digits (size,), int32; the same in every process."""
    digits = load_digits()
    images, labels = (digits.images[:, None] / 16).astype(np.float32), digits.target.astype(np.int32)
    random = np.random.default_rng(seed)
    for _ in range(epochs):
        order = random.permutation(len(labels))
        for start in range(0, len(order) - size + 1, size):
            chosen = order[start : start + size]
            yield images[chosen], labels[chosen]


def classifier() -> nn.Cell:
    return nn.SequentialCell(
        ConvTanh(1, 16, 3, has_bias=True),
        ConvTanh(16, 32, 3, stride=2, has_bias=True),
        nn.Flatten(),
        nn.Dense(32 * 4 * 4, 10),
    )


@click.command(help=__doc__.split("\n\n")[0])
@click.option("--output", type=click.Path(path_type=Path), required=True, help="Folder for losses and weights.")
@click.option("--epochs", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--batch", type=click.IntRange(min=1), default=64, show_default=True, help="Of all processes together.")
@click.option("--mode", type=click.Choice(list(MODES)), default="graph", show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
def main(output: Path, epochs: int, batch: int, mode: str, seed: int) -> None:
    ms.set_context(mode=MODES[mode])
    rank, processes = join_processes()
    if batch % processes != 0:
        raise click.UsageError(f"--batch must be a multiple of the {processes} processes, got {batch}")
    ms.set_seed(seed)  # the same initial weights in every process
    network = classifier()
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    step = nn.TrainOneStepCell(loss, nn.Momentum(network.trainable_params(), learning_rate=0.1, momentum=0.9))
    step.set_train()
    losses = []
    with ms_convtanh.options(num_threads=max(1, len(os.sched_getaffinity(0)) // processes)):
        for images, labels in batches(epochs, batch, seed):
            value = step(ms.Tensor(images[rank::processes]), ms.Tensor(labels[rank::processes]))
            if processes > 1:
                value = ops.AllReduce()(value) / processes
            losses.append(float(value.asnumpy()))
            if rank == 0 and len(losses) % 10 == 0:
                click.echo(f"step {len(losses):3}: loss {losses[-1]:.6f}")
    if rank == 0:
        output.mkdir(parents=True, exist_ok=True)
        np.savetxt(output / "losses.txt", losses, fmt="%.9g")
        ms.save_checkpoint(network, str(output / "weights.ckpt"))


if __name__ == "__main__":
    main()
