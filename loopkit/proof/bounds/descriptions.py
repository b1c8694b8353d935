"""Descriptions of paths through configurations: states, facts, inputs and counters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from loopkit.proof.bounds.agent_calls import Asked
from loopkit.proof.bounds.configurations import Configuration, Dead, Present
from loopkit.proof.bounds.contexts import number
from loopkit.proof.bounds.extremes import Aim, Number, Path, weight_of
from loopkit.proof.bounds.moves import Case, Move
from loopkit.proof.bounds.plans import Plans
from loopkit.proof.bounds.regions import Region
from loopkit.proof.bounds.result import Extreme, Stuck, Taken
from loopkit.proof.outcomes import Row


class Descriptions:
    """Describes configurations of one machine and paths through them."""

    def __init__(self, plans: Plans, found: list[Configuration], present: Present | None) -> None:
        self._plans = plans
        self._variables = plans.variables
        self._found = found
        self._before = present.values if present else {}

    def extreme(self, total: Number, path: Path, aim: Aim) -> Extreme:
        """What a path takes, with the total that no path exceeds or undercuts."""
        by_state: dict[str, float] = defaultdict(int)
        by_agent: dict[str, float] = defaultdict(int)
        way: list[Taken] = []
        known: float = 0
        for index, move in path.steps:
            name = self._found[index][0]
            case, asked = aim.case(move)
            way.append(_describe_step(name, move, case, asked))
            for work in asked:
                weight = weight_of((work,), aim.measure, is_worst=aim.is_worst)
                by_state[name] += weight
                by_agent[work.agent] += weight
                known += weight
        is_sure = all(aim.case(move)[0].is_sure for _, move in path.steps)
        inputs = self._inputs(path)
        taken = tuple(way)
        return Extreme(
            total, (known if known != total else total) if is_sure else None,
            dict(by_state), dict(by_agent), taken, inputs,
        )  # fmt: skip

    def stuck(self, dead: Dead, path: Path) -> Stuck:
        """A configuration in which no transition is enabled, and the path to it."""
        steps = ((self._found[index][0], move) for index, move in path.steps)
        way = tuple(_describe_step(name, m, m.least, m.least.spread.least) for name, m in steps)
        name = self._found[dead.at][0]
        return Stuck(
            name, dead.row, self._counters(name, path), self._inputs(path), way, dead.is_sure
        )

    def _counters(self, name: str, path: Path) -> Mapping[str, int]:
        """How much a path has spent of the counters that a state reads."""
        counted = ((v, n) for v, n in self._before.items() if v.kind == "counter")
        spent = Counter({variable.name: number(spent) for variable, spent in counted})
        for _, move in path.steps:
            edge = move.edge
            for counter in edge.resets if edge else ():
                spent[counter] = 0
            spent.update(edge.counters if edge else ())
        edges = self._variables.graph.outgoing[name]
        return {c: spent[c] for edge in edges for c in edge.counters}

    def _inputs(self, path: Path) -> Row:
        """The inputs that a path depends on, each with a value that leads along it."""
        narrowest: dict[str, Region] = {}
        spent: Counter[str] = Counter()
        for index, move in (*path.steps, (path.end, None)):
            for variable, region in self._plans.values(*self._found[index]).items():
                if not isinstance(region, Region):
                    continue
                if variable.kind == "input":
                    narrowest[variable.name] = region
                else:
                    cap, more = (
                        str(self._variables.inputs.caps[variable.name]),
                        spent[variable.name],
                    )
                    narrowest[cap] = Region(region.low + more, region.high + more)
            if move is not None and move.edge is not None:
                spent.update(move.edge.counters)
        whole, truths = self._variables.inputs.region, self._variables.analysis.parts.truths
        values: dict[str, object] = {}
        for name, region in narrowest.items():
            if region != whole(name):
                value = region.stand_in
                values |= truths[name][value is True] if name in truths else {name: value}
        return values


def _describe_step(name: str, move: Move, case: Case, asked: Asked) -> Taken:
    edge = move.edge.id if move.edge else None
    return Taken(name, move.event, edge, case.row, asked, move.is_spared)
