"""The pure step: (run state, completed work) → the events of one macrostep.

It computes what the guards read and one bit for each edge, lets the compiled
machine choose, and writes down the choice. It reads no clock, no file and no
network, so that the same work always gives the same events.
"""

from __future__ import annotations

from collections.abc import Mapping

from loopkit.engine.changes import apply
from loopkit.engine.default_feedback import default_feedback
from loopkit.engine.events import (
    Artifact,
    Choice,
    Decided,
    Emitted,
    Entered,
    Event,
    Feedback,
    Finished,
    Suspended,
    Waiting,
    Worked,
)
from loopkit.engine.findings import Report
from loopkit.engine.revisions import cap_of, revision_of
from loopkit.engine.state import RunState
from loopkit.engine.template_values import (
    attempt_of,
    chosen_agent,
    open_findings,
    plain_answer,
    plain_artifact,
    render,
)
from loopkit.language import FinalState, HumanState
from loopkit.language.datatypes import facts_of, parse_record, single_values
from loopkit.language.guard.kleene import truth
from loopkit.language.template import Anything, Scalar, Shape, check
from loopkit.machine.compiler import Decider, NoEdge
from loopkit.machine.graph import TOTAL, Edge
from loopkit.machine.plans import StatePlan
from loopkit.machine.program import Program, flat_facts

Facts = dict[str, object]
COUNTED = ("attempt", "cap_reached", "revisions", "max_revisions")


class Macrostep:
    """What one completed piece of work brings about, and the state of the run behind it."""

    def __init__(self, run: RunState) -> None:
        """`run` stays as it is, so that nothing has happened where a template fails."""
        self.run = run.copy()
        self.events: list[Event] = []

    def add(self, event: Event) -> None:
        apply(self.run, event)
        self.events.append(event)


