"""Scopes: the names that templates and guards may use at each point of a machine.

Templates know the shapes of values, guards their types; `engine.template_values` gives the same
names their values at run time.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from itertools import chain
from typing import TypeVar, cast

from loopkit.language.datatypes.datatype import DataType, single_values
from loopkit.language.datatypes.notation import parse_fields, parse_record
from loopkit.language.facts import (
    CAME_FROM,
    CODES,
    COUNTING,
    NUMBER,
    OF_REPORTS,
    OF_REVISING,
    ORIGIN,
    PRINTED_FACTS,
    SCORE,
    SEVERITY,
    VERDICT,
)
from loopkit.language.guard.grammar import expand
from loopkit.language.guard.grammar import parse as parse_guard
from loopkit.language.guard.type_check import GuardType, Kind
from loopkit.language.machine import Machine
from loopkit.language.states import State
from loopkit.language.states.kinds import FirstText, MadeData
from loopkit.language.states.state import Extract, ExtractAll
from loopkit.language.template.grammar import Anything, Fields, Items, Scalar, Shape, absent, either
from loopkit.language.template.rendering import parse
from loopkit.language.template.sandbox import Record
from loopkit.language.validators import Rule
from loopkit.machine.edges import Edge
from loopkit.machine.flow import ANY_REPORT, Flow, Made, readable
from loopkit.machine.graph import Graph, artifact_of, codes_at
from loopkit.machine.item_list import items_at
from loopkit.text.json_text import text_or_json
from loopkit.values import Value, field

FINDING: Mapping[str, Shape] = {
    **dict.fromkeys(
        ("id", "message", "severity", "code", "validator", "rule", "key", "location", "line",
         "status", "defaulted"),
        Scalar(),
    ),
    **dict.fromkeys(("reviewers", "origins"), Items(Scalar())),
}  # fmt: skip
REPORT: Mapping[str, Shape] = {
    **dict.fromkeys(
        ("state", "artifact", "author", "attempt", "attempts", "version", "previous", "phase",
         "fallback", SCORE, "reason", ORIGIN,
         *PRINTED_FACTS),
        Scalar(),
    ),
    "answers": Items(Fields(dict.fromkeys(("validator", VERDICT, "reason"), Scalar()))),
}  # fmt: skip
HISTORY: Mapping[str, Shape] = {
    **dict.fromkeys(("attempt", "version", VERDICT), Scalar()),
    "artifact": Anything(),
}
DEFECT = Fields(
    {
        **dict.fromkeys(
            ("id", "artifact", "code", "key", "severity", "blocking", "message", "defaulted",
             "detected", "reports", "cost_usd", "seconds", "status"),
            Scalar(),
        ),
        **dict.fromkeys(("found_by", "injected", "missed"), Items(Scalar())),
        "attempts": Fields(others=absent(Scalar())),
    }
)  # fmt: skip
BESIDE: Mapping[str, Shape] = {"files": Items(Scalar())}
"""The parts of an artifact beside its fields that are not single values."""
FOUND = ("findings", "warnings", "resolved", "regressed")
EVERYWHERE: Mapping[str, Shape] = {
    **dict.fromkeys(("feedback", "schema", "attempt", "revision", "max_revisions"), Scalar()),
    "previous": Anything(),
    "used_up": Items(Scalar()),
    "telemetry": Fields(
        {**dict.fromkeys(("calls", "cost_usd", "seconds"), Scalar()), "defects": Items(DEFECT)}
    ),
}
EVERYWHERE_NAMES = (*FOUND, *EVERYWHERE, "history")


class Scope:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.flow = Flow(graph)
        self.guards = GuardNames(graph, self.flow)
        self._shapes_of: dict[tuple[str, bool], Shape] = {}

    def entering(self, state: str) -> Mapping[str, Shape]:
        """What templates see when a state starts its work: prompts, questions, paths."""
        working = self.graph.states[state]
        names = self._shapes(self.flow.entering[state], self.always_empty(state))
        return with_items(working.item_lists, names, numbered=isinstance(working, MadeData))

    def judging(self, state: str) -> Mapping[str, Shape]:
        """What rules and judges see at a validate state, where they never judge a faulty artifact.

        At a state in which an agent writes, what rules see for its drafts.
        """
        names, machine = self.entering(state), self.graph.machine
        judged = machine.states[state].judges or artifact_of(machine, state)
        if judged is None:
            return names
        shape = self._artifact_shape(judged, whole=True)
        return over({judged: shape, "artifact": shape}, names)

    def taking(self, edge: Edge) -> Mapping[str, Shape]:
        """What the feedback template of an edge sees."""
        empty = self.always_empty(edge.source, edge)
        shapes = self._shapes(self.flow.taking(edge), empty)
        form = _form_shapes(self.graph.states[edge.source])
        if form is None:
            return shapes
        return over({"choice": Scalar(), "comment": Scalar()} | form, shapes)

    def always_empty(self, state: str, edge: Edge | None = None) -> Mapping[str, str]:
        """The names without a value whenever a state is entered, or an edge taken; with reasons."""
        graph = self.graph
        made = self.flow.taking(edge) if edge else self.flow.entering[state]
        working = graph.states[state]
        written = graph.written.get(state)
        version = ("artifact", written) if working.judges is None else ("report", state)
        empty: dict[str, str] = {}
        if version not in made.possibly:
            empty["previous"] = "it is a version before the one that this state writes or judges"
        # Authors may ask for feedback that no edge of theirs sends yet; it is empty then.
        if not written:
            empty["feedback"] = "only a state that writes an artifact is sent feedback"
        if edge is None and not any(way.back for way in graph.incoming[state]):
            why = "no revise edge leads to this state"
            empty |= {"revision": why, "max_revisions": why}
        if not working.asks:
            empty["schema"] = "only a state that asks an agent has one"
        if ANY_REPORT not in made.possibly:
            why = "nothing has been judged on any path to here"
            empty |= dict.fromkeys((*FOUND, "history"), why)
        return empty

    def _shapes(self, made: Made, empty: Container[str]) -> Known[Shape]:
        def names() -> Iterator[str]:
            yield from (name for name in (*EVERYWHERE_NAMES, "input") if name not in empty)
            if ANY_REPORT in made.possibly:
                yield from ("report", "reports")
            yield from (name for kind, name in made.possibly if kind == "artifact")
            left = sorted(name for kind, name in made.possibly if kind == "facts")
            yield from (name for name in left if self._answer_shape(name) is not None)

        return Known(names, lambda name: None if name in empty else self._shape(made, name))

    def _shape(self, made: Made, name: str) -> Shape | None:
        """What a template sees under a name; None for an unknown name."""
        if ("artifact", name) in made.possibly:
            shape = self._artifact_shape(name, whole=("fields", name) in made.surely)
            return shape if ("artifact", name) in made.surely else absent(shape)
        if name in ("report", "reports") and ANY_REPORT in made.possibly:
            report = self._report_shape if ANY_REPORT in made.surely else absent(self._report_shape)
            return report if name == "report" else Fields(_reports(made, self._report_shape))
        if name == "input":
            return self._input_shape
        if name in EVERYWHERE_NAMES:
            return self._everywhere[name]
        answer = self._answer_shape(name) if ("facts", name) in made.possibly else None
        return answer if answer is None or ("facts", name) in made.surely else absent(answer)

    @cached_property
    def _everywhere(self) -> Mapping[str, Shape]:
        history = Items(Fields({**HISTORY, "findings": self._findings_shape}))
        return {**EVERYWHERE, **dict.fromkeys(FOUND, self._findings_shape), "history": history}

    @cached_property
    def _report_shape(self) -> Shape:
        return Fields({**REPORT, "findings": self._findings_shape})

    @cached_property
    def _findings_shape(self) -> Shape:
        items = report_items(self.graph)
        if items is None:
            return Items(Fields(FINDING))
        fields = {n: _of_item(t) for n, t in items.fields.items()}
        others = absent(Anything()) if items.is_open else None
        return Items(Fields({**FINDING, "item": Fields(fields, others=others)}))

    def _answer_shape(self, name: str) -> Shape | None:
        state = self.graph.states.get(name)
        if state is None or not state.said:
            return None
        return Fields(dict.fromkeys(state.said, Scalar()) | (_form_shapes(state) or {}))

    def _artifact_shape(self, name: str, *, whole: bool) -> Shape:
        if (name, whole) not in self._shapes_of:
            authors = self.graph.artifacts.get(name, ())
            shapes = [self._shape_from_author(author, whole=whole) for author in authors]
            if name in self.graph.machine.artifacts:
                shapes.append(self._shape_at_first(name, whole=whole))
            self._shapes_of[name, whole] = reduce(_merge, shapes) if shapes else Scalar()
        return self._shapes_of[name, whole]

    def _shape_from_author(self, author: str, *, whole: bool) -> Shape:
        state = self.graph.states[author]
        answer = self.graph.machine.data_type(author) or state.leaves
        if answer is not None:
            return _with_absent_fields(shape_of(answer), whole=whole)
        output = state.output_at(author)
        fields = _shapes_extracted(output.fields if output is not None else {})
        if output is not None and output.name == author:
            fields |= dict.fromkeys(state.said, Scalar())
        beside = (*state.beside, *(output.beside if output is not None else ()))
        fields |= {name: BESIDE.get(name, Scalar()) for name in beside if name not in fields}
        return _with_absent_fields(Fields(fields), whole=whole) if fields else Scalar()

    def _shape_at_first(self, name: str, *, whole: bool) -> Shape:
        first = self.graph.machine.first_values[name]
        if (known := first.type_with(self.input)) is not None:
            return shape_of(known)
        fields = _shapes_extracted(first.fields) if isinstance(first, FirstText) else {}
        return _with_absent_fields(Fields(fields), whole=whole) if fields else Scalar()

    @cached_property
    def input(self) -> DataType:
        return parse_record(self.graph.machine.input)

    @cached_property
    def _input_shape(self) -> Shape:
        return shape_of(self.input)


def _shapes_extracted(fields: Mapping[str, Extract]) -> dict[str, Shape]:
    return {
        n: Items(Scalar()) if isinstance(e, ExtractAll) else Scalar() for n, e in fields.items()
    }


def _of_item(datatype: DataType | None) -> Shape:
    shape = Anything() if datatype is None else shape_of(datatype)
    return Scalar() if isinstance(shape, Scalar) else absent(shape)


def _reports(made: Made, report: Shape) -> Known[Shape]:
    def find(state: str) -> Shape | None:
        if not state or ("report", state) not in made.possibly:
            return None
        return report if ("report", state) in made.surely else absent(report)

    return Known(lambda: sorted(n for kind, n in made.possibly if kind == "report" and n), find)


def shape_of(datatype: DataType) -> Shape:
    """What a template may read of data of a type."""
    if datatype.fields is not None:
        fields = {name: shape_of(inner) for name, inner in datatype.fields.items()}
        others = None if datatype.others is None else absent(shape_of(datatype.others))
        return Fields(fields, optional=datatype.optional, others=others)
    if datatype.items is not None:
        return Items(shape_of(datatype.items), optional=datatype.optional)
    # A scalar that is none prints as nothing, so templates need not test for it.
    return Scalar() if datatype.scalar else Anything()


def _form_shapes(state: State) -> dict[str, Shape] | None:
    if state.asked_form is None:
        return None
    return {n: shape_of(t) for n, t in (parse_record(state.asked_form).fields or {}).items()}


def _with_absent_fields(shape: Shape, *, whole: bool) -> Shape:
    """`shape` with fields that may be absent, unless the artifact is `whole`."""
    if whole or not isinstance(shape, Fields):
        return shape
    fields = {name: absent(inner) for name, inner in shape.fields.items()}
    return shape.replace(fields=fields, optional=False)


def _merge(first: Shape, second: Shape) -> Shape:
    """The shape of an artifact of either author: a field of only one of them may be absent."""
    if not isinstance(first, Fields) and not isinstance(second, Fields):
        return either(first, second)
    left = first.fields if isinstance(first, Fields) else {}
    right = second.fields if isinstance(second, Fields) else {}
    fields = {name: absent(shape) for name, shape in {**left, **right}.items()}
    return Fields(fields | {n: either(left[n], right[n]) for n in left if n in right})


class GuardNames:
    def __init__(self, graph: Graph, flow: Flow) -> None:
        self._graph = graph
        self._flow = flow

    def at(self, state: str) -> Mapping[str, GuardType]:
        """What the guards of a state's transitions may name."""
        own = own_names(self._graph, state)
        made = self._flow.completing(state).surely
        few = {**self.common, **self._revisions(state), **self._before(state)}

        def names() -> Iterator[str]:
            yield from few
            for kind, other in sorted(made):
                if kind == "report" and other:
                    yield f"reports.{other}.{VERDICT}"
                if kind == "facts":
                    yield from self._dotted.get(other, ())

        def find(name: str) -> GuardType | None:
            head, _, field = name.partition(".")
            judge = field.removesuffix(f".{VERDICT}") if head == "reports" else field
            if judge != field and ("report", judge) in made:
                return OF_REPORTS[VERDICT]
            if ("facts", head) in made and name in self._dotted.get(head, ()):
                return self._dotted[head][name]
            return few.get(name)

        return over(own, Known(names, find))

    @cached_property
    def _dotted(self) -> dict[str, dict[str, GuardType]]:
        return {
            state: {f"{state}.{name}": t for name, t in own_names(self._graph, state).items()}
            for state in self._graph.states
        }

    @cached_property
    def common(self) -> Mapping[str, GuardType]:
        """What every guard may name: `attempt` and the scalars of the input."""
        given = parse_record(self._graph.machine.input)
        return {"attempt": NUMBER, **_guard_types(given, "input.")}

    def _before(self, state: str) -> dict[str, GuardType]:
        sources = dict.fromkeys(edge.source for edge in self._graph.incoming[state])
        if not (self._graph.states[state].knows_before and sources):
            return {}
        is_first = state == self._graph.machine.start
        return {CAME_FROM: GuardType("str", values=tuple(sources), optional=is_first)}

    def _revisions(self, state: str) -> dict[str, GuardType]:
        edges = self._graph.revise_edges[state]
        known = OF_REVISING if len(edges) == 1 else OF_REVISING.keys() - COUNTING.keys()
        return {name: OF_REVISING[name] for name in known} if edges else {}


