"""Guards that use named guards -> guards that use none."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from contextlib import suppress

from loopkit.language.guard.grammar import parse
from loopkit.language.guard.tokens import GuardError, GuardProblem
from loopkit.language.guard.tree import Guard, at_place_of, end_of, names_in, rebuild
from loopkit.values import Value

MAX_DEPTH = 100
"""The maximum depth of nested parts in an expanded guard."""
MAX_PARTS = 2_000
"""The maximum number of operators, names and values in an expanded guard."""


class _Extent(Value, frozen=True):
    """The size of an expression after its named guards are expanded."""

    parts: int
    levels: int


_UNNAME = "write one of them without naming another"


def readable(texts: Mapping[str, str]) -> dict[str, Guard]:
    """The guards that can be parsed; the checks report what is wrong with the others."""
    named: dict[str, Guard] = {}
    for name, text in texts.items():
        with suppress(GuardError):
            named[name] = parse(text)
    return named


def expand(guard: Guard, named: Mapping[str, Guard]) -> Guard:
    """Return the guard with each name that `named` has replaced by what it stands for.

    What is put in takes the place of the name that it replaces, so that problems found in it are
    reported in this guard's text. Raises GuardError where named guards use each other in a circle,
    or make the guard larger than 2,000 operators, names and values or than 100 levels.
    """
    if guard.names.isdisjoint(named):
        return guard
    extent = _Measure(named).extent(guard.tree, (), 0)
    if extent.parts > MAX_PARTS:
        message = f"with its named guards the guard has more than {MAX_PARTS:,} parts"
        raise _error(guard.tree, message, "use fewer named guards in it")
    tree = _inline(guard.tree, named, None)
    return Guard(guard.text, tree, names_in(tree))


class _Measure:
    """Measures without building the expanded guard, which may be exponentially large."""

    def __init__(self, named: Mapping[str, Guard]) -> None:
        self._named = named
        self._known: dict[str, _Extent] = {}

    def extent(self, node: ast.expr, trail: tuple[ast.Name, ...], level: int) -> _Extent:
        """Return the extent of a node at `level`, inside the named guards of `trail`.

        What is refused is reported at the first name of the trail: it stands in the guard's text.
        """
        if level > MAX_DEPTH:
            raise _too_deep((*trail, node)[0])
        if isinstance(node, ast.Name) and node.id in self._named:
            return self._of_named(node, trail, level)
        inner = [self.extent(part, trail, level + 1) for part in _parts(node)]
        parts = 1 + sum(part.parts for part in inner)
        return _Extent(parts, 1 + max((part.levels for part in inner), default=0))

    def _of_named(self, node: ast.Name, trail: tuple[ast.Name, ...], level: int) -> _Extent:
        names = [name.id for name in trail]
        if node.id in names:
            circle = " -> ".join([*names[names.index(node.id) :], node.id])
            raise _error(trail[0], f"named guards use each other in a cycle: {circle}", _UNNAME)
        if node.id not in self._known:
            inner = self.extent(self._named[node.id].tree, (*trail, node), level + 1)
            # A name for a name makes no part, but it is a step on the way.
            self._known[node.id] = _Extent(inner.parts, inner.levels + 1)
        known = self._known[node.id]
        if level + known.levels > MAX_DEPTH:
            raise _too_deep((*trail, node)[0])
        return known


def _parts(node: ast.expr) -> list[ast.expr]:
    return [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]


def _inline(tree: ast.expr, named: Mapping[str, Guard], place: ast.expr | None) -> ast.expr:
    def stand_in(name: ast.Name) -> ast.expr:
        at = place or name
        if name.id in named:
            return _inline(named[name.id].tree, named, at)
        return at_place_of(at, ast.Name(name.id, ast.Load()))

    return rebuild(tree, stand_in, place)


def _too_deep(node: ast.expr) -> GuardError:
    return _error(node, f"the named guards are nested more than {MAX_DEPTH} deep", _UNNAME)


def _error(node: ast.expr, message: str, remedy: str) -> GuardError:
    length = max(1, end_of(node) - node.col_offset)
    return GuardError(GuardProblem(node.col_offset + 1, length, "named-guard", message, remedy))
