"""What is proven of inputs, held against every input, one by one."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any

import pytest

from loopkit.language.guard.evaluate import compile_guard
from loopkit.language.load import load_text
from loopkit.machine.edges import Edge
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.outcomes.analysis import Analysis
from tests.test_large_machines import HERE

FLAGS = "abcdefgh"
INPUTS: Mapping[str, Any] = {
    **dict.fromkeys(FLAGS, "bool"),
    "n": {"type": "int", "minimum": 0, "maximum": 4},
    "wide": {"type": "int", "minimum": 0, "maximum": 1000},
    "size": "small|large",
    "note": "optional str",
}
VALUES: Mapping[str, tuple[object, ...]] = {
    **dict.fromkeys(FLAGS, (True, False)),
    "n": (0, 1, 2, 3, 4),
    "wide": (0, 3, 4, 500, 1000),
    "size": ("small", "large"),
    "note": (None, "x", "y"),
}
"""Of each input at least one value for everything that a condition tells apart."""
CONDITIONS: Mapping[str, tuple[str, ...]] = {
    **{name: (f"input.{name}", f"input.{name}", f"not input.{name}") for name in FLAGS},
    "n": ("input.n > 3", "input.n < 3", "input.n == 0", "input.n != 2", "input.n > 9"),
    "wide": ("input.wide > 3", "input.wide >= 500", "input.n < input.wide"),
    "size": ('input.size == "small"', 'input.size != "large"', 'input.size in ["small", "large"]'),
    "note": ("input.note == none", 'input.note != none and input.note == "x"'),
}


def _condition(chance: random.Random, among: Sequence[str], depth: int = 2) -> str:
    if depth == 0 or chance.random() < 0.1:
        return chance.choice(among)
    parts = [_condition(chance, among, depth - 1) for _ in range(chance.randint(2, 4))]
    joined = f" {chance.choice(['and', 'or'])} ".join(f"({part})" for part in parts)
    return f"not ({joined})" if chance.random() < 0.2 else joined


def _made(number: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Three choices in a row that let agents work or not, and the guards by edge.

    Most guards read some inputs that nothing else reads, some of them under a name.
    """
    chance = random.Random(number)
    names = chance.sample([*INPUTS], 6)
    told = [[c for name in names[at::3] for c in CONDITIONS[name]] for at in range(3)]
    named = {f"named{at}": _condition(chance, told[at]) for at in range(3) if chance.random() < 0.5}
    states: dict[str, Any] = {"start": {"render": "A text.", "next": "s0"}}
    guards: dict[str, str] = {}
    for at in range(3):
        onward = f"s{at + 1}" if at < 2 else "done"
        among = [f"named{at}"] * 2 if f"named{at}" in named else told[at]
        among = [*among, *(chance.choice(told)[:1] if chance.random() < 0.3 else ())]
        among = [*among, *(named if chance.random() < 0.2 else ())]
        targets = chance.sample([f"w{at}", onward, "failed"], chance.choice([1, 1, 2]))
        edges: list[dict[str, Any]] = [
            {"guard": _condition(chance, among), "target": target} for target in targets
        ]
        if at and chance.random() < 0.4:
            back = {"revise": "w0", "max": chance.choice(["input.n", 2]), "feedback": "Again."}
            edges.insert(0, {"guard": _condition(chance, among, 1), **back})
        if chance.random() < 0.9:
            edges.append({"target": f"w{at}"})
        states[f"s{at}"] = {"transitions": edges}
        guards |= {f"s{at}[{i}]": edge["guard"] for i, edge in enumerate(edges) if "guard" in edge}
        author = {"agent": "writer", "prompt": "Write.", "on_error": {"content": "failed"}}
        states[f"w{at}"] = {**author, "next": onward}
    states |= {"done": {"final": "success"}, "failed": {"final": "failure"}}
    raw = {
        "loopkit": 1, "name": "m", "input": INPUTS, "guards": named, "states": states,
        "agents": {"writer": {"model": "a/writer"}},
    }  # fmt: skip
    return raw, guards


