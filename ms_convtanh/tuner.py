"""The tuner: measures settings of dispatch for single problems, and keeps what is faster than dispatch's own choice.

`ms-convtanh tune` is made of these functions. No setting changes a result.
"""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ms_convtanh import _library
from ms_convtanh._compare import DTYPES
from ms_convtanh._extras import require
from ms_convtanh._problem import Attributes, to_ints
from ms_convtanh._reports import Plan, explain, features
from ms_convtanh._tuning import cache_file, use_tuning
from ms_convtanh.benchmark.models import ConvTanhLayer, Model, case_names, make
from ms_convtanh.benchmark.ours import Operator
from ms_convtanh.benchmark.timing import Side, take_turns

__all__ = ["PARAMETERS", "Config", "Problem", "Tuned", "default_config", "problems_of", "read_config", "store", "tune"]

COMMAND = "tune"
PARAMETERS = (
    "fusion",
    "threads",
    "tile_elements",
    "packed_elements",
    "block_channels",
    "blocks_per_thread",
)
METRICS = ("median", "p10")
_OPERATOR = "fused_conv_tanh"
_FORMAT = 1  # of the file, as aclnn/src/tuning.cc reads it
_SECONDS = 0.15  # of calls for each of the two sides of a comparison
_FINAL_SECONDS = 1.0
_BETTER = 1.01  # a setting is taken if it is faster by that factor
_WORTH = 1.02  # a problem's settings are kept if they are

Setting = dict[str, int | str]


@dataclass(frozen=True)
class Problem:
    """One convolution, NCHW, by the names of `ms_convtanh.explain`. A 1-D one has H = KH = 1."""

    x: tuple[int, ...]
    filter: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int

    @classmethod
    def of(
        cls,
        x: Sequence[int],
        filter: Sequence[int],
        dtype: str = "float32",
        strides: Any = (1, 1),
        pads: Any = (0, 0, 0, 0),
        dilations: Any = (1, 1),
        groups: int = 1,
    ) -> "Problem":
        """From what a caller may write.

        Raises:
            TypeError, ValueError: As `ms_convtanh.explain`.
        """
        explain(x, filter, dtype, True, strides, pads, dilations, groups)
        shapes = to_ints("x", x), to_ints("filter", filter)
        given = Attributes.of(len(shapes[1]), strides, pads, dilations, groups)
        if len(shapes[1]) == 3:
            x_shape, filter_shape = ((*shape[:2], 1, shape[2]) for shape in shapes)
            axis = (1, *given.strides), (0, 0, *given.pads), (1, *given.dilations)
            return cls(x_shape, filter_shape, dtype, *axis, given.groups)
        both = given.pads if len(given.pads) == 4 else tuple(pad for pad in given.pads for _ in range(2))
        return cls(*shapes, dtype, given.strides, both, given.dilations, given.groups)

    @property
    def attributes(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("strides", "pads", "dilations", "groups")}

    def __str__(self) -> str:
        return f"{self.dtype} x {list(self.x)} filter {list(self.filter)}"

    def plan(self) -> Plan:
        """With the settings in force."""
        return explain(self.x, self.filter, self.dtype, True, **self.attributes)

    def model(self) -> Model:
        random = np.random.default_rng(0)
        x, w, bias = (
            random.uniform(-limit, limit, shape).astype(DTYPES[self.dtype])
            for limit, shape in ((1.0, self.x), (0.1, self.filter), (0.5, self.filter[:1]))
        )
        attributes: dict[str, Any] = self.attributes
        return Model(str(self), self.dtype, x, (ConvTanhLayer(w, bias, **attributes),))


@dataclass(frozen=True)
class Config:
    """What to search."""

    problems: tuple[Problem, ...]
    parameters: dict[str, tuple[int | str, ...]]
    metric: str
    iterations: int


@dataclass(frozen=True)
class Tuned:
    """What was found for a problem. Seconds of a call; setting is empty where dispatch's own choice is the best."""

    problem: Problem
    setting: Setting
    before: float
    after: float
    measured: int  # settings
    plan: Plan  # with the setting

    @property
    def gain(self) -> float:
        return self.before / self.after


def _refuse(source: str, name: str, expected: str, got: Any) -> None:
    raise ValueError(f"{COMMAND}: {source}: {name} must be {expected}, got {got!r}")


