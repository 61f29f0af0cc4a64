"""Runs the programs of pypto_programs.py in PyPTO 0.2.0's simulation: verified pass by pass, and costed.

    with Simulator() as simulator:
        run = simulator.run_k12(problem, x, conv_filter, bias)
        cost = simulator.cost("k12", problem)
    assert run.failures() == []
    print(run.output, cost.time_us)

Needs the extra ms_convtanh[pypto], cmake and g++, but neither CANN nor an NPU. PyPTO compiles a program for A2/A3 and
interprets its graph on the CPU as written (tensor_graph) and after six of its passes, up to CodegenPreproc. The
first is compared with a float64 golden, the others with the first. Its cost model then estimates the time on an
A2/A3 with 24 Cube and 48 Vector cores. Every program runs in a process and a temporary folder of its own, because
PyPTO prints, and writes into the working and the home folder.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from conv_common import Problem
from pypto_layout import DTYPES, Grid, golden_z, make_grid, pack, pack_z, unpack

PROGRAMS = ("k1", "k2", "k12")
STAGES = (
    "tensor_graph",
    "ExpandFunction",
    "SplitK",
    "L1CopyInReuseMerge",
    "InferDynShape",
    "InferParamIndex",
    "CodegenPreproc",
)
HUB = "4"  # core type of the tasks that only join others
CYCLES_PER_US = 1800  # PyPTO's own scripts convert cycles so
TIMEOUT = 1800  # seconds for one command

# Relative and absolute error that a stage may have. float32: a few roundings; else one unit of y's last place.
TOLERANCES = {"float32": (1e-5, 1e-5), "float16": (2.0**-10, 2.0**-16), "bfloat16": (2.0**-7, 2.0**-13)}
TANH_TOLERANCE = (5e-7, 1e-37)  # K2 alone in float32: 4 ULP, for tiny z too


@dataclass(frozen=True)
class Request:
    """What pypto_worker.py is told. Without a tolerance nothing is verified and the result stays NaN."""

    program: str  # k1, k2 or k12
    grid: Grid
    arguments: tuple[np.ndarray, ...]
    golden: np.ndarray
    tolerance: tuple[float, float] | None


@dataclass(frozen=True)
class Verdict:
    """One comparison of PyPTO's: a stage, the loop iteration that it is about, and what came out."""

    stage: str
    iteration: str
    result: str  # PASS or FAILED
    max_abs_error: float


@dataclass(frozen=True)
class Cost:
    """The cost model's estimate."""

    time_us: float  # from the start of the first task to the end of the last
    utilisation: float  # busy share of all Cube and Vector cores, 0 to 1
    tasks: int


@dataclass(frozen=True)
class Simulation:
    """One verified run. output is what the program computed, NCHW."""

    output: np.ndarray
    iterations: int
    verdicts: tuple[Verdict, ...]
    exceptions: tuple[str, ...]
    cost: Cost

    def failures(self) -> list[str]:
        """What is wrong: stages that failed, are missing for some iteration, or raised. Empty if all is verified."""
        wrong = [f"{v.stage} {v.iteration}: {v.result}" for v in self.verdicts if v.result != "PASS"]
        for stage in STAGES:
            expected = 1 if stage == "tensor_graph" else self.iterations
            got = len({v.iteration for v in self.verdicts if v.stage == stage})
            if got != expected:
                wrong.append(f"{stage}: expected verdicts of {expected} iterations, got {got}")
        return wrong + list(self.exceptions)


