"""A network's layers against float64: where an error comes from, and where it grows."""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ms_convtanh._compare import COMMAND, DTYPES, Comparison, check_request, compare, threshold_dtype
from ms_convtanh._mindir import Graph, Model, Node
from ms_convtanh._networks import make_cell, require_mindspore, tensor
from ms_convtanh._reference import Unknown, evaluate

SOURCES = ("rounding", "accumulation", "saturation", "Inf/NaN", "approximation")
_FLOAT32_ULPS = 4  # of an elementwise function in float32 that counts as rounded well


@dataclass(frozen=True)
class Layer:
    """One operator of a network.

    own compares with a float64 evaluation on the operator's actual inputs: its own error. total compares with the
    float64 run of all before it: what arrived here. None, where there is no reference.
    """

    name: str  # such as c1-ConvTanh/Conv2D
    operator: str
    own: Comparison | None
    total: Comparison | None
    sources: dict[str, int]  # elements of own by what explains their error; exact ones are not counted
    note: str  # why there is no reference, "" if there is one


@dataclass(frozen=True)
class NetworkCheck:
    """The result of check_network."""

    passed: bool
    outputs: tuple[Comparison, ...]  # against the golden outputs; against the float64 run without any
    layers: tuple[Layer, ...]
    first_jump: str | None  # the first layer whose own error is beyond the standard, else whose total error is
    reason: str  # what is wrong there
    unreferenced: tuple[str, ...]  # layers that have no reference: the float64 run goes on from their actual output


def _sources(
    actual: NDArray[Any], reference: NDArray[Any], bound: NDArray[Any] | None, operator: str
) -> dict[str, int]:
    """Inexact elements by the first of these that explains their error.

    Inf/NaN: finite on one side only. saturation: at +-1 behind a tanh, or at the largest number of the dtype, where the
    reference is not. rounding: one ulp of the dtype, and for an elementwise function 4 ulp of float32. accumulation:
    beyond that, within the bound of a float32 sum. approximation: more than all of them.
    """
    a, r = actual.astype(np.float64), reference
    with np.errstate(all="ignore"):
        spacing = np.spacing(np.abs(r).astype(actual.dtype)).astype(np.float64)
        rounded = r.astype(actual.dtype).astype(np.float64)
        error = np.abs(a - r)
        float32_ulp = np.spacing(np.abs(r).astype(np.float32)).astype(np.float64)
        rounding = error <= np.maximum(spacing, 0 if bound is not None else _FLOAT32_ULPS * float32_ulp)
        accumulation = error <= spacing + _FLOAT32_ULPS * float32_ulp + bound if bound is not None else rounding
    largest = float(ml_dtypes.finfo(actual.dtype).max)
    is_tanh = operator in ("Tanh", "FusedConvTanh")
    at_limit = (np.abs(a) == largest) | (is_tanh & (np.abs(a) == 1))
    nonfinite = ~np.isfinite(a) != ~np.isfinite(r)
    overflowed = nonfinite & np.isfinite(r) & (np.abs(r) > largest)
    exact = (a == rounded) & (a == r) | (np.isnan(a) & np.isnan(r))
    left = ~exact
    counts = {}
    for source, explains in (
        ("Inf/NaN", nonfinite & ~overflowed),
        ("saturation", overflowed | (at_limit & (rounded != a))),
        ("rounding", rounding),
        ("accumulation", accumulation),
        ("approximation", np.ones_like(left)),
    ):
        counts[source] = int(np.sum(left & explains))
        left &= ~explains
    return {source: counts[source] for source in SOURCES}


def _first(value: Any) -> Any:
    """An operator's first output: that which the next layer reads."""
    return value[0] if isinstance(value, tuple) else value


class _Run:
    """The float64 run of a graph beside what its nodes gave."""

    def __init__(self, graph: Graph, inputs: Sequence[NDArray[Any]], actual: dict[str, Any], judge: Any) -> None:
        self._graph, self._judge = graph, judge
        self._actual: dict[str, Any] = {**graph.values, **dict(zip(graph.inputs, inputs, strict=True)), **actual}
        exact = self._actual.keys() - actual.keys()  # both runs start from the same
        self._golden: dict[str, Any] = {name: _wide(self._actual[name]) for name in exact}

    def _resolve(self, name: str) -> str:
        while name in self._graph.same:
            name = self._graph.same[name]
        return name

    def actual(self, name: str) -> Any:
        return self._actual[self._resolve(name)]

    def golden(self, name: str) -> Any:
        return self._golden[self._resolve(name)]

    def layer(self, node: Node) -> Layer:
        name = f"{node.layer}/{node.operator}"
        names = [self._resolve(input_name) for input_name in node.inputs]
        if node.operator == "MakeTuple":
            self._actual[node.output] = tuple(self._actual[input_name] for input_name in names)
        given = self._actual.get(node.output)
        try:
            missing = [input_name for input_name in names if input_name not in self._golden]
            if missing:
                raise Unknown(f"inputs without a value: {missing}")
            golden = evaluate(node.operator, node.attributes, [self._golden[input_name] for input_name in names])
            own = evaluate(node.operator, node.attributes, [_wide(self._actual[input_name]) for input_name in names])
            if np.shape(_first(golden.value)) != np.shape(_first(given)):
                raise Unknown(f"its shape would be {np.shape(_first(golden.value))}, got {np.shape(_first(given))}")
        except Unknown as reason:
            self._golden[node.output] = _wide(given)
            return Layer(name, node.operator, None, None, {}, str(reason))
        value = golden.value
        if isinstance(given, tuple) and isinstance(value, tuple) and len(given) > len(value):
            value = (*value, *map(_wide, given[len(value) :]))  # statistics, which inference does not read
        self._golden[node.output] = value
        array = _first(given)
        if not isinstance(array, np.ndarray) or array.dtype.name not in DTYPES:
            return Layer(name, node.operator, None, None, {}, f"{getattr(array, 'dtype', 'no tensor')} is not compared")
        own_value = np.broadcast_to(_first(own.value), array.shape)
        return Layer(
            name,
            node.operator,
            self._judge(array, own_value, name),
            self._judge(array, _first(value), name),
            _sources(array, own_value, own.bound, node.operator),
            "",
        )