def own_names(graph: Graph, name: str) -> dict[str, GuardType]:
    """The facts that a state's own work leaves for guards."""
    state = graph.states[name]
    data = graph.machine.data_type(name)
    facts = {**state.facts, **(_guard_types(data) if data is not None else {})}
    if state.judges is None:
        return facts
    facts[SEVERITY] = GuardType("str", values=graph.machine.severity_words)
    facts[CODES] = OF_REPORTS[CODES]
    if (codes := codes_at(graph, name)) is not None:
        facts[CODES] = GuardType("texts", values=tuple(sorted(codes)), closed=True)
    rules = graph.rules_at(name)
    if ranges := [rule.score_range for rule in rules if rule.score_range is not None]:
        # It is none where no judge with a score has answered.
        low = min(least for least, _ in ranges)
        high = max(most for _, most in ranges)
        facts[SCORE] = GuardType("num", optional=True, minimum=low, maximum=high)
    if graph.origins:
        # It is none where the report does not fail.
        facts[ORIGIN] = GuardType("str", optional=True, values=graph.origins.of_state(name))
    return facts


def _guard_types(datatype: DataType, prefix: str = "") -> dict[str, GuardType]:
    return {
        name: GuardType(
            cast("Kind", known.scalar),
            values=known.values,
            optional=known.optional,
            bounded=known.bounded,
            minimum=known.minimum,
            maximum=known.maximum,
        )
        for name, known in single_values(datatype, prefix)
    }


