"""The picture: a machine without counters, where each may have room or none at any time.

The picture is small and contains every run. So what never happens in it happens in no run; where
it is stuck, a run may be stuck or may never come there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from loopkit.proof.bounds.configurations import Dead, Explored, Explorer, Present, TooMany
from loopkit.proof.bounds.descriptions import Descriptions
from loopkit.proof.bounds.exact import predecessors
from loopkit.proof.bounds.extremes import Path, path_to
from loopkit.proof.bounds.moves import Move, Moves
from loopkit.proof.bounds.plans import Plans
from loopkit.proof.bounds.result import Stuck
from loopkit.proof.bounds.variables import Variables

MOST_AT_ONCE = 1_000
"""The most configurations that are followed at once along a path of the picture."""


class Picture:
    """What is known of a machine with too many configurations to explore them all."""

    def __init__(
        self, explorer: Explorer, inputs: Mapping[str, object], present: Present | None, most: int
    ) -> None:
        """`explorer` has reached its limit; `most` configurations may be explored here."""
        self._explorer = explorer
        self._concrete = explorer.plans.variables
        self._graph = self._concrete.graph
        self._inputs = inputs
        self._present = present
        self._left = most
        self.explored = self._without_all_but(())
        """None if even the picture has too many configurations."""

    def plans(self) -> Iterator[Sequence[Move]]:
        """All moves that runs can take, and maybe more."""
        if self.explored is not None:
            yield from self.explored.every_plan()
            return
        for name in self._graph.states:
            yield self._explorer.plans.moves.anything(name)

    def untaken(self) -> tuple[str, ...]:
        """Edges that surely no run takes."""
        if self.explored is None:
            return ()
        every = (move for moves in self.explored.every_plan() for move in moves)
        taken = {move.edge.id for move in every if move.edge is not None}
        return tuple(edge.id for edge in self._graph.edges if edge.id not in taken)

    # -- stuck -----------------------------------------------------------------------------

    def stuck(self) -> Iterator[Stuck]:
        """The states in which a run is stuck, with the path there, or may be stuck."""
        seen = self._explorer.so_far
        before = predecessors(seen) if seen.dead else {}
        for name in self._graph.states:
            if (name, True) in seen.dead:
                dead = seen.dead[name, True]
                descriptions = Descriptions(self._explorer.plans, seen.found, self._present)
                yield descriptions.stuck(dead, path_to(dead.at, before))
            elif self.explored is not None and (found := self._dead(self.explored, name)):
                yield from self._decide(name, found)

    def _decide(self, name: str, found: Dead) -> Iterator[Stuck]:
        """Decide whether a state stuck in the picture is stuck with its counters tracked."""
        edges = self._graph.outgoing[name]
        finer = self._without_all_but({c for edge in edges for c in edge.counters})
        dead = self._dead(finer, name) if finer is not None else found
        if dead is None:
            return
        if finer is not None:
            path = path_to(dead.at, predecessors(finer))
            if (witness := self._follow(path)) is not None:
                yield witness
                return
        yield Stuck(name, dead.row, {}, {}, (), dead.is_sure, is_reached=False)

    def _dead(self, explored: Explored, name: str) -> Dead | None:
        return explored.dead.get((name, True)) or explored.dead.get((name, False))

    def _without_all_but(self, counted: Collection[str]) -> Explored | None:
        """The graph of configurations in which only some counters are tracked."""
        variables = Variables(self._concrete.analysis, self._inputs, counted)
        plans = Plans(Moves(variables, self._explorer.plans.moves.asking))
        explorer = Explorer(plans, self._left, self._present)
        try:
            explored = explorer.explore_all()
        except TooMany:
            return None
        finally:
            self._left -= len(explorer.so_far.found)
        return explored

    # -- from the picture to a run ---------------------------------------------------------

    def _follow(self, path: Path) -> Stuck | None:
        """Look for a run that takes the same edges and is stuck at the end."""
        explorer = Explorer(self._explorer.plans, MOST_AT_ONCE * (len(path.steps) + 1) * 10)
        front = explorer.starts()
        before: list[Mapping[int, tuple[int, Move]]] = []
        for _, wanted in path.steps:
            found: dict[int, tuple[int, Move]] = {}
            for at in front[:MOST_AT_ONCE]:
                for move, target in explorer.arcs(at):
                    if (move.event, move.edge) == (wanted.event, wanted.edge):
                        found.setdefault(target, (at, move))
            front = list(found)
            before.append(found)
        for at in front:
            ways = explorer.plan(at).ways
            if ways.stuck is not None and ways.is_surely_stuck:
                steps = tuple(_back(at, before))
                descriptions = Descriptions(explorer.plans, explorer.so_far.found, self._present)
                return descriptions.stuck(Dead(at, ways.stuck, is_sure=True), Path(steps, at))
        return None


def _back(at: int, before: Sequence[Mapping[int, tuple[int, Move]]]) -> Sequence[tuple[int, Move]]:
    steps: list[tuple[int, Move]] = []
    for found in reversed(before):
        at, move = found[at]
        steps.append((at, move))
    return steps[::-1]