def _parameters(source: str, given: Any) -> dict[str, tuple[int | str, ...]]:
    if not isinstance(given, Mapping) or not given:
        _refuse(source, "parameters", "names with lists of candidates", given)
    found: dict[str, tuple[int | str, ...]] = {}
    for name, values in given.items():
        if name not in PARAMETERS:
            _refuse(source, "a parameter", f"one of {', '.join(PARAMETERS)}", name)
        if not isinstance(values, list) or not values:
            _refuse(source, name, "a list of candidates", values)
        if name == "fusion":
            words = tuple("true" if value is True else value for value in values)  # YAML's true is a truth value
            if not set(words) <= {"half", "true"}:
                _refuse(source, name, "a list of half and true", values)
            found[name] = words
            continue
        for value in values:
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 2**24:
                _refuse(source, name, "whole numbers from 1 to 2^24", value)
        limit = features().threads if name == "threads" else 2**24
        found[name] = tuple(value for value in values if value <= limit)
    return found


def problems_of(names: Iterable[str]) -> list[Problem]:
    """The benchmark cases of these names."""
    found = []
    for model in map(make, names):
        (layer,) = model.layers
        assert isinstance(layer, ConvTanhLayer)
        found.append(Problem.of(model.x.shape, layer.conv_filter.shape, model.dtype, **layer.attributes))
    return found


def _problems(source: str, cases: Any, problems: Any) -> Iterator[Problem]:
    names = case_names() if cases == "all" else cases
    if not isinstance(names, list) or not set(names) <= set(case_names()):
        _refuse(source, "cases", "all, or a list of names from ms-convtanh bench --list", cases)
    yield from problems_of(names)
    if not isinstance(problems, list):
        _refuse(source, "problems", "a list", problems)
    for problem in problems:
        try:
            yield Problem.of(**problem)
        except TypeError as error:
            raise ValueError(f"{COMMAND}: {source}: problems: {error}") from error


def read_config(path: str | Path, *, problems: Sequence[Problem] | None = None) -> Config:
    """A YAML file like ms_convtanh/tuning.yaml. problems: in the place of its own.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not as described there.
        RuntimeError: PyYAML is missing.
    """
    yaml = require(COMMAND, "yaml", "tools")
    source = str(path)
    try:
        given = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{COMMAND}: {source} must be a YAML file: {error}") from error
    known = ("operator", "metric", "iterations", "cases", "problems", "parameters")
    if not isinstance(given, Mapping) or not set(given) <= set(known):
        got = sorted(map(str, given)) if isinstance(given, Mapping) else given
        _refuse(source, "its names", f"of {', '.join(known)}", got)
    if given.get("operator", _OPERATOR) != _OPERATOR:
        _refuse(source, "operator", _OPERATOR, given["operator"])
    metric, iterations = given.get("metric", METRICS[0]), given.get("iterations", 40)
    if metric not in METRICS:
        _refuse(source, "metric", f"one of {', '.join(METRICS)}", metric)
    if not isinstance(iterations, int) or isinstance(iterations, bool) or iterations < 1:
        _refuse(source, "iterations", "1 or more", iterations)
    if problems is None:
        problems = tuple(_problems(source, given.get("cases", []), given.get("problems", [])))
    return Config(tuple(problems), _parameters(source, given.get("parameters")), metric, iterations)


def default_config(*, problems: Sequence[Problem] | None = None) -> Config:
    """The configuration that comes with the package."""
    return read_config(Path(__file__).with_name("tuning.yaml"), problems=problems)


def _line(problem: Problem, setting: Setting, isa: str, gain: float) -> str:
    def word(value: Any) -> str:
        if value == "true":
            return '"true"'
        return str(list(value)) if isinstance(value, tuple) else str(value)

    shapes = {"dtype": problem.dtype, "x": problem.x, "filter": problem.filter, **problem.attributes}
    values = {"isa": isa, **shapes, **setting, "gain": round(gain, 3)}
    return "- {" + ", ".join(f"{name}: {word(value)}" for name, value in values.items()) + "}"


def _text(lines: Iterable[str]) -> str:
    found = features()
    header = [
        "# Written by ms-convtanh tune, read by the library: settings by problem, one a line.",
        f"format: {_FORMAT}",
        f"library: {found.version}",
        f"cpu: {found.cpu}",
        "entries:",
    ]
    return "\n".join([*header, *lines]) + "\n"


@contextmanager
def _in_force(file: Path) -> Iterator[None]:
    """The settings of a file; those that were in force before come back by _as_before."""
    _library.raise_for_status(_library.load().msctSetOption(b"tuning", os.fsencode(file)), COMMAND)
    yield