Thing = TypeVar("Thing")


class Known(Mapping[str, Thing]):
    """Names with their values; `find` is called when a value is read."""

    def __init__(
        self, names: Callable[[], Iterable[str]], find: Callable[[str], Thing | None]
    ) -> None:
        self._names = names
        self._find = find

    def __getitem__(self, name: str) -> Thing:
        if (found := self._find(name)) is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(self._names()))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def over(own: Mapping[str, Thing], others: Mapping[str, Thing]) -> Mapping[str, Thing]:
    """`own` names in front of `others`; no value is computed before it is read."""
    # The stubs want a mutable first mapping, because a ChainMap can change it; this one does not.
    return ChainMap(own, others)  # type: ignore[arg-type]


def with_items(
    lists: Mapping[str, Iterable[Sequence[str]]], names: Mapping[str, Shape], *, numbered: bool
) -> Mapping[str, Shape]:
    """The names, and in front of them those of the items of lists, with `index` if numbered."""
    if not lists:
        return names
    own = {one: items_at(names, paths) for one, paths in lists.items()}
    return over(own | ({"index": Scalar()} if numbered else {}), names)


SHORT = 80
"""The most characters of a value that is shown beside a message."""
TEXT = DataType({"type": "string"}, scalar="str")


class ReportItems(Value, frozen=True):
    """The fields that an item of some report of a machine may have."""

    fields: Mapping[str, DataType | None] = field(default_factory=dict)
    """The declared fields; the type is None where rules declare different ones."""
    is_open: bool = False
    parts: frozenset[str] = frozenset()
    """The fields from which a `map` reads parts of findings, so that they repeat these."""

    def read(self, item: Mapping[str, object]) -> Record:
        """An item for templates: a declared field that is missing reads as none."""
        known = {name: readable(value, self.fields.get(name)) for name, value in item.items()}
        return Record(known, self.fields.keys() - known.keys())

    def further(self, item: Mapping[str, object]) -> Iterator[str]:
        """The short single values of an item besides the parts of its finding, with their names."""
        for name, value in item.items():
            if name not in self.parts and isinstance(value, str | int | float):
                text = text_or_json(value)
                if 0 < len(text) <= SHORT:
                    yield f"{name} `{text}`"


