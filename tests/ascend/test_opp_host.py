"""The CANN operator's host code, run on what stands in for CANN; its launches run in the NumPy executor of the kernels.

So phase 1's checks, the launches of op_api, the tilings of op_host and the kernels meet as they do on an Ascend 950.
"""

import itertools
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pytest
from conv_common import CONV_KEY, FUSED_KEY, PACK_KEY, TANH_KEY, ConvTiling, PackTiling, TanhTiling
from executor import GlobalBuffer
from executor.run import DATATYPES, NUMPY, kernels
from operator_project import FOLDER, OWN, ROOT, SHARED
from problems import GEOMETRIES
from reference import assert_close, conv_tanh

from ms_convtanh._problem import Attributes

ACL_DTYPES = {"float32": 0, "float16": 1, "bfloat16": 27}
NAMES = {number: name for name, number in ACL_DTYPES.items()}
NCHW, NCL, ND = 0, 47, 2
CORES = 5
# Per operator: the kernel, its TilingKey's fields, its TilingData, the parameters that its datatype names.
OPERATORS = {
    "ConvTanhPack": ("k0_pack", PACK_KEY, PackTiling, ("x", "x_packed")),
    "ConvTanhConv": ("k1_conv", CONV_KEY, ConvTiling, ("x_packed",)),
    "ConvTanhTanh": ("k2_tanh", TANH_KEY, TanhTiling, ("y",)),
    "ConvTanhFused": ("k12_fused", FUSED_KEY, ConvTiling, ("x_packed", "y")),
}
STAND_INS = re.compile(r'#include "((?:aclnn_kernels|exe_graph|log|opdev|register|tiling)/[^"]+)"')


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """host(mode, numbers, environment) -> lines of output."""
    folder = tmp_path_factory.mktemp("host")
    for source in [*OWN, *FOLDER.rglob("*.h")]:
        for header in STAND_INS.findall(source.read_text()):
            path = folder / "include" / header
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text('#include "cann_stand_in.h"\n')
    sources = [*OWN, *SHARED, ROOT / "tests/ascend/op_api_main.cc"]
    folders = (folder / "include", ROOT / "tests/ascend", ROOT, ROOT / "aclnn/include")
    options = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", *(f"-I{path}" for path in folders)]
    subprocess.run(["g++", *options, *sources, "-o", folder / "host"], check=True)

    def run(mode: str, numbers: Sequence[int] = (), **environment: str) -> list[str]:
        command, text = [folder / "host", mode], " ".join(map(str, numbers))
        result = subprocess.run(command, input=text, env=environment, capture_output=True, text=True, check=True)
        return result.stdout.splitlines()

    return run