@contextmanager
def _as_before() -> Iterator[None]:
    try:
        yield
    finally:
        library = _library.load()
        library.msctSetOption(b"tuning", b"off")
        use_tuning(library)


class _Search:
    """For one problem: from dispatch's own choice, one parameter after the other, until none helps."""

    def __init__(self, problem: Problem, config: Config, folder: Path, step: Callable[[], None]) -> None:
        self._problem, self._config, self._folder, self._step = problem, config, folder, step
        self._isa = features().allowed[0]
        self._operator = Operator(problem.model())
        self._seen: set[Plan] = set()
        self.measured = 0

    def _file(self, setting: Setting) -> Path:
        name = "-".join(f"{name}.{value}" for name, value in setting.items()) or "own"
        file = self._folder / f"{name}.yaml"
        lines = [_line(self._problem, setting, self._isa, 1.0)] if setting else []
        file.write_text(_text(lines), encoding="utf-8")
        return file

    def _plan(self, setting: Setting) -> Plan:
        with _in_force(self._file(setting)):
            return self._problem.plan()

    def _times(self, one: Setting, other: Setting, seconds: float) -> tuple[float, float]:
        """Of two settings, whose calls take turns."""
        files = [self._file(setting) for setting in (one, other)]
        results = []
        for file in files:
            with _in_force(file):
                results.append(self._operator().tobytes())
        if results[0] != results[1]:
            raise RuntimeError(f"{COMMAND}: {self._problem}: {other} changed the result; please report this")
        sides = {str(i): Side(self._operator, partial(_in_force, file)) for i, file in enumerate(files)}
        timings = take_turns(sides, seconds)
        before, after = (getattr(timings[name], self._config.metric) for name in sides)
        return before, after

    def run(self) -> Tuned:
        best: Setting = {}
        self._seen.add(self._plan(best))
        improved = True
        while improved and self.measured < self._config.iterations:
            improved = False
            for name, values in self._config.parameters.items():
                for value in values:
                    setting = {**best, name: value}
                    plan = self._plan(setting)
                    if plan in self._seen or self.measured >= self._config.iterations:
                        continue
                    self._seen.add(plan)
                    before, after = self._times(best, setting, _SECONDS)
                    self.measured += 1
                    self._step()
                    if before > _BETTER * after:
                        best, improved = setting, True
        before, after = self._times({}, best, _FINAL_SECONDS) if best else self._times({}, {}, _SECONDS)
        if before < _WORTH * after:
            best, after = {}, before
        return Tuned(self._problem, best, before, after, self.measured, self._plan(best))

    def close(self) -> None:
        self._operator.close()


def tune(config: Config, *, step: Callable[[], None] = lambda: None) -> list[Tuned]:
    """Searches for each problem; stores nothing.

    Args:
        config: What to search.
        step: Called after each setting that was measured.

    Raises:
        RuntimeError: A setting changed a result, which would be a fault.
    """
    found = []
    with _as_before(), tempfile.TemporaryDirectory() as folder:
        for problem in config.problems:
            search = _Search(problem, config, Path(folder), step)
            try:
                found.append(search.run())
            finally:
                search.close()
    return found


def _kept(file: Path, replaced: set[str]) -> list[str]:
    """The entries of an earlier file for other problems; none if it is of another CPU or version, or is damaged."""
    yaml = require(COMMAND, "yaml", "tools")
    found = features()
    try:
        text = file.read_text(encoding="utf-8")
        earlier = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return []
    expected = {"format": _FORMAT, "library": found.version, "cpu": found.cpu}
    if not isinstance(earlier, dict) or any(str(earlier.get(name)) != str(value) for name, value in expected.items()):
        return []
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line.startswith("- ") and not any(line.startswith(start) for start in replaced)]


def store(tuned: Sequence[Tuned], file: str | Path | None = None) -> Path:
    """Writes the settings found to a file, by default this CPU's in the cache folder, and puts them in force.

    Entries of an earlier file for other problems stay. Returns the file's path.

    Raises:
        OSError: It cannot be written.
    """
    path = cache_file(features().cpu) if file is None else Path(file)
    isa = features().allowed[0]
    starts = {_line(one.problem, {}, isa, 1.0).partition(", gain")[0] for one in tuned}
    lines = _kept(path, starts) + [_line(one.problem, one.setting, isa, one.gain) for one in tuned if one.setting]
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as part:
        part.write(_text(lines))
    os.replace(part.name, path)  # a reader never sees half a file
    if file is None:
        use_tuning(_library.load())
    return path