def report_items(graph: Graph) -> ReportItems | None:
    """The further fields of findings: from items of reports, from plug-ins, and from the `fields`
    of rules. None where no rule has any.
    """
    every = (graph.rules_at, graph.drafting_rules_at)
    rules = [rule for name in graph.judges for rules in every for rule in rules(name)]
    saying = [rule for rule in rules if rule.tells_more or rule.own_fields]
    if not saying:
        return None
    fields: dict[str, DataType | None] = {}
    is_open = False
    for rule in saying:
        item = _item_of(graph.machine, rule)
        if rule.tells_more:
            is_open = is_open or item is None or item.others is not None
        message = rule.report_map.message if rule.report_map is not None else ""
        declared = (item.fields or {}).items() if item is not None else ()
        listed = ((name, datatype) for name, datatype in declared if name != message)
        own = ((name, TEXT) for name in rule.own_fields)
        for name, datatype in chain(listed, own):
            is_other = name in fields and fields[name] != datatype
            fields[name] = None if is_other else datatype
    maps = (rule.report_map for rule in saying if rule.report_map is not None)
    parts = {path.partition(".")[0] for each in maps for path in each.item_paths}
    return ReportItems(fields, is_open, frozenset(parts))


def _item_of(machine: Machine, rule: Rule) -> DataType | None:
    """The type of an item of a report; None where it may hold anything."""
    agent = machine.agents.get(rule.asks or "")
    if agent is None or agent.schema_ is None or rule.report_map is None:
        return None
    listed = parse_fields(agent.schema_).at(rule.report_map.findings.split("."))
    item = listed.items if listed is not None else None
    is_known = item is not None and (item.fields is not None or item.scalar is not None)
    return item if is_known else None