class Simulator:
    """Runs programs; a context manager, whose temporary folder goes with it.

    The first verified run builds PyPTO's calculator, the library that interprets programs (about 25 s on 2 cores).

    Raises ImportError naming the extra where PyPTO, torch or sympy is missing, and RuntimeError with the output of
    cmake or of PyPTO where one fails, subprocess.TimeoutExpired where one takes more than half an hour.
    """

    def __init__(self) -> None:
        self._package = require_pypto()
        self._folder = Path(tempfile.mkdtemp(prefix="ms_convtanh_pypto_"))
        self._calculator: Path | None = None

    def __enter__(self) -> Simulator:
        return self

    def __exit__(self, *exception: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def run_k1(
        self, problem: Problem, x: np.ndarray, conv_filter: np.ndarray, bias: np.ndarray | None = None
    ) -> Simulation:
        """K1: z of x [N, Ci, Hi, Wi], filter [Co, Ci / groups, Kh, Kw], bias [Co]; output float32 [N, Co, Ho, Wo]."""
        grid, *arguments = pack(problem, x, conv_filter, bias)
        golden = golden_z(grid, *arguments).astype(np.float32)
        return self.verify(problem, Request("k1", grid, tuple(arguments), golden, TOLERANCES["float32"]))

    def run_k2(self, problem: Problem, z: np.ndarray) -> Simulation:
        """K2: y of z, float32 [N, Co, Ho, Wo]; output has the problem's dtype."""
        packed = pack_z(problem, z)
        golden = np.tanh(packed.astype(np.float64)).astype(DTYPES[problem.dtype])
        tolerance = TANH_TOLERANCE if problem.dtype == "float32" else TOLERANCES[problem.dtype]
        return self.verify(problem, Request("k2", make_grid(problem), (packed,), golden, tolerance))

    def run_k12(
        self, problem: Problem, x: np.ndarray, conv_filter: np.ndarray, bias: np.ndarray | None = None
    ) -> Simulation:
        """K1 and K2 in one program, with K1's arguments; output has the problem's dtype."""
        grid, *arguments = pack(problem, x, conv_filter, bias)
        golden = np.tanh(golden_z(grid, *arguments)).astype(DTYPES[problem.dtype])
        return self.verify(problem, Request("k12", grid, tuple(arguments), golden, TOLERANCES[problem.dtype]))

    def cost(self, program: str, problem: Problem) -> Cost:
        """The cost of k1, k2 or k12 without the verification, whose time grows with the problem."""
        grid = make_grid(problem)
        packed = tuple(np.zeros(shape, DTYPES[grid.compute_dtype]) for shape in (grid.x_shape, grid.filter_shape))
        z, y = np.zeros(grid.z_shape, np.float32), np.zeros(grid.z_shape, DTYPES[grid.dtype])
        arguments, result = {"k1": (packed, z), "k2": ((z,), y), "k12": (packed, y)}[program]
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            self.work(Request(program, grid, arguments, result, None), Path(folder))
            return read_cost(Path(folder))

    def verify(self, problem: Problem, request: Request) -> Simulation:
        """Runs a request, whose output belongs to the problem."""
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            folder = Path(name)
            self.work(request, folder)
            result = np.load(folder / "result.npy").view(request.golden.dtype)
            verdicts, exceptions = _read_verdicts(folder)
            cost = read_cost(folder)
        iterations = request.grid.images * request.grid.groups * request.grid.blocks
        return Simulation(unpack(problem, result), iterations, verdicts, exceptions, cost)

    def work(self, request: Request, folder: Path) -> str:
        """Runs the worker in the folder; its output."""
        calculator = "" if request.tolerance is None else str(self._build_calculator())
        (folder / "request.pickle").write_bytes(pickle.dumps(request))
        worker = Path(__file__).with_name("pypto_worker.py")
        return _command([sys.executable, str(worker), "request.pickle", calculator], folder)

    def _build_calculator(self) -> Path:
        """PyPTO would build it anew in every process; this is the same build, once."""
        if self._calculator is None:
            probe = "import torch; print(torch.__version__, torch._C._GLIBCXX_USE_CXX11_ABI + 0, torch.__path__[0])"
            version, abi, root = _command([sys.executable, "-c", probe], self._folder).split(maxsplit=2)
            definitions = {"VERSION": version, "C_GLIBCXX_USE_CXX11_ABI": abi, "ROOT_PATH": root.strip()}
            options = [f"-DPY3_MOD_TORCH_{name}={value}" for name, value in definitions.items()]
            build = self._folder / "calculator"
            source = str(self._package / "lib/calculator")
            _command(["cmake", "-S", source, "-B", str(build), "-DCMAKE_BUILD_TYPE=Release", *options], self._folder)
            _command(["cmake", "--build", str(build), "--parallel", "2"], self._folder)
            self._calculator = next(build.rglob("libtile_fwk_calculator.so"))
        return self._calculator


def require_pypto() -> Path:
    """The folder of the package pypto. Raises ImportError naming the extra if it or what it needs is missing."""
    specs = {name: importlib.util.find_spec(name) for name in ("pypto", "torch", "sympy")}
    missing = [name for name, spec in specs.items() if spec is None]
    if missing:
        raise ImportError(f"the PyPTO simulation needs {', '.join(missing)}: pip install 'ms_convtanh[pypto]'")
    spec = specs["pypto"]
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _command(command: list[str], folder: Path) -> str:
    """The output of a command in the folder, which is its home too. Raises RuntimeError with it if it fails."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    environment = os.environ | {"HOME": str(folder), "TMPDIR": str(folder), "PATH": path}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIMEOUT,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:3])} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


def _read_verdicts(folder: Path) -> tuple[tuple[Verdict, ...], tuple[str, ...]]:
    """What the verification wrote: its comparisons, and the exceptions of passes that it could not interpret."""
    verdicts = []
    (report,) = folder.glob("output/output_*/verify_*/verify_result_brief.csv")
    with report.open(newline="") as file:
        for row in csv.DictReader(file):
            stage = re.sub(r"^Pass_\d+_", "", row["passName"])
            iteration = f"{row['verifyType']} {row['loopInfo']}"
            verdicts.append(Verdict(stage, iteration, row["verifyResult"], float(row["maxAbsDiff"])))
    log = report.with_name("verify_exception.log").read_text(errors="replace")
    exceptions = tuple(line for line in log.splitlines() if line.startswith("[VERIFY]"))
    return tuple(verdicts), exceptions


def read_cost(folder: Path) -> Cost:
    """The cost from the swim lanes that PyPTO wrote under the folder, by the rules of PyPTO's own summary.

    That summary is printed for programs of up to 500 000 cycles only. Raises RuntimeError if tasks are missing.
    """
    (file,) = folder.glob("output/output_*/CostModelSimulationOutput/_simulate.swim.json")
    lanes = [lane for lane in json.loads(file.read_text()) if lane["coreType"] in ("AIC", "AIV")]
    tasks = [task for lane in lanes for task in lane["tasks"]]
    topology = list(csv.DictReader((file.parents[1] / "dyn_topo.txt").read_text().splitlines()))
    expected = sum(task["coreType"] != HUB for task in topology)
    if len(tasks) != expected:
        raise RuntimeError(f"the cost model ran {len(tasks)} of the program's {expected} tasks")
    cycles = max(task["execEnd"] for task in tasks) - min(task["execStart"] for task in tasks)
    busy = sum(task["execEnd"] - task["execStart"] for task in tasks)
    return Cost(cycles / CYCLES_PER_US, busy / (cycles * len(lanes)), len(tasks))