@dataclass
class View:
    """A tensor of the caller's: an array that is a view of memory, and its numbers for the host."""

    array: np.ndarray
    memory: np.ndarray
    dtype: str
    format: int

    def numbers(self) -> list[int]:
        size = self.array.itemsize
        offset = (self.array.__array_interface__["data"][0] - self.memory.__array_interface__["data"][0]) // size
        strides = [stride // size for stride in self.array.strides]
        storage = self.memory.size
        return [self.array.ndim, *self.array.shape, *strides, offset, storage, ACL_DTYPES[self.dtype], self.format]


def contiguous(array: np.ndarray, dtype: str, form: int) -> View:
    return View(array, array, dtype, form)


def gapped(array: np.ndarray, dtype: str, form: int) -> View:
    """The same values with gaps between the elements of the last axis and an offset."""
    memory = np.zeros((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
    view = memory[..., 1::2]
    view[...] = array
    return View(view, memory.reshape(-1), dtype, form)


def arguments(tensors: dict[str, View], attributes: dict[str, Any], math: int = 0) -> list[int]:
    def ints(values: Sequence[int] | None) -> list[int]:
        return [-1] if values is None else [len(values), *values]

    def tensor(name: str) -> list[int]:
        return tensors[name].numbers() if name in tensors else [-1]

    lists = [*ints(attributes["strides"]), *ints(attributes["pads"]), *ints(attributes["dilations"])]
    inputs = [*tensor("x"), *tensor("filter"), *tensor("bias")]
    return [CORES, *inputs, *lists, attributes["groups"], math, *tensor("y")]


def fields(line: str) -> tuple[str, dict[str, list[str]]]:
    """A launch: its operator, and the words behind each of "inputs", "outputs", "blocks", "key" and "data"."""
    name, *words = line.split()
    found: dict[str, list[str]] = {}
    for word in words:
        if word in ("inputs", "outputs", "blocks", "key", "data"):
            current = found[word] = []
        else:
            current.append(word)
    return name, found


def decode(key: int, schema: dict[str, tuple[int, tuple[int, ...]]]) -> dict[str, int]:
    values = {}
    for name, (bits, allowed) in schema.items():
        values[name] = allowed[key & (1 << bits) - 1]
        key >>= bits
    return values


def execute(lines: list[str], tensors: dict[str, View]) -> list[str]:
    """Runs the launches of op_api on the caller's tensors; returns their names."""
    memory: dict[str, Any] = {name: view.array for name, view in tensors.items()}
    names = []
    for line in lines:
        name, launch = fields(line)
        names.append(name)
        operands = [word.split(":") for word in launch["inputs"] + launch["outputs"]]
        if name == "Contiguous":
            memory[operands[1][0]] = np.ascontiguousarray(memory[operands[0][0]])
            continue
        if name == "ViewCopy":
            buffer = memory[operands[0][0]]
            assert buffer.written.all()
            memory[operands[1][0]][...] = buffer.data.reshape(memory[operands[1][0]].shape)
            continue
        kernel, schema, tiling, typed = OPERATORS[name]
        parameters, dtypes, pointers = kernels()[kernel].parameters, {}, []
        for parameter, operand in itertools.zip_longest(parameters[:-2], operands):
            if operand == ["-"]:
                pointers.append(None)
                continue
            buffer_name, dtype, size = operand[0], NAMES[int(operand[1])], int(operand[2])
            dtypes[parameter] = DATATYPES[dtype]
            if buffer_name not in memory:
                memory[buffer_name] = GlobalBuffer(buffer_name, np.zeros(size, NUMPY[dtype]), written=False)
            pointers.append(memory[buffer_name])
        data = tiling(*map(int, launch["data"]))
        key, blocks = decode(int(launch["key"][0]), schema), int(launch["blocks"][0])
        assert 0 < blocks <= CORES
        run = kernels()[kernel][None, blocks, key, {parameter: dtypes[parameter] for parameter in typed}]
        run(*pointers, None, data)
    return names


CALLS = {
    **{name: (geometry, "float16", contiguous, True, 0) for name, geometry in GEOMETRIES.items()},
    "direct": (((2, 16, 9, 16), (20, 16, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1), "bfloat16", contiguous, True, 0),
    "views": (((2, 3, 9, 11), (5, 3, 3, 3), (2, 1), (1, 0, 2, 1), (1, 2), 1), "float32", gapped, True, 0),
    "no_bias": (((2, 3, 9, 11), (5, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1), "float32", contiguous, False, 0),
    "use_fp16": (((1, 17, 9, 11), (5, 17, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1), "float32", gapped, True, 2),
    "one_axis": (((2, 4, 30), (6, 2, 5), (3,), (2, 1), (2,), 2), "float16", gapped, True, 0),
}


def golden_of(arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> np.ndarray:
    rank = arrays["x"].ndim
    on_two_axes = asdict(Attributes.of(rank, **attributes).on_two_axes())
    if rank == 4:
        return conv_tanh(arrays["x"], arrays["filter"], arrays.get("bias"), **on_two_axes)
    return conv_tanh(arrays["x"][:, :, None], arrays["filter"][:, :, None], arrays.get("bias"), **on_two_axes)[:, :, 0]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_calls_end_to_end(host: Callable[..., list[str]], name: str, fused: bool, rng: np.random.Generator) -> None:
    (x_shape, filter_shape, *values), dtype, make, has_bias, math = CALLS[name]
    attributes = dict(zip(("strides", "pads", "dilations", "groups"), values, strict=True))
    arrays = {"x": rng.uniform(-1, 1, x_shape), "filter": rng.uniform(-0.3, 0.3, filter_shape)}
    if has_bias:
        arrays["bias"] = rng.uniform(-0.5, 0.5, filter_shape[:1])
    arrays = {key: array.astype(NUMPY[dtype]) for key, array in arrays.items()}
    # USE_FP16 rounds them in K0
    exact = {key: array.astype(np.float16) for key, array in arrays.items()} if math == 2 else arrays
    golden = golden_of(exact, attributes)

    form = NCL if len(x_shape) == 3 else NCHW
    tensors = {key: make(array, dtype, ND if key == "bias" else form) for key, array in arrays.items()}
    tensors["y"] = make(np.full(golden.shape, 7, NUMPY[dtype]), dtype, form)
    environment = {"MS_CONVTANH_FUSION": "true"} if fused else {}
    workspace, *lines = host("call", arguments(tensors, attributes, math), **environment)
    launched = execute(lines, tensors)
    assert int(workspace.removeprefix("workspace ")) > 0
    kernel_names = [word for word in launched if word in OPERATORS]
    assert kernel_names == ["ConvTanhPack", *(["ConvTanhFused"] if fused else ["ConvTanhConv", "ConvTanhTanh"])]
    assert launched.count("Contiguous") == (3 if make is gapped else 0)
    assert_close(tensors["y"].array, golden, dtype)
    if make is gapped:
        outside = np.ones(tensors["y"].memory.size, bool).reshape((*golden.shape[:-1], -1))
        outside[..., 1::2] = False
        assert (tensors["y"].memory[outside.reshape(-1)] == 0).all()


GOOD = {"strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1], "groups": 1}
REFUSALS = {
    "null_x": (lambda t, a: t.pop("x"), "status 161001 aclnnFusedConvTanh: x must not be null"),
    "null_pads": (lambda t, a: a.update(pads=None), "status 161001 aclnnFusedConvTanh: pads must not be null"),
    "dtype": (
        lambda t, a: setattr(t["filter"], "dtype", "float32"),
        "status 161002 aclnnFusedConvTanh: filter.dtype must be x.dtype = ACL_FLOAT16, got ACL_FLOAT",
    ),
    "format": (
        lambda t, a: setattr(t["x"], "format", 1),
        "status 161002 aclnnFusedConvTanh: x.format must be ACL_FORMAT_NCHW or ACL_FORMAT_NCL, got ACL_FORMAT_NHWC",
    ),
    "y_shape": (
        lambda t, a: a.update(strides=[1, 2]),
        "status 161002 aclnnFusedConvTanh: y.shape must be [1, 4, 4, 3], got [1, 4, 4, 5]",
    ),
    "groups": (lambda t, a: a.update(groups=0), "status 161002 aclnnFusedConvTanh: groups must be >= 1, got 0"),
}


def call_of_one() -> tuple[dict[str, View], dict[str, Any]]:
    shapes = {"x": (1, 2, 6, 7), "filter": (4, 2, 3, 3), "bias": (4,), "y": (1, 4, 4, 5)}
    tensors = {name: contiguous(np.zeros(shape, np.float16), "float16", NCHW) for name, shape in shapes.items()}
    return tensors, dict(GOOD)


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_are_those_of_the_cpu_library(host: Callable[..., list[str]], name: str) -> None:
    """Status, and the message that CANN's aclGetRecentErrMsg() gets."""
    tensors, attributes = call_of_one()
    change, message = REFUSALS[name]
    change(tensors, attributes)
    assert host("call", arguments(tensors, attributes)) == [message]


def test_unknown_fusion_is_refused(host: Callable[..., list[str]]) -> None:
    (line,) = host("call", arguments(*call_of_one()), MS_CONVTANH_FUSION="both")
    assert line.startswith("status 161002 aclnnFusedConvTanh: MS_CONVTANH_FUSION must be")
    assert line.endswith('got "both"')


def test_planes_beyond_the_copy_engines_are_refused(host: Callable[..., list[str]]) -> None:
    size = 2**31
    tensors, attributes = call_of_one()
    numbers = arguments(tensors, attributes)
    for name, shape in (("x", (1, 2, 1, size)), ("filter", (4, 2, 1, 1)), ("y", (1, 4, 1, size))):
        old = tensors[name].numbers()
        strides = [shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1]
        new = [4, *shape, *strides, 0, shape[0] * strides[0], *old[-2:]]
        at = next(i for i in range(len(numbers)) if numbers[i : i + len(old)] == old)
        numbers[at : at + len(old)] = new
    (line,) = host("call", numbers)
    assert line.startswith("status 161002 aclnnFusedConvTanh: ")
    assert "32-bit strides" in line


def test_an_empty_y_launches_nothing(host: Callable[..., list[str]]) -> None:
    tensors, attributes = call_of_one()
    for name in ("x", "y"):
        tensors[name] = contiguous(tensors[name].array[:0], "float16", NCHW)
    assert host("call", arguments(tensors, attributes)) == ["workspace 0"]


def test_definitions_name_the_parameters_of_the_kernels(host: Callable[..., list[str]]) -> None:
    """CANN hands tensors over by position, and compiles a kernel for each column of dtypes."""
    lines = host("define")
    assert {line.split()[0] for line in lines} == set(OPERATORS)
    for line in lines:
        name, rest = line.split(" kernel ")
        kernel, rest = rest.split(" inputs ")
        inputs, rest = rest.split(" outputs ")
        outputs, attributes = rest.split(" attributes ")
        assert kernel == OPERATORS[name][0]
        assert attributes == "problem"
        operands = [word.split(":") for word in (inputs + " " + outputs).split()]
        parameters = kernels()[kernel].parameters
        assert [operand[0].rstrip("?") for operand in operands] == parameters[:-2]
        assert parameters[-2:] == ["workspace", "tiling"]
        columns = {len(operand) for operand in operands}
        assert len(columns) == 1


def test_shape_inference(host: Callable[..., list[str]]) -> None:
    def infer(x: Sequence[int], conv_filter: Sequence[int], *lists: Sequence[int]) -> str:
        (line,) = host("infer", [number for values in (x, conv_filter, *lists) for number in (len(values), *values)])
        return line.strip()

    image = ((2, 3, 9, 11), (5, 3, 3, 2), (2, 1), (1, 0, 2, 1), (1, 3))
    assert infer(*image) == "y 2 5 4 11"
    assert infer((-1, 3, -1, 11), *image[1:]) == "y -1 5 -1 11"
    assert infer((2, 3, 9), (5, 3, 3), (2,), (1,), (1,)) == "y 2 5 5"
    assert infer((-2,), *image[1:]) == "y -2"
    assert infer(image[0], (5, 3, 3), *image[2:]).startswith("failed filter must be 4-dimensional")
    assert infer(*image[:2], (2,), *image[3:]).startswith("failed strides, pads and dilations must have 2, 2 (or 4)")