class Walks:
    """What runs take whose agents always bring something, input by input."""

    def __init__(self, number: int) -> None:
        raw, guards = _made(number)
        self.analysis = Analysis.of_machine(load_text(json.dumps(raw), "m.yaml", HERE).machine)
        whole = {edge: self.analysis.guards.whole(text) for edge, text in guards.items()}
        self._holds = {edge: compile_guard(guard) for edge, guard in whole.items() if guard}
        self._graph = self.analysis.graph
        self.taken: set[str] = set()
        read = {name for guard in whole.values() if guard for name in guard.names}
        read |= {str(cap) for cap in self._graph.caps.values()}
        names = [f"input.{name}" for name in VALUES if f"input.{name}" in read]
        every = product(*(VALUES[name.removeprefix("input.")] for name in names))
        inputs = [dict(zip(names, values, strict=True)) for values in every]
        self.found = [(given, *self._walked(given)) for given in inputs]

    def _walked(self, given: Mapping[str, object]) -> tuple[int, str]:
        """How often agents work with an input, and where it ends."""
        state, runs, spent = "start", 0, Counter[str]()
        while not self._graph.states[state].ends:
            runs += state.startswith("w")
            edge = next(
                (e for e in self._graph.on(state, "done") if self._is_open(e, spent, given)), None
            )
            if edge is None:
                break
            spent.update(edge.counters)
            self.taken.add(edge.id)
            state = edge.target
        return runs, state

    def _is_open(self, edge: Edge, spent: Counter[str], given: Mapping[str, Any]) -> bool:
        caps = ((counter, self._graph.caps[counter]) for counter in edge.counters)
        if any(spent[counter] >= given.get(str(cap), cap) for counter, cap in caps):
            return False
        return edge.id not in self._holds or self._holds[edge.id](given)

    def told(self, inputs: Mapping[str, object]) -> set[tuple[int, str]]:
        """What comes of some inputs that are told, whatever the others are."""
        step = len(self.found) // 40 + 1
        return {self._walked({**given, **inputs}) for given, _, _ in self.found[::step]}


@cache
def walks_of(number: int) -> Walks:
    """The walks through the machine that is made of this number."""
    return Walks(number)


@pytest.mark.parametrize("start", [0, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.parametrize("most_parts", [1, 2, 4])
def test_what_is_proven_of_inputs_that_are_left_undecided_is_never_too_little(
    most_parts: int, start: int
) -> None:
    inexact = 0
    for number in range(start, start + 20):
        walks = walks_of(number)
        bounds = explore(walks.analysis, measures=("runs",), most_parts=most_parts)
        worst, best = bounds.runs.worst, bounds.runs.best
        most = max(runs for _, runs, _ in walks.found)
        assert worst.total is not None
        assert worst.total >= most >= (worst.known or 0), number
        successes = [runs for _, runs, end in walks.found if end == "done"]
        if successes:
            assert best is not None, number
            assert best.total is not None, number
            assert best.total <= min(successes), number
        assert walks.taken.isdisjoint(bounds.untaken), number
        stuck = {end for _, _, end in walks.found if end.startswith("s")}
        assert stuck <= {one.state for one in bounds.stuck}, number
        inexact += worst.known != most
    assert inexact > 0


@pytest.mark.parametrize(
    "start", [0, *(pytest.param(start, marks=pytest.mark.long) for start in (20, 40, 60))]
)
def test_what_is_proven_of_inputs_holds_of_each_of_them(start: int) -> None:
    for number in range(start, start + 20):
        walks = walks_of(number)
        bounds = explore(walks.analysis, measures=("runs",), most_parts=5_000)
        worst, best = bounds.runs.worst, bounds.runs.best
        assert worst.total == worst.known == max(runs for _, runs, _ in walks.found), number
        assert {runs for runs, _ in walks.told(worst.inputs)} == {worst.total}, number
        successes = [runs for _, runs, end in walks.found if end == "done"]
        assert (best.total if best else None) == min(successes, default=None), number
        if best:
            assert walks.told(best.inputs) == {(best.total, "done")}, number
        edges = {
            e.id
            for e in walks.analysis.graph.edges
            if e.source.startswith("s") and e.event == "done"
        }
        assert edges - walks.taken == edges & {*bounds.untaken}, number
        stuck = {end for _, _, end in walks.found if end.startswith("s")}
        assert {one.state for one in bounds.stuck} == stuck, number
        for one in bounds.stuck:
            assert {end for _, end in walks.told(one.inputs)} == {one.state}, number
