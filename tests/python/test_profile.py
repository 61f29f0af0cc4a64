"""The profiler: what is recorded, what follows from it, and what it writes."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import mindspore as ms
from mindspore import nn

import ms_convtanh
from ms_convtanh import ConvTanh, native, profiler


def run(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "ms_convtanh", "profile", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_peaks() -> None:
    """They follow the options."""
    with ms_convtanh.options(num_threads=1):
        one = profiler.measure_peaks()
    assert one.threads == 1
    assert 1e8 < one.flops < 1e13
    assert 1e8 < one.bytes < 1e13
    assert profiler.measure_peaks().threads == ms_convtanh.features().threads


def test_peaks_of_dtypes() -> None:
    """The better of vectors and matrix unit, which takes several products for the wider dtypes."""
    dtypes = ("bfloat16", "float16", "float32")
    matrix = profiler.Peaks(flops=4e11, bytes=1e10, threads=2, bfloat16=6e12)
    assert [matrix.of(dtype) for dtype in dtypes] == [6e12, 2e12, 1e12]
    slow = profiler.Peaks(flops=4e11, bytes=1e10, threads=2, bfloat16=9e11)
    assert [slow.of(dtype) for dtype in dtypes] == [9e11, 4e11, 4e11]


def test_a_case(fusion: str) -> None:
    profile = profiler.profile_case((1, 16, 40, 40), (24, 16, 3, 3), pads=1, repeat=5)
    (problem,) = profile.problems
    assert problem.name == "aclnnFusedConvTanh x [1, 16, 40, 40] filter [24, 16, 3, 3]"
    assert (profile.iterations, problem.calls, profile.dropped) == (5, 5, 0)
    assert problem.flops == 2 * 24 * 16 * 9 * 40 * 40
    assert problem.bytes == 4 * (16 * 40 * 40 + 24 * 16 * 9 + 24 + 24 * 40 * 40)
    assert problem.bound == "compute"
    assert problem.met == (problem.k1_utilisation > 0.85)
    assert problem.overhead_met == (problem.overhead < 5e-6)
    assert 0 < problem.k1_utilisation < 1.5
    assert 0 < problem.bandwidth_utilisation < 1.5
    assert min(problem.phase1, problem.launch, problem.pack, problem.k1, problem.k2) > 0
    assert problem.pack + problem.k1 + problem.k2 + problem.wait <= problem.run * 1.01
    assert profile.wall >= profile.framework + problem.run * 0.5
    assert 1 <= len(profile.threads) <= ms_convtanh.features().threads
    for thread in profile.threads:
        assert min(thread.pack, thread.k1, thread.k2, thread.wait, thread.idle) >= 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_and_dtypes(dtype: str) -> None:
    profile = profiler.profile_case((1, 4, 9, 9), (8, 4, 3, 3), dtype, backward=True, repeat=2)
    (problem,) = profile.problems
    assert problem.name.startswith("aclnnFusedConvTanhBackward")
    assert problem.flops > 2 * 8 * 4 * 9 * 7 * 7  # gradX and gradFilter
    assert problem.bytes == 2 * (2 * (8 * 7 * 7) + 2 * (4 * 9 * 9) + 2 * (8 * 4 * 9) + 8)


def test_nothing_is_recorded_outside() -> None:
    x, w = np.ones((1, 1, 4, 4), np.float32), np.ones((1, 1, 3, 3), np.float32)
    native.fused_conv_tanh(x, w)
    with profiler.recording() as trace:
        pass
    native.fused_conv_tanh(x, w)
    assert trace.events == []
    with profiler.recording(), pytest.raises(RuntimeError, match="another recording"), profiler.recording():
        pytest.fail("must not get here")
    with profiler.recording() as trace:  # and the recorder is free again
        native.fused_conv_tanh(x, w)
    assert [event.phase for event in trace.events].count("run") == 1


def test_calls_of_several_threads() -> None:
    x, w = np.ones((1, 8, 20, 20), np.float32), np.ones((8, 8, 3, 3), np.float32)
    with profiler.recording() as trace:
        callers = [threading.Thread(target=lambda: [native.fused_conv_tanh(x, w) for _ in range(20)]) for _ in range(3)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    phases = [event.phase for event in trace.events]
    assert phases.count("run") == phases.count("phase 1") == phases.count("phase 2") == 60
    assert len({event.thread for event in trace.events if event.phase == "run"}) == 3
    assert sum(event.flops for event in trace.events) == 60 * 2 * 8 * 8 * 9 * 18 * 18


def network() -> nn.Cell:
    return nn.SequentialCell(ConvTanh(3, 8, 3, has_bias=True), nn.ReLU(), ConvTanh(8, 4, 5, stride=2))


@pytest.mark.parametrize("mode", ["graph", "pynative"])
def test_networks(mode: str, rng: np.random.Generator) -> None:
    """Both layers in both modes; the time of cells in PyNative mode; the mode is as it was."""
    before = ms.get_context("mode")
    cell = network()
    cell.set_train(False)
    x = rng.uniform(-1, 1, (1, 3, 32, 32)).astype(np.float32)
    profile = profiler.profile_network(cell, [x], mode=mode, repeat=3)
    assert ms.get_context("mode") == before
    first, second = profile.problems
    assert first.name == "aclnnFusedConvTanh x [1, 3, 32, 32] filter [8, 3, 3, 3]"
    assert second.name == "aclnnFusedConvTanh x [1, 8, 32, 32] filter [4, 8, 5, 5]"
    assert (first.calls, second.calls) == (3, 3)
    assert first.overhead > first.launch
    assert 0 < profile.framework < profile.wall
    cells = {event.detail for event in profile.events if event.phase == "framework"} - {"iteration"}
    assert cells == ({"0 (ConvTanh)", "1 (ReLU)", "2 (ConvTanh)"} if mode == "pynative" else set())


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="filter"):
        profiler.profile_case((1, 3, 8, 8), (4, 2, 3, 3))
    with pytest.raises(ValueError, match="repeat must be 1 or more, got 0"):
        profiler.profile_case((1, 1, 8, 8), (1, 1, 3, 3), repeat=0)
    with pytest.raises(ValueError, match="mode must be graph or pynative, got 'fast'"):
        profiler.profile_network(network(), [], mode="fast")
    with pytest.raises(FileNotFoundError, match=r"no file absent\.mindir"):
        profiler.profile_network("absent.mindir", [])


def test_reports() -> None:
    """The trace has all events with their threads; the flame graph is an SVG whose boxes lie inside their callers."""
    profile = profiler.profile_case((1, 8, 16, 16), (8, 8, 3, 3), repeat=3)
    events = json.loads(profiler.as_chrome_trace(profile.events))["traceEvents"]
    complete = [event for event in events if event["ph"] == "X"]
    assert len(complete) == len(profile.events)
    assert {event["name"] for event in complete} >= {"iteration", "phase 1", "phase 2", "pack", "K1", "K2"}
    assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in complete)
    named = {event["tid"] for event in events if event["ph"] == "M"}
    assert named == {event["tid"] for event in complete}
    svg = ElementTree.fromstring(profiler.as_flame_graph(profile.events))
    titles = [title.text or "" for title in svg.iter("{http://www.w3.org/2000/svg}title")]
    for name in ("iteration: ", "phase 2: ", "aclnnFusedConvTanh x [1, 8, 16, 16]", "K1: "):
        assert any(title.startswith(name) for title in titles), name
    assert any("3 times" in title for title in titles)
    boxes = [
        (float(box.get("y", -1)), float(box.get("x", -1)), float(box.get("width", -1)))
        for box in svg.iter("{http://www.w3.org/2000/svg}rect")
    ]
    for y, x, width in boxes:
        above = [box for box in boxes if box[0] == y - 20]
        assert not above or any(box[1] <= x + 0.02 and x + width <= box[1] + box[2] + 0.02 for box in above)
    assert profiler.as_flame_graph([]).startswith("<svg")
    assert json.loads(profiler.as_chrome_trace([]))["traceEvents"] == []


def test_command(rng: np.random.Generator) -> None:
    files = ("--trace", "trace.json", "--flame", "flame.svg")
    result = run("--x", "1,4,16,16", "--filter", "8,4,3,3", "--repeat", "2", "--json", *files)
    assert result.returncode == 0, result.stderr
    values = json.loads(result.stdout)
    assert values["iterations"] == values["problems"][0]["calls"] == 2
    assert "events" not in values
    assert json.loads(Path("trace.json").read_text())["traceEvents"]
    assert Path("flame.svg").read_text().startswith("<svg")
    x = rng.uniform(-1, 1, (1, 3, 16, 16)).astype(np.float32)
    np.save("x.npy", x)
    cell = network()
    cell.set_train(False)
    ms.export(cell, ms.Tensor(x), file_name="network.mindir", file_format="MINDIR")
    result = run("--network", "network.mindir", "--input", "x.npy", "--repeat", "2")
    assert result.returncode == 0, result.stderr
    assert "K1 of peak" in result.stdout
    assert "filter [4, 8, 5, 5]" in result.stdout
    for arguments in ((), ("--x", "1,1,4,4"), ("--network", "n.mindir"), ("--x", "1,1,4,4", "--filter", "a")):
        assert run(*arguments).returncode == 2
    wrong = run("--x", "1,2,4,4", "--filter", "1,3,1,1")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "filter.shape[1]" in wrong.stderr