def _wide(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_wide(item) if isinstance(item, np.ndarray) else item for item in value)
    if isinstance(value, np.ndarray) and (value.dtype.kind == "f" or value.dtype == DTYPES["bfloat16"]):
        return value.astype(np.float64)
    return value


def _flat(values: Iterable[Any]) -> list[Any]:
    """Arrays, tuples of them taken apart."""
    return [array for value in values for array in (_flat(value) if isinstance(value, tuple) else [value])]


def _first_jump(layers: Sequence[Layer]) -> tuple[str | None, str]:
    for layer in layers:
        if layer.own is not None and not layer.own.passed:
            most = max(SOURCES[1:], key=lambda source: layer.sources[source])
            cause = most if layer.sources[most] else "rounding"
            return layer.name, f"its own error is beyond the standard, mostly {cause}: {layer.own.reason}"
    for layer in layers:
        if layer.total is not None and not layer.total.passed:
            return layer.name, f"errors of the layers before it add up: {layer.total.reason}"
    return None, ""


def _export(network: str, checkpoint: str | Path | None, inputs: Sequence[NDArray[Any]]) -> Model:
    cell = make_cell(COMMAND, network, checkpoint)
    import mindspore as ms

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.mindir"
        ms.export(cell, *map(tensor, inputs), file_name=str(path), file_format="MINDIR")
        return Model(path)


def check_network(
    network: str | Path,
    inputs: Sequence[NDArray[Any]],
    golden: Sequence[NDArray[Any]] | None = None,
    *,
    checkpoint: str | Path | None = None,
    tolerance: float | None = None,
    standard: str = "conv",
) -> NetworkCheck:
    """Runs a network and compares all of its layers with a float64 run of the same graph.

    MindSpore runs the network's graph once, with the output of every operator returned. The same graph is evaluated in
    float64 with NumPy, twice for each operator: on its actual inputs, and on those of the float64 run. Operators
    without a NumPy reference are listed in `unreferenced`.

    Args:
        network: A .mindir file, or module:function that returns a cell, which is compiled for inference.
        inputs: Arrays in the order of the network's inputs.
        golden: Its outputs in their order. Without them, those of the float64 run are taken.
        checkpoint: Of module:function.
        tolerance, standard: As for `compare`.

    Raises:
        ValueError: The network, inputs or golden outputs do not fit.
        OSError: A file cannot be read.
        RuntimeError: There is no MindSpore, or it cannot compile the network.
    """
    check_request(tolerance, standard)
    require_mindspore(COMMAND)
    is_file = str(network).endswith(".mindir")
    if is_file and checkpoint is not None:
        raise ValueError(f"{COMMAND}: a MindIR file holds its parameters: checkpoint must not be given")
    model = Model(network) if is_file else _export(str(network), checkpoint, inputs)
    graph = model.graph

    def judge(actual: NDArray[Any], reference: NDArray[Any], name: str) -> Comparison:
        kind = threshold_dtype(actual, None)
        return compare(actual, reference, tolerance=tolerance, standard=standard, dtype=kind, name=name)

    run = _Run(graph, inputs, model.run(inputs), judge)
    # Tuples are not layers, but the layers behind them read them.
    done = [run.layer(node) for node in graph.nodes]
    layers = tuple(layer for layer in done if layer.operator not in ("MakeTuple", "TupleGetItem"))
    results = _flat(run.actual(name) for name in graph.outputs)
    wanted = list(golden) if golden is not None else _flat(run.golden(name) for name in graph.outputs)
    if len(wanted) != len(results):
        raise ValueError(f"{COMMAND}: golden must hold the network's {len(results)} outputs, got {len(wanted)}")
    outputs = tuple(judge(a, g, f"output {i}") for i, (a, g) in enumerate(zip(results, wanted, strict=True)))
    jump, reason = _first_jump(layers)
    return NetworkCheck(
        passed=all(output.passed for output in outputs) and jump is None,
        outputs=outputs,
        layers=layers,
        first_jump=jump,
        reason=reason,
        unreferenced=tuple(f"{layer.name}: {layer.note}" for layer in layers if layer.own is None),
    )