class Engine:
    """The macrosteps of one program. One a thread."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._decider = Decider(program.graph)
        self._needing: dict[str, bool] = {}
        """For each edge, whether its feedback needs a comment."""

    def begin(self, run: RunState, now: float) -> Macrostep:
        """What makes the initial state active."""
        step = Macrostep(run)
        self._enter(step, self.program.machine.start, None, now)
        return step

    def step(self, run: RunState, work: Worked, now: float) -> Macrostep:
        """One macrostep: `worked`, `decided`, `entered`, and what the new state brings at once.

        `now` is Unix time, for questions that expire.

        Where an error has no edge to go to, the run suspends instead, and the
        state stays as it was. Raises NoEdge where the work leads nowhere,
        which the checks rule out.
        """
        plan, step = self.program.plans[run.state], Macrostep(run)
        step.add(work)
        facts, ways = self.facts(step.run, work), plan.on(work.outcome)
        bits = tuple(
            [
                (predicate is None or predicate(facts))
                and (is_always or self._is_open(step.run, edge))
                for edge, predicate, is_always in ways.edges
            ]
        )
        if work.outcome != "done" and True not in bits:
            return suspend(run, work)
        edge = self._decider.decide(run.state, work.outcome, bits)
        if plan.restores and not edge.back and (best := run.best_round()):
            # A person was shown the best round's artifacts, and goes forward with them.
            work = work.replace(restored=dict(best.snapshot))
            step = Macrostep(run)
            step.add(work)
        step.add(
            Decided(
                edge=edge.id,
                source=edge.source,
                target=edge.target,
                facts=_recorded(facts, work, ways.names) if plan.elsewhere else facts,
                bits=bits,
                spends=edge.counters,
                resets=edge.resets,
                feedback=self._feedback(step.run, work, edge) if edge.back else (),
            )
        )
        if edge.emit is not None:
            self._emit(step, edge.emit, run.state, self._attempt(step.run, plan))
        self._enter(step, edge.target, edge.id, now)
        return step

    def finish(self, run: RunState) -> Macrostep:
        """What ends a run in the active final state; raises TemplateError."""
        step, state = Macrostep(run), self.program.machine.states[run.state]
        assert isinstance(state, FinalState)
        step.add(self._finished(step.run, run.state, state))
        return step

    def facts(self, run: RunState, work: Worked | None) -> Facts:
        """Everything that the guards of the active state read, under dotted names."""
        plan = self.program.plans[run.state]
        facts = work.facts.copy() if work else {}
        if plan.elsewhere:
            facts = self._facts_elsewhere(run, plan.elsewhere, facts) | facts
        # An answer that is only looked at counts as given, as it will when its edge is taken.
        facts["attempt"] = self._attempt(run, plan) + (work is None)
        if plan.revises:
            self._add_revisions(run, plan.revises, facts)
        return facts

    def _facts_elsewhere(self, run: RunState, read: frozenset[str], own: Facts) -> Facts:
        """The facts of states, reports and inputs that guards of the active state read."""
        known = flat_facts({s: run.facts[s] for s in run.facts if s in read and s != run.state})
        if "reports" in read:
            reports = {name: {"verdict": r.verdict} for name, r in run.reports.items()}
            known |= flat_facts(reports, "reports.")
        if "input" in read:
            known |= facts_of(run.input, self.program.input_type, "input.")
        if run.state in read:
            known |= {f"{run.state}.{name}": value for name, value in own.items()}
        return known

    def _is_open(self, run: RunState, edge: Edge) -> bool:
        """Whether an edge that is not always there is: at a limit once, else with room left.

        Revising is for what failed.
        """
        if edge.event == "limit":
            return not run.then_used
        judges = edge.event == "done" and self.program.plans[edge.source].judged is not None
        return self.has_room(run, edge) and (
            not judges or run.reports[edge.source].verdict == "fail"
        )

    def has_room(self, run: RunState, edge: Edge) -> bool:
        for counter in edge.counters:
            if run.counters.get(counter, 0) >= cap_of(self.program, run, counter):
                return False
        return True

    def question(self, run: RunState, now: float) -> Waiting | None:
        """What a person is asked in the active state, if anybody is; raises TemplateError."""
        state = self.program.machine.states.get(run.state)
        return self._question(run, run.state, state, now) if isinstance(state, HumanState) else None

    def closed_choices(self, run: RunState) -> tuple[Choice, ...]:
        """The choices of the active human state, each with the reason where it is closed."""
        state = self.program.machine.states[run.state]
        if not isinstance(state, HumanState):
            return ()
        return tuple(self._choice(run, state, name) for name in state.choices)

    def leads_to_closed_edge(self, run: RunState, answer: Mapping[str, object]) -> str:
        """Why an answer can't be taken: its edge has no room left. Empty if it can."""
        facts = self.facts(run, None) | flat_facts(answer) | flat_facts({run.state: answer})
        for edge, predicate, _ in self.program.plans[run.state].on("done").edges:
            if predicate is None or predicate(facts):
                return self._no_room(run, edge)
        return "no transition of the state takes this answer"

    def _choice(self, run: RunState, state: HumanState, name: str) -> Choice:
        fields = [field for field, _ in single_values(parse_record(state.form))]
        own = {*fields, *(f"{run.state}.{field}" for field in fields)}
        facts = {k: v for k, v in self.facts(run, None).items() if k not in own}
        facts |= {"choice": name, f"{run.state}.choice": name}
        closed, takes_comment, needs_comment = "", False, False
        for edge in self.program.graph.on(run.state, "done"):
            guard = self.program.guards.get(edge.id)
            holds = True if guard is None else truth(guard.tree, facts)
            if holds is False:
                continue
            takes_comment = takes_comment or self._takes_comment(edge)
            needs_comment = needs_comment or self._needs_comment(edge)
            closed = self._no_room(run, edge)
            # A guard that reads the form may hold or not: the choice is open where it may lead on.
            if holds or not closed:
                break
        return Choice(
            name=name, closed=closed, takes_comment=takes_comment, needs_comment=needs_comment
        )

    def _takes_comment(self, edge: Edge) -> bool:
        template = self.program.template(self.program.feedback_of(edge))
        return edge.back and "comment" in template.names

    def _needs_comment(self, edge: Edge) -> bool:
        """Whether the feedback uses the comment otherwise than behind `{% if comment %}`."""
        if edge.id not in self._needing:
            template = self.program.template(self.program.feedback_of(edge))
            shapes: dict[str, Shape] = dict.fromkeys(template.names, Anything())
            shapes["comment"] = Scalar(optional=True)
            self._needing[edge.id] = edge.back and bool(check(template, shapes))
        return self._needing[edge.id]

    def _no_room(self, run: RunState, edge: Edge) -> str:
        if not edge.back or self.has_room(run, edge):
            return ""
        full = next(
            c for c in edge.counters if run.counters.get(c, 0) >= cap_of(self.program, run, c)
        )
        cap = cap_of(self.program, run, full)
        if cap == 0:
            return "no revisions are granted"
        of_run = " of the run" if full == TOTAL else ""
        if cap == 1:
            return f"the one revision{of_run} is used up"
        return f"all {cap} revisions{of_run} are used up"

    def _attempt(self, run: RunState, plan: StatePlan) -> int:
        if plan.judged is None:
            return run.attempts.get(run.state, 0)
        artifact = run.artifacts.get(plan.judged)
        return artifact.attempt if artifact else 0

    def _add_revisions(self, run: RunState, edges: tuple[Edge, ...], facts: Facts) -> None:
        facts["cap_reached"] = True not in [self.has_room(run, edge) for edge in edges]
        if len(edges) == 1:
            counter = edges[0].counters[0]
            facts["revisions"] = run.counters.get(counter, 0)
            facts["max_revisions"] = cap_of(self.program, run, counter)

    def _feedback(self, run: RunState, work: Worked, edge: Edge) -> tuple[Feedback, ...]:
        spent = {**run.counters, **dict.fromkeys(edge.resets, 0)}
        spent |= {counter: spent.get(counter, 0) + 1 for counter in edge.counters}
        revision, most = revision_of(self.program, run, edge, spent)
        answer = plain_answer(self.program, edge.source, work.answer) if work.answer else {}
        extra = {
            **answer,
            "revision": revision,
            "max_revisions": most,
            "attempt": self._attempt(run, self.program.plans[run.state]),
        }
        to = self.addressee(run, edge)
        text = render(self.program, run, self.program.feedback_of(edge), **extra)
        if not text.strip():
            text = self._default_feedback(run, work, to, (revision, most))
        return (Feedback(to=to, text=text.strip("\n"), revision=revision, max_revisions=most),)

    def _default_feedback(
        self, run: RunState, work: Worked, to: str, revision: tuple[int, int]
    ) -> str:
        report = run.last_report
        asked = chosen_agent(self.program, run, to) if report else None
        if report and (told := default_feedback(self.program, report, to, revision, asked)):
            return told
        if work.answer is not None:
            return f"The reviewer chose `{work.answer.choice}` without a comment."
        return work.error or "Please revise."

    def addressee(self, run: RunState, edge: Edge) -> str:
        """Who gets the feedback of an edge: its target, or the author of what was judged."""
        if self.program.machine.states[edge.target].reads_feedback:
            return edge.target
        if (judged := self.program.machine.states[edge.source].judges) is not None:
            return run.artifacts[judged].author
        return run.last_report.author if run.last_report else edge.target

    def _emit(self, step: Macrostep, name: str, state: str, attempt: int) -> None:
        found = tuple(open_findings(self.program, step.run))
        step.add(Emitted(name=name, state=state, attempt=attempt, findings=found))

    def _enter(self, step: Macrostep, target: str, by: str | None, now: float) -> None:
        run, state = step.run, self.program.machine.states[target]
        visit, attempt = run.visits.get(target, 0) + 1, run.attempts.get(target, 0) + 1
        step.add(Entered(state=target, visit=visit, attempt=attempt, by=by))
        if isinstance(state, FinalState):
            # Before a run with trees of its own ends, they have to be merged or left.
            if not run.isolated:
                step.add(self._finished(run, target, state))
            return
        if state.emit is not None:
            # Of a state it is the attempt that begins, not the one before it.
            self._emit(step, state.emit, target, attempt_of(self.program, run))
        if isinstance(state, HumanState):
            step.add(self._question(run, target, state, now))

    def _question(self, run: RunState, name: str, state: HumanState, now: float) -> Waiting:
        return Waiting(
            state=name,
            question=f"{name}:{run.visit}{run.era}",
            text=render(self.program, run, state.human).strip(),
            choices=self.closed_choices(run),
            expires_at=None if state.timeout is None else now + state.timeout,
            otherwise=state.otherwise,
            form=state.form,
            edit=state.edit,
        )

    def question_contents(self, run: RunState) -> tuple[dict[str, Artifact], Report | None]:
        """What the active human state shows: the latest of all, or the best round."""
        state = self.program.machine.states[run.state]
        if not isinstance(state, HumanState):
            return {}, None
        best = run.best_round() if state.pick == "best" else None
        current, report = (best.snapshot, best.report) if best else (run.artifacts, run.last_report)
        artifacts = {name: current[name] for name in state.show if name in current}
        return artifacts, report if "report" in state.show else None

    def _finished(self, run: RunState, name: str, state: FinalState) -> Finished:
        best = run.best_round(state.of) if state.pick == "best" else None
        current = best.snapshot if best else run.artifacts
        picked = {name: current[name] for name in state.result if name in current}
        return Finished(
            outcome=name,
            success=state.final == "success",
            result={n: _plain(plain_artifact(self.program, run, a)) for n, a in picked.items()},
            picked={
                n: {"author": a.author, "attempt": a.attempt, "fallback": a.fallback}
                for n, a in picked.items()
            },
            absent=tuple(name for name in state.result if name not in current),
            left=() if state.succeeds else tuple(i.place for i in run.isolated.values()),
        )


def suspend(run: RunState, work: Worked) -> Macrostep:
    """What comes of work that nothing catches: the run stops where it is."""
    step = Macrostep(run)
    step.add(suspension(work))
    return step


def suspension(work: Worked) -> Suspended:
    """The event of a run that stops at this work."""
    return Suspended(
        state=work.state,
        reason="content" if work.outcome == "done" else work.outcome,
        message=work.error,
        remedy=work.remedy,
        resume_at=work.resume_at,
        commands=work.commands,
        time_s=work.time_s,
        refused=work.refused,
    )


def _recorded(facts: Facts, work: Worked, read: frozenset[str]) -> Facts:
    """What the work left, and what the guards of its edges could read of the rest."""
    return {
        name: value
        for name, value in facts.items()
        if name in work.facts or name in COUNTED or name in read
    }


def _plain(value: object) -> object:
    return str(value) if isinstance(value, str) else value


__all__ = ["Engine", "Macrostep", "NoEdge", "suspend", "suspension"]