Path = tuple[str, ...]
"""The steps of a dotted name: `("input", "issue")`."""


def inputs_read(machine: Machine, rules: Iterable[Rule]) -> frozenset[str]:
    """The inputs that rules, or the judges whom they ask, read."""
    read: set[str] = set()
    known = (parse_record(machine.input).fields or {}).keys()
    for path in _paths(machine, rules):
        if path[0] == "input":
            # `input` alone reads all inputs.
            read |= {path[1]} if len(path) > 1 else known
    return frozenset(read & known)


def others_read(machine: Machine, rules: Iterable[Rule], judged: str) -> frozenset[str]:
    """The names that rules read and that exist only because other states have worked."""
    outputs = (state.output_at(name) for name, state in machine.states.items())
    made = {output.name for output in outputs if output is not None} | machine.states.keys()
    return frozenset({path[0] for path in _paths(machine, rules)} & made - {judged})


def _paths(machine: Machine, rules: Iterable[Rule]) -> Iterator[Path]:
    for rule in rules:
        if rule.guard is not None:
            named = {name: parse_guard(text) for name, text in machine.guards.items()}
            yield from map(_steps, expand(parse_guard(rule.guard), named).names)
        # Conditions and paths name fields of the judged artifact.
        of_data = {text for _, text in chain(rule.conditions, rule.paths)}
        yield from map(_steps, {*rule.shown, *rule.mentions} - of_data)
        asked = machine.agents[rule.asks].templates if rule.asks is not None else ()
        for _, text in chain(rule.templates, rule.finding_templates, asked):
            yield from parse(text).paths
        if machine.workspace is not None:
            yield from parse(machine.workspace.path).paths


def _steps(dotted: str) -> Path:
    return tuple(dotted.split("."))
