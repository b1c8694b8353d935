"""Questions to a person: their text, and which of the choices are closed and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopkit.engine.events import Artifact, Choice, Waiting
from loopkit.engine.findings import Report
from loopkit.engine.guard_facts import earliest_origin, guard_facts
from loopkit.engine.revisions import cap_of, find_full_counter
from loopkit.engine.state import RunState
from loopkit.engine.template_values import render
from loopkit.language import HumanState
from loopkit.language.datatypes import parse_record, single_values
from loopkit.language.guard.kleene import truth
from loopkit.language.template import Anything, Scalar, Shape, check
from loopkit.machine.edges import TOTAL, Edge
from loopkit.machine.program import Program, flat_facts


class Questions:
    """The questions of one program. Each thread needs its own."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._needing: dict[str, bool] = {}
        """For each edge, whether its feedback needs a comment."""

    def question(self, run: RunState, state: HumanState, now: float) -> Waiting:
        """The question of the active human state; raises TemplateError."""
        return Waiting(
            state=run.state,
            question=f"{run.state}:{run.visit}{run.era}",
            text=render(self.program, run, state.human).strip(),
            choices=self.choices(run),
            expires_at=None if state.timeout is None else now + state.timeout,
            otherwise=state.otherwise,
            form=state.form,
            edit=state.edit,
        )

    def choices(self, run: RunState) -> tuple[Choice, ...]:
        """The choices of the active human state, each with the reason if it is closed."""
        state = self.program.plans[run.state].human
        if state is None:
            return ()
        return tuple(self._choice(run, state, name) for name in state.choices)

    def why_refused(self, run: RunState, answer: Mapping[str, object]) -> str:
        """Why an answer can't be taken, such as an edge without room. Empty if it can."""
        known = guard_facts(self.program, run, None)
        facts = known | flat_facts(answer) | flat_facts({run.state: answer})
        missed: list[Edge] = []
        for edge, predicate, _ in self.program.plans[run.state].on("done").edges:
            if predicate is None or predicate(facts):
                if self._is_for_another(run, edge):
                    missed.append(edge)
                else:
                    return self._why_closed(run, edge, missed)
        return "no transition of the state takes this answer"

    def _is_for_another(self, run: RunState, edge: Edge) -> bool:
        """Whether an edge leads to another origin than the earliest one."""
        if edge.origin is None:
            return False
        return edge.origin != earliest_origin(self.program, run, edge.source)

    def _why_closed(self, run: RunState, edge: Edge, missed: Sequence[Edge]) -> str:
        """Why an edge behind `missed` ones to other origins takes no answer; empty if it does."""
        if not missed or edge.back:
            return self._no_room(run, edge)
        origin = earliest_origin(self.program, run, edge.source)
        if origin is None:
            return "nothing is found that could be sent back"
        names = " or ".join(f"`{each.origin}`" for each in missed)
        return f"what is found goes back to `{origin}`, not to {names}"

    def _choice(self, run: RunState, state: HumanState, name: str) -> Choice:
        fields = [field for field, _ in single_values(parse_record(state.form))]
        own = {*fields, *(f"{run.state}.{field}" for field in fields)}
        facts = {k: v for k, v in guard_facts(self.program, run, None).items() if k not in own}
        facts |= {"choice": name, f"{run.state}.choice": name}
        closed, takes_comment, needs_comment = "", False, False
        missed: list[Edge] = []
        for edge in self.program.graph.on(run.state, "done"):
            guard = self.program.guards.get(edge.id)
            holds = True if guard is None else truth(guard.tree, facts)
            if holds is False:
                continue
            if self._is_for_another(run, edge):
                missed += [edge] if holds else []
                continue
            takes_comment = takes_comment or self._takes_comment(edge)
            needs_comment = needs_comment or self._needs_comment(edge)
            closed = self._why_closed(run, edge, missed)
            # A guard that reads the form may hold or not: the choice is open if it may lead on.
            if holds or not closed:
                break
        return Choice(
            name=name, closed=closed, takes_comment=takes_comment, needs_comment=needs_comment
        )

    def _takes_comment(self, edge: Edge) -> bool:
        template = self.program.template(self.program.feedback_of(edge))
        return edge.back and "comment" in template.names

    def _needs_comment(self, edge: Edge) -> bool:
        """Whether the feedback uses the comment outside `{% if comment %}`."""
        if edge.id not in self._needing:
            template = self.program.template(self.program.feedback_of(edge))
            shapes: dict[str, Shape] = dict.fromkeys(template.names, Anything())
            shapes["comment"] = Scalar(optional=True)
            self._needing[edge.id] = edge.back and bool(check(template, shapes))
        return self._needing[edge.id]

    def _no_room(self, run: RunState, edge: Edge) -> str:
        if not edge.back:
            return ""
        full, reason = find_full_counter(self.program, run, edge)
        if full != TOTAL:
            return reason
        more = cap_of(self.program, run, full) + 1
        return f"{reason}; `--set limits.total_revisions={more}` opens it"

    def contents(self, run: RunState) -> tuple[dict[str, Artifact], Report | None]:
        """The artifacts and report that the human state shows: the latest, or the best round's."""
        state = self.program.plans[run.state].human
        if state is None:
            return {}, None
        best = run.best_round() if state.pick == "best" else None
        current, report = (
            (run.artifacts_at(best), best.report) if best else (run.artifacts, run.last_report)
        )
        artifacts = {name: current[name] for name in state.show if name in current}
        return artifacts, report if "report" in state.show else None
