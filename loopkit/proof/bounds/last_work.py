"""The last work of a state that may be kept: its facts, under the names that other states use."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection

from loopkit.language.guard import Guard
from loopkit.language.guard.tree import at_place_of, names_in, rebuild
from loopkit.machine.graph import Graph
from loopkit.machine.guard_names import own_names


def facts_of_last_work(graph: Graph, name: str, read: Collection[str]) -> list[str]:
    """The facts of a state among the names that its own guards read."""
    named = sorted(map(_name_elsewhere(graph, name), read))
    return [fact for fact in named if fact.startswith(f"{name}.")]


def of_last_work(graph: Graph, name: str, guard: Guard) -> Guard:
    """A guard of a state that reads the facts of its last work instead of those of the new work."""
    elsewhere = _name_elsewhere(graph, name)
    tree = rebuild(
        guard.tree, lambda node: at_place_of(node, ast.Name(elsewhere(node.id), ast.Load()))
    )
    return Guard(guard.text, tree, names_in(tree))


def _name_elsewhere(graph: Graph, name: str) -> Callable[[str], str]:
    own = own_names(graph, name)
    return lambda fact: f"{name}.{fact}" if fact in own else fact
