"""Runs the very kernel files: @pl.jit, TilingKeys, datatypes, sections, and the launch over all cores."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib
import importlib.util
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .machine import Core, make_buffers
from .memory import GlobalBuffer, Pointer
from .types import DataType, ExecutorError


class TilingKeyField:
    """pypto_pro.runtime.tilingkey.TilingKeyField: the values a compile-time field may have."""

    def __init__(self, *, bits: int, values: list[int]) -> None:
        if not values or len(set(values)) != len(values) or len(values) > 2**bits:
            raise ExecutorError(f"TilingKeyField: {values} are no distinct values for {bits} bits")
        self.bits = bits
        self.values = tuple(values)


class _Sections(ast.NodeTransformer):
    """`with pl.section_cube():` becomes `if`, and what the DSL's parser refuses is refused."""

    def visit_With(self, node: ast.With) -> ast.AST:
        call = ast.unparse(node.items[0].context_expr)
        if call not in ("pl.section_cube()", "pl.section_vector()"):
            raise ExecutorError(f"line {node.lineno}: `with {call}` is not in the DSL")
        self.generic_visit(node)
        test = node.items[0].context_expr
        return ast.copy_location(ast.If(test=test, body=node.body, orelse=[]), node)

    def visit_For(self, node: ast.For) -> ast.AST:
        if not ast.unparse(node.iter).startswith("pl.range("):
            raise ExecutorError(f"line {node.lineno}: kernels loop over pl.range only")
        self.generic_visit(node)
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        raise ExecutorError(f"line {node.lineno}: a kernel does not return")


class Kernel:
    """A decorated kernel: kernel[stream, block_dim, key, datatypes](*arguments)."""

    def __init__(self, function: Callable[..., None], key: type | None, datatype: Mapping[str, str]) -> None:
        self.function = function
        self.name = function.__name__
        self.datatype = dict(datatype)
        fields = {} if key is None else vars(key)
        self.key = {name: field for name, field in fields.items() if isinstance(field, TilingKeyField)}
        self.parameters = list(inspect.signature(function).parameters)
        unknown = set(self.datatype) - set(self.parameters)
        if unknown:
            raise ExecutorError(f"{self.name}: datatype names no parameters: {sorted(unknown)}")
        source = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(source)
        definition = tree.body[0]
        assert isinstance(definition, ast.FunctionDef)
        definition.decorator_list = []
        tree = ast.fix_missing_locations(_Sections().visit(tree))
        ast.increment_lineno(tree, inspect.getsourcelines(function)[1] - 1)
        self.code = compile(tree, inspect.getsourcefile(function) or self.name, "exec")

    def __getitem__(self, launch: tuple[Any, ...]) -> Callable[..., None]:
        _stream, block_dim, *compile_time = launch
        key = compile_time[0] if compile_time else {}
        datatypes = compile_time[1] if len(compile_time) > 1 else {}
        if set(key) != set(self.key) or any(value not in self.key[name].values for name, value in key.items()):
            raise ExecutorError(f"{self.name}: {key} is no TilingKey of {sorted(self.key)}")
        if set(datatypes) != set(self.datatype):
            raise ExecutorError(f"{self.name}: datatypes of {sorted(self.datatype)} are expected, got {datatypes}")
        names: dict[str, object] = dict(key)
        for parameter, name in self.datatype.items():
            if not isinstance(datatypes[parameter], DataType) or names.setdefault(name, datatypes[parameter]) != (
                datatypes[parameter]
            ):
                raise ExecutorError(f"{self.name}: {name} has no single data type")
        return lambda *arguments: self._launch(int(block_dim), names, arguments)

    def _launch(self, block_dim: int, names: Mapping[str, object], arguments: tuple[Any, ...]) -> None:
        if len(arguments) != len(self.parameters):
            raise ExecutorError(f"{self.name}: {len(self.parameters)} arguments are expected, got {len(arguments)}")
        *pointers, tiling = arguments
        if not dataclasses.is_dataclass(tiling):
            raise ExecutorError(f"{self.name}: the last argument is the TilingData")
        bound: list[object] = []
        for name, argument in zip(self.parameters, pointers, strict=False):
            buffer = argument
            if isinstance(argument, np.ndarray):
                buffer = GlobalBuffer(name, argument, written=True)
            if buffer is not None:
                buffer.start_launch()
            bound.append(Pointer(name, buffer))
        bound.append(tiling)
        scope = {**self.function.__globals__, **names}
        exec(self.code, scope)
        program = scope[self.name]
        buffers = make_buffers()
        for block in range(block_dim):
            Core(buffers, block, block_dim).run(lambda: program(*bound))


def jit(
    *, auto_mutex: bool, tiling_key: type | None = None, datatype: Mapping[str, str] | None = None
) -> Callable[[Callable[..., None]], Kernel]:
    """pl.jit; the executor knows auto_mutex=True only."""
    if not auto_mutex:
        raise ExecutorError("jit: the executor knows auto_mutex=True only")
    return lambda function: Kernel(function, tiling_key, datatype or {})


@contextlib.contextmanager
def _standing_in() -> Iterator[None]:
    """`import pypto_pro.language` finds the executor's, and nothing of it stays behind."""
    language = importlib.import_module(f"{__package__}.language")
    tilingkey = types.ModuleType("pypto_pro.runtime.tilingkey")
    tilingkey.TilingKeyField = TilingKeyField  # type: ignore[attr-defined]
    package = types.ModuleType("pypto_pro")
    package.language = language  # type: ignore[attr-defined]
    runtime = types.ModuleType("pypto_pro.runtime")
    modules = {
        "pypto_pro": package,
        "pypto_pro.language": language,
        "pypto_pro.runtime": runtime,
        "pypto_pro.runtime.tilingkey": tilingkey,
    }
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "pypto_pro"}
    path = list(sys.path)
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in (*modules, "tile_stages"):
            sys.modules.pop(name, None)
        sys.modules.update(hidden)
        sys.path[:] = path


def load_kernel(path: Path, name: str | None = None) -> Kernel:
    """The kernel of a file, by default the one named as the file, bound to the executor."""
    spec = importlib.util.spec_from_file_location(f"executor_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with _standing_in():
        spec.loader.exec_module(module)
    kernel = getattr(module, name or path.stem)
    assert isinstance(kernel, Kernel)
    return kernel
