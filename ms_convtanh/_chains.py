"""Which cells of a network run one after another, each on the output of the one before: what fuse may rely on."""

import ast
import inspect
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from mindspore import nn


class Use(Enum):
    """What code does with an attribute that holds cells."""

    CALL = "self.cells(x)"
    CHAIN = "for cell in self.cells: x = cell(x)"
    ELEMENTS = "calls of single elements, such as self.cells[0](x)"
    OTHER = "anything else"


class Place(NamedTuple):
    """Where a cell is."""

    parent: nn.Cell
    key: str
    path: str
    cell: nn.Cell

    def put(self, cell: nn.Cell) -> None:
        """Puts another cell there. Not by an index of the parent: that would give its parameters new names."""
        self.parent._cells[self.key] = cell
        if isinstance(self.parent, nn.SequentialCell):
            self.parent.cell_list = list(self.parent._cells.values())


class Network:
    """The cells of a network.

    Attributes:
        places: Of all cells; a cell that the network has more than once has several.
        chains: Places of cells that run one after another, with no other reader of what is between them. A
            SequentialCell in a chain counts as its cells.
        without_source: The class whose source Python cannot find; empty if there is none. No chains but those of
            SequentialCells inside SequentialCells are known then.
    """

    def __init__(self, net: nn.Cell) -> None:
        self.places = [Place(net, key, key, cell) for key, cell in _children(net)]
        for place in self.places:  # grows on the way
            self.places += [Place(place.cell, key, f"{place.path}.{key}", cell) for key, cell in _children(place.cell)]
        self._times = Counter(id(place.cell) for place in self.places)
        self._uses, self.without_source = _uses([net, *(place.cell for place in self.places)])
        self.chains: list[list[Place]] = []
        self._seen: set[int] = set()
        self._visit(net, "", _is_sequential(net), Use.CHAIN)

    def is_shared(self, cell: nn.Cell) -> bool:
        """Whether the network has the cell more than once."""
        return self._times[id(cell)] > 1

    def _visit(self, cell: nn.Cell, path: str, is_chain: bool, elements: Use) -> None:
        """Finds the chains of a cell. elements is what is known to happen to the containers directly inside it."""
        if id(cell) in self._seen:
            return
        self._seen.add(id(cell))
        if is_chain:
            chain = list(self._flat(cell, path))
            self.chains.append(chain)
            for place in chain:
                self._visit(place.cell, place.path, _is_sequential(place.cell), Use.CHAIN)
            return
        is_container = isinstance(cell, nn.SequentialCell | nn.CellList)
        for key, child in _children(cell):
            uses = {elements} if is_container else self._uses.get(key, set())
            if self.without_source:
                uses = {Use.OTHER}
            child_path = f"{path}.{key}" if path else key
            self._visit(child, child_path, self._runs_as_chain(child, uses), _of_elements(uses))

    def _runs_as_chain(self, cell: nn.Cell, uses: set[Use]) -> bool:
        if self.is_shared(cell):
            return False
        if type(cell) is nn.CellList:
            return uses == {Use.CHAIN}
        return _is_sequential(cell) and uses <= {Use.CALL, Use.CHAIN}

    def _flat(self, container: nn.Cell, path: str) -> Iterator[Place]:
        for key, cell in _children(container):
            child_path = f"{path}.{key}" if path else key
            inner = _is_sequential(cell) or type(cell) is nn.CellList
            if inner and not self.is_shared(cell) and not has_hooks(cell):
                yield from self._flat(cell, child_path)
            else:
                yield Place(container, key, child_path, cell)


def has_hooks(cell: nn.Cell) -> bool:
    return any(value for name, value in vars(cell).items() if name.endswith(("_hook", "_hook_with_kwargs")))


def _children(cell: nn.Cell) -> list[tuple[str, nn.Cell]]:
    return [(key, child) for key, child in cell._cells.items() if child is not None]


def _is_sequential(cell: nn.Cell) -> bool:
    return isinstance(cell, nn.SequentialCell) and type(cell).construct is nn.SequentialCell.construct


def _of_elements(uses: set[Use]) -> Use:
    """What happens to the elements of a container with these uses, as far as that is one thing."""
    return Use.CALL if uses and uses <= {Use.CALL, Use.CHAIN, Use.ELEMENTS} else Use.OTHER


def _uses(cells: Iterable[nn.Cell]) -> tuple[dict[str, set[Use]], str]:
    """How the code that runs uses each attribute, by its name; and a class without source, if there is one."""
    functions: dict[str, list[ast.stmt]] = defaultdict(list)
    for kind in dict.fromkeys(kind for cell in cells for kind in type(cell).__mro__):
        if kind in nn.Cell.__mro__ or kind.__module__.startswith(("mindspore.", "ms_convtanh.")):
            continue
        try:
            source = inspect.getsource(kind)
        except (OSError, TypeError):
            return {}, kind.__qualname__
        for statement in ast.parse(textwrap.dedent(source)).body[0].body:  # type: ignore[attr-defined]
            functions[getattr(statement, "name", "")].append(statement)
    finder = _Finder()
    todo, done = {"construct", "bprop"}, set[str]()
    while todo:
        for name in todo:
            for function in functions[name]:
                finder.visit(function)
        done |= todo
        todo = (finder.uses.keys() & functions.keys()) - done
    return finder.uses, ""


class _Finder(ast.NodeVisitor):
    """Collects the uses of attributes."""

    def __init__(self) -> None:
        self.uses: dict[str, set[Use]] = defaultdict(set)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.uses[node.attr].add(Use.OTHER)
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func
        if isinstance(called, ast.Attribute):
            self.uses[called.attr].add(Use.CALL)
            self.visit(called.value)
        elif isinstance(called, ast.Subscript) and isinstance(called.value, ast.Attribute):
            self.uses[called.value.attr].add(Use.ELEMENTS)
            self.visit(called.value.value)
            self.visit(called.slice)
        else:
            self.visit(called)
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            self.visit(argument)

    def visit_For(self, node: ast.For) -> None:
        if isinstance(node.iter, ast.Attribute) and isinstance(node.target, ast.Name):
            if _is_chain(node):
                self.uses[node.iter.attr].add(Use.CHAIN)
                return
            if _only_calls(node.body, node.target.id):
                self.uses[node.iter.attr].add(Use.ELEMENTS)
                self.visit(node.iter.value)
                for statement in [*node.body, *node.orelse]:
                    self.visit(statement)
                return
        self.generic_visit(node)


def _is_chain(loop: ast.For) -> bool:
    """Whether the loop is `for cell in cells: x = cell(x)`, or such a loop over each of them."""
    if len(loop.body) != 1 or loop.orelse or not isinstance(loop.target, ast.Name):
        return False
    (statement,), cell = loop.body, loop.target.id
    match statement:
        case ast.For(iter=ast.Name(id=inner)):
            return inner == cell and _is_chain(statement)
        case ast.Assign(
            targets=[ast.Name(id=result)],
            value=ast.Call(func=ast.Name(id=called), args=[ast.Name(id=argument)], keywords=[]),
        ):
            return called == cell and argument == result
    return False


def _only_calls(body: list[ast.stmt], name: str) -> bool:
    """Whether the statements do nothing with the named variable but call it."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    mentions = sum(isinstance(node, ast.Name) and node.id == name for node in nodes)
    calls = sum(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name for node in nodes
    )
    return mentions == calls
