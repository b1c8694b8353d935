"""Data flow: what surely, and what possibly, exists when a state is entered or an edge taken.

A forward data-flow analysis over all edges, back edges included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import product

from loopkit.language.datatypes.datatype import DataType
from loopkit.language.facts import ERRORS, VERDICT, WARNINGS, of_verdict
from loopkit.language.guard.evaluate import truth
from loopkit.language.template.sandbox import Record
from loopkit.machine.cycles import Step, on_every_path, on_some_path
from loopkit.machine.edges import Edge
from loopkit.machine.graph import Graph, artifact_of
from loopkit.values import Value

Token = tuple[str, str]
"""("artifact", plan), ("fields", plan), ("facts", draft), ("report", validate)."""
ANY_REPORT: Token = ("report", "")
FAULTY: Mapping[str, object] = {VERDICT: "fail", **of_verdict("fail"), ERRORS: 1, WARNINGS: 0}
"""The facts of the report on an answer that is empty, cut, unreadable or breaks its schema."""


class Tokens(Value, frozen=True):
    """Some of the tokens of a machine, as the bits of a whole number."""

    bits: int
    numbers: Mapping[Token, int]

    def __contains__(self, token: object) -> bool:
        number = self.numbers.get(token) if isinstance(token, tuple) else None
        return number is not None and bool(self.bits >> number & 1)

    def __iter__(self) -> Iterator[Token]:
        # A token has the place among them that its number says.
        bits = reversed(f"{self.bits:b}")
        return (token for token, bit in zip(self.numbers, bits, strict=False) if bit == "1")

    def __len__(self) -> int:
        return self.bits.bit_count()


class Made(Value, frozen=True):
    surely: Tokens
    possibly: Tokens


class Flow:
    """The analysis of one graph, without edges to unknown states: the checks report those."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._gained: dict[tuple[str, str, str | None], frozenset[Token]] = {}
        self._numbers: dict[Token, int] = {}
        self._brought: dict[str, int] = {}
        """For each edge from a person to an origin, what existed when the finding was made."""
        self._surely_at: dict[str, int] = {}
        self._first = self._bits(product(("artifact", "fields"), graph.machine.artifacts))

    @cached_property
    def entering(self) -> dict[str, Made]:
        made, self._surely_at, self._brought = self._analyse(self._graph.edges)
        return made

    @cached_property
    def entering_as_done(self) -> dict[str, Made]:
        """What exists when each state is entered, if no error and no limit occurs before."""
        return self._analyse(edge for edge in self._graph.edges if edge.event == "done")[0]

    def _analyse(
        self, edges: Iterable[Edge]
    ) -> tuple[dict[str, Made], dict[str, int], dict[str, int]]:
        states = self._graph.states
        nodes = self._graph.nodes_last_first
        known = [edge for edge in edges if edge.target in states]
        surely, brought = self._surely(known)
        possibly = on_some_path(nodes, (step for edge in known for step in self._steps(edge)))
        return {s: self._entering(s, surely, possibly) for s in states}, surely, brought

    def _entering(self, state: str, surely: Mapping[str, int], possibly: Mapping[str, int]) -> Made:
        every, some = (1 << len(self._numbers)) - 1, self._first
        for node in self._graph.junctions.nodes_of(state):
            every &= surely[node]
            some |= possibly[node]
        return self._exists(every, some)

    def _surely(self, edges: Iterable[Edge]) -> tuple[dict[str, int], dict[str, int]]:
        """What exists at each state on every path, and what existed for each edge to an origin.

        A person goes back to an origin only if a validate state found something that the origin
        made. What existed then exists now; finding out what that is takes a few rounds.
        """
        order = self._graph.nodes_last_first[::-1]
        start = self._graph.machine.start
        routed = [edge for edge in edges if edge.origin and not self._judges(edge.source)]
        others = (edge for edge in edges if edge not in routed)
        plain = [step for edge in others for step in self._steps(edge)]
        surely = on_every_path(order, start, plain, self._first)
        brought = dict[str, int]()
        while routed:
            found = {edge.id: self._surely_where_found(edge.origin, surely) for edge in routed}
            if found == brought:
                break
            brought = found
            led = [step for edge in routed for step in self._steps(edge, brought[edge.id])]
            surely = on_every_path(order, start, [*plain, *led], self._first)
        return surely, brought

    def _judges(self, state: str) -> bool:
        return self._graph.states[state].judges is not None

    def _surely_where_found(self, origin: str | None, surely: Mapping[str, int]) -> int:
        found = ~0
        for name in self._graph.judges:
            if origin in self._graph.origins.of_state(name):
                step = self._step(Edge(f"{name}.done", name, name, "done", ()))
                found &= (surely[name] & ~step.lost) | step.gained
        # Only these never cease to exist.
        return found & self._bits(t for t in self._numbers if t[0] in ("artifact", "report"))

    def _step(self, edge: Edge, brought: int = 0) -> Step:
        gained = self._bits(self.gains(edge)) | brought
        return Step(edge.source, edge.target, self._bits(self._losses(edge)), gained)

    def _steps(self, edge: Edge, brought: int = 0) -> Iterator[Step]:
        junctions = self._graph.junctions
        step = self._step(edge, brought)
        for node in self._sources(edge):
            yield Step(node, junctions.to(edge), step.lost, step.gained)

    def _sources(self, edge: Edge) -> Iterator[str]:
        """The nodes from which an edge may be taken; to an origin, only those that can find it."""
        junctions = self._graph.junctions
        for node in junctions.sources.get(edge.id, (edge.source,)):
            before = junctions.before.get(node)
            found: tuple[str | None, ...] = (edge.origin,)
            if before and before.is_done and self._judges(before.source):
                found = (None, *self._graph.origins.of_state(before.source))
            if edge.origin in found:
                yield node

    def brings(self, edge: Edge, token: Token) -> bool:
        """Whether something surely exists because an edge is taken."""
        step = self._step(edge, self._brought.get(edge.id, 0))
        return token in Tokens(step.gained, self._numbers)

    def taking(self, edge: Edge) -> Made:
        before = self.entering[edge.source]
        step = self._step(edge, self._brought.get(edge.id, 0))
        surely = before.surely.bits
        if edge.id in self._graph.junctions.sources:
            surely = (1 << len(self._numbers)) - 1
            for node in self._sources(edge):
                surely &= self._surely_at[node]
        return self._exists((surely & ~step.lost) | step.gained, before.possibly.bits | step.gained)

    def completing(self, state: str) -> Made:
        """What exists when a state's work is done and its guards are evaluated."""
        return self.taking(Edge(f"{state}.done", state, state, "done", ()))

    def _exists(self, surely: int, possibly: int) -> Made:
        return Made(Tokens(surely, self._numbers), Tokens(possibly, self._numbers))

    def _bits(self, tokens: Iterable[Token]) -> int:
        bits = 0
        for token in sorted(tokens):
            bits |= 1 << self._numbers.setdefault(token, len(self._numbers))
        return bits

    def gains(self, edge: Edge) -> frozenset[Token]:
        """The tokens that come into being by the work before an edge."""
        # The target makes no difference; the guard does.
        key = (edge.source, edge.event, edge.guard)
        if key not in self._gained:
            self._gained[key] = self._gains(edge)
        return self._gained[key]

    def _gains(self, edge: Edge) -> frozenset[Token]:
        name = edge.source
        state = self._graph.states[edge.source]
        if edge.event == "content" and state.may_leave_none:
            return frozenset({("artifact", self._artifact(name))})
        if edge.event != "done":
            return frozenset()
        gained: set[Token] = {("facts", name)} if state.facts else set()
        if state.output_at(name) is not None:
            whole = set() if self._may_be_faulty(name) else self._whole(name)
            gained |= {("artifact", self._artifact(name)), *whole}
        if state.judges is not None:
            gained |= {("report", name), ANY_REPORT}
            guard = self._graph.guards.get(edge.id)
            # A guard that can't be parsed promises nothing.
            if guard is not None and truth(guard.tree, FAULTY) is False:
                authors = self._graph.artifacts.get(state.judges, ())
                gained |= {("fields", state.judges)}
                gained |= {("facts", authors[0])} if len(authors) == 1 else set()
        return frozenset(gained)

    def _losses(self, edge: Edge) -> frozenset[Token]:
        name = edge.source
        state = self._graph.states[edge.source]
        faulty = state.may_leave_none and (
            edge.event == "content" or (edge.event == "done" and self._may_be_faulty(name))
        )
        if faulty:
            return frozenset(self._whole(name))
        if state.edits is not None and edge.event == "done":
            return frozenset({("fields", state.edits)})
        return frozenset()

    def _may_be_faulty(self, name: str) -> bool:
        """Whether an author goes on with a content fault, for the judging state to find."""
        return self._graph.states[name].may_leave_none and not self._graph.on(name, "content")

    def _whole(self, name: str) -> set[Token]:
        return {("fields", self._artifact(name)), ("facts", name)}

    def _artifact(self, name: str) -> str:
        return artifact_of(self._graph.machine, name) or name


def readable(value: object, datatype: DataType | None) -> object:
    """Data of a type for templates: an optional field that is missing reads as none."""
    if isinstance(value, Mapping) and datatype is not None and datatype.fields is not None:
        known = {name: readable(inner, datatype.field(name)) for name, inner in value.items()}
        optional = {name for name, inner in datatype.fields.items() if not inner.required}
        return Record(known, optional - known.keys())
    if isinstance(value, list) and datatype is not None and datatype.items is not None:
        return [readable(item, datatype.items) for item in value]
    return value
