"""Scopes: the names that templates may use at each point of a machine, with their shapes.

`engine.template_values` gives the same names their values at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from loopkit.language import EachState, RenderState, State
from loopkit.language.datatypes import DataType, parse_record
from loopkit.language.facts import (
    ORIGIN,
    PRINTED_FACTS,
    SCORE,
    VERDICT,
)
from loopkit.language.states.output import ExtractAll
from loopkit.language.template import Anything, Fields, Items, Scalar, Shape, TemplateError, parse
from loopkit.language.template.shapes import absent, either
from loopkit.machine.edges import Edge
from loopkit.machine.flow import ANY_REPORT, Flow, Made
from loopkit.machine.graph import Graph, artifact_of
from loopkit.machine.guard_names import GuardNames
from loopkit.machine.item_types import items_at
from loopkit.machine.known import Known, over
from loopkit.machine.report_items import report_items

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
    "attempt": Scalar(),
    "version": Scalar(),
    VERDICT: Scalar(),
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
    "telemetry": Fields(
        {
            **dict.fromkeys(("calls", "cost_usd", "seconds"), Scalar()),
            "defects": Items(DEFECT),
        }
    ),
}
EVERYWHERE_NAMES = (*FOUND, *EVERYWHERE, "history")


class Scope:
    """The names of one machine, point by point."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.flow = Flow(graph)
        self.guards = GuardNames(graph, self.flow)
        """What guards may name, in the same machine."""
        self._shapes_of: dict[tuple[str, bool], Shape] = {}

    def entering(self, state: str) -> Mapping[str, Shape]:
        """What templates see when a state starts its work: prompts, questions, paths."""
        names, working = self._shapes(self.flow.entering[state]), self.graph.states[state]
        if not isinstance(working, EachState):
            return names
        return over({working.as_: items_at(names, working)}, names)

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
        shapes = self._shapes(self.flow.taking(edge))
        form = _form_shapes(self.graph.states[edge.source])
        if form is None:
            return shapes
        return over({"choice": Scalar(), "comment": Scalar()} | form, shapes)

    def _shapes(self, made: Made) -> Known[Shape]:
        def names() -> Iterator[str]:
            yield from (*EVERYWHERE_NAMES, "input")
            if ANY_REPORT in made.possibly:
                yield from ("report", "reports")
            yield from (name for kind, name in made.possibly if kind == "artifact")
            left = sorted(name for kind, name in made.possibly if kind == "facts")
            yield from (name for name in left if self._answer_shape(name) is not None)

        return Known(names, lambda name: self._shape(made, name))

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
        """The shape of a person's answer or a command's result under the name of its state."""
        state = self.graph.states.get(name)
        if state is None or not state.said:
            return None
        return Fields(dict.fromkeys(state.said, Scalar()) | (_form_shapes(state) or {}))

    def _artifact_shape(self, name: str, *, whole: bool) -> Shape:
        if (name, whole) not in self._shapes_of:
            self._shapes_of[name, whole] = self._shape_from_authors(name, whole=whole)
        return self._shapes_of[name, whole]

    def _shape_from_authors(self, name: str, *, whole: bool) -> Shape:
        """The shape of an artifact, over all of its authors."""
        shapes = [
            self._shape_from_author(author, whole=whole)
            for author in self.graph.artifacts.get(name, ())
        ]
        if not shapes:
            return Scalar()
        merged = shapes[0]
        for shape in shapes[1:]:
            merged = _merge(merged, shape)
        return merged

    def _shape_from_author(self, author: str, *, whole: bool) -> Shape:
        state = self.graph.states[author]
        answer = self.graph.machine.data_type(author) or state.leaves
        if answer is not None:
            return _with_absent_fields(shape_of(answer), whole=whole)
        output = state.output_at(author)
        extracted = output.fields if output is not None else {}
        fields: dict[str, Shape] = {
            name: Items(Scalar()) if isinstance(one, ExtractAll) else Scalar()
            for name, one in extracted.items()
        }
        if output is not None and output.name == author:
            fields |= dict.fromkeys(state.said, Scalar())
        beside = (*state.beside, *(output.beside if output is not None else ()))
        fields |= {name: BESIDE.get(name, Scalar()) for name in beside if name not in fields}
        passed = self._shape_passed_on(state) if isinstance(state, RenderState) else None
        if passed is not None:
            return passed
        return _with_absent_fields(Fields(fields), whole=whole) if fields else Scalar()

    def _shape_passed_on(self, state: RenderState) -> Shape | None:
        """The shape of a value that a render state passes on; None where it makes a text."""
        try:
            path = parse(state.render).whole
        except TemplateError:
            return None
        if path is None:
            return None
        known: Shape | None = Fields({"input": self._input_shape})
        for step in path:
            known = known.fields.get(step) if isinstance(known, Fields) else None
        if isinstance(known, Fields) and known.fields and not known.optional:
            return known
        return None if isinstance(known, Scalar) else Anything()

    @cached_property
    def input(self) -> DataType:
        return parse_record(self.graph.machine.input)

    @cached_property
    def _input_shape(self) -> Shape:
        return shape_of(self.input)


def _of_item(datatype: DataType | None) -> Shape:
    """The shape of an item's field, which only some findings have."""
    shape = Anything() if datatype is None else shape_of(datatype)
    return Scalar() if isinstance(shape, Scalar) else absent(shape)


def _reports(made: Made, report: Shape) -> Known[Shape]:
    """The shapes of the reports, by the states that have judged."""

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
    """The shapes of a form's fields; None where the state has no form."""
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
    if isinstance(first, Fields) or isinstance(second, Fields):
        left = dict(first.fields) if isinstance(first, Fields) else {}
        right = dict(second.fields) if isinstance(second, Fields) else {}
        names = [*left, *(name for name in right if name not in left)]
        return Fields(
            {
                name: either(left[name], right[name])
                if name in left and name in right
                else absent(left.get(name, right.get(name, Scalar())))
                for name in names
            }
        )
    return either(first, second)
