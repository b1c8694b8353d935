"""Every path of a machine on the real engine, with made-up work: what the language says can come.

Shares with `loopkit.proof.bounds` nothing but the definition. What a state's work can come to is
written down here a second time, from the tables of the language.
"""

from __future__ import annotations

import ast
import operator
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from graphlib import TopologicalSorter
from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

from loopkit.drive.answers import AnswerRefused, complete_work
from loopkit.engine.changes import fold
from loopkit.engine.events import Kept, Started, Worked
from loopkit.engine.findings import Finding, Report
from loopkit.engine.macrostep import Engine
from loopkit.engine.payloads import Artifact, HumanAnswer
from loopkit.engine.revisions import has_room
from loopkit.engine.state import RunState
from loopkit.language.datatypes.datatype import DataType
from loopkit.language.datatypes.notation import parse_fields
from loopkit.language.machine import Machine
from loopkit.language.states import ChoiceState
from loopkit.language.states.kinds import (
    AgentState,
    CommandState,
    FilledState,
    HumanState,
    SetState,
    ValidateState,
)
from loopkit.language.validators import PythonRule, rules_of
from loopkit.language.validators.command import CommandRule
from loopkit.language.validators.judge import JudgeRule
from loopkit.machine.inputs import faults_beyond_type
from loopkit.machine.program import Program
from tests.findings import Found, counted_out, finder, plainest

Asked = tuple[tuple[str, str, int], ...]
"""(agent, place, most calls) of everybody who is asked for one piece of work."""
Weights = tuple[int, int, int]
"""Agent runs, calls, cost."""
MANY = 64
"""Values of an input that are tried one by one; of more, some are."""
ERRORS = ("transient", "content", "fatal")
WORD = re.compile(r'"([^"]*)"|\'([^\']*)\'')
CODES = re.compile(r"(?:\"([^\"]*)\"|'([^']*)') (?:not )?in [\w.]*codes")
NAMES = re.compile(r"(?<![\w.])[a-z]\w*(?:\.\w+)*")


def price(agent: str, place: str, fallback: int = 0) -> int:
    """Different whole numbers, so that sums are exact and the dearest call is not always one."""
    return sum(map(ord, agent + place)) % 7 + 1


def weigh(asked: Asked, *, most: bool) -> Weights:
    calls = [(agent, place, calls if most else 1) for agent, place, calls in asked]
    return (
        len(asked),
        sum(number for _, _, number in calls),
        sum(number * price(agent, place) for agent, place, number in calls),
    )


@dataclass(frozen=True)
class Option:
    """One thing that the active state's work can come to."""

    work: Worked | Kept
    least: Asked = ()
    most: Asked = ()

    @property
    def outcome(self) -> str:
        return "done" if isinstance(self.work, Kept) else self.work.outcome


@dataclass(frozen=True)
class Step:
    """Options that a later observer cannot tell apart, with one run that took them."""

    key: tuple[Any, ...]
    run: RunState
    least: Weights
    most: Weights
    options: tuple[Option, ...]

    @property
    def edge(self) -> str:
        """Its edge, or the error that suspends the run."""
        return str(self.key[1] if self.key[0] == "suspended" else self.key[0])


class TooLong(Exception):
    """There is more to look at than is wanted."""


def _may_block(rule: Any, state: ValidateState) -> bool:
    """Whether what a rule finds can block, in machines with errors and warnings."""
    return rule.severity != "warning" or state.block == "warning"


def _may_warn(rule: Any, state: ValidateState) -> bool:
    """Whether it can be found and not block: settled, outvoted, not confirmed, or mild."""
    if state.settle_after is not None or not _may_block(rule, state):
        return True
    if not isinstance(rule, JudgeRule):
        return False
    is_open = state.combine == "majority" or rule.confirm is not None
    return is_open or state.block != "warning"


class Replay:
    """One machine on its engine."""

    def __init__(self, machine: Machine, most: int = 10**9) -> None:
        """Takes `most` steps on the engine for all the paths that are asked for together."""
        self.left = most
        self.spent: Counter[str] = Counter()
        """The most that was ever spent of each counter."""
        self.closed: set[str] = set()
        """Edges back that a run came to without room for them."""
        self.machine = machine
        self.program = Program(machine, "digest")
        self.engine = Engine(self.program)
        self.graph = self.program.graph
        self.keeping = frozenset(
            name
            for name, state in machine.states.items()
            if isinstance(state, AgentState | FilledState)
            and (state.needs or machine.origins)
            and not _works_on_files(machine, name)
        )
        self.guards = {
            name: [
                self._expanded(edge.guard)
                for edge in self.graph.on(name, "done")
                if edge.guard is not None
            ]
            for name in machine.states
        }
        self.rule_guards = [
            self._expanded(rule.guard)
            for state in machine.states.values()
            if isinstance(state, ValidateState)
            for rules in self.program.validators_of(state).values()
            for rule in rules
            if rule.guard is not None
        ]
        self.texts = [
            *(text for texts in self.guards.values() for text in texts),
            *self.rule_guards,
        ]
        self.words = sorted({a or b for text in self.texts for a, b in WORD.findall(text)})
        self.numbers = _near(self.texts)
        self.counts = _near(
            atom
            for name in {n for text in self.texts for n in NAMES.findall(text)}
            if name.endswith(("error_count", "warning_count"))
            for atom in _atoms(tuple(self.texts), name)
        )
        self.inputs = parse_fields(machine.input)
        self.codes = sorted({a or b for text in self.texts for a, b in CODES.findall(text)})
        self._counted: dict[Any, set[Found]] = {}
        self._told: dict[tuple[int, str], list[Found]] = {}
        self._bits: dict[tuple[str, Any], int] = {}
        self._ahead: dict[str, tuple[list[str], list[str]]] = {}

    def _expanded(self, text: str) -> str:
        for _ in range(5):
            for name, guard in self.machine.guards.items():
                text = re.sub(rf"(?<![\w.\"]){name}(?![\w\"])", f"({guard})", text)
        return text

    # -- how a run starts ------------------------------------------------------------------

    def starts(self) -> Iterator[RunState]:
        """A run for each input that a guard or a cap can tell from the others."""
        seen = set()
        names = {n for text in self.texts for n in NAMES.findall(WORD.sub("0", text))}
        spent = {counter for edge in self.graph.edges for counter in edge.counters}
        names |= {str(cap) for counter, cap in self.graph.caps.items() if counter in spent}
        used = {name for name in names if name.startswith("input.")}
        for values in product(*(list(self._values(n)) for n in self.inputs.fields or {})):
            given = dict(zip(self.inputs.fields or {}, values, strict=True))
            flat = dict(_flat(given, "input."))
            key = tuple(self._class_of(name, flat[name]) for name in sorted(used))
            # No run starts with a list of too few items.
            if key not in seen and not any(faults_beyond_type(self.machine, given)):
                seen.add(key)
                yield self.begun(given)

    def begun(self, inputs: Mapping[str, Any]) -> RunState:
        started = Started(run="r", machine="m", definition="digest", folder="", input=dict(inputs))
        run = self.engine.begin(fold([started]), 0.0).run
        self._note_asked(run)
        return run

    def _values(self, name: str) -> Iterator[Any]:
        yield from self._of_type((self.inputs.fields or {})[name])

    def _of_type(self, datatype: DataType) -> Iterator[Any]:
        if datatype.optional:
            yield None
        if datatype.bounded:
            assert datatype.minimum is not None
            assert datatype.maximum is not None
            values = range(int(datatype.minimum), int(datatype.maximum) + 1)
            yield from values if len(values) <= MANY else self._some(values)
        elif datatype.fields is not None:
            inner = [list(self._of_type(t)) for t in datatype.fields.values()]
            for values in product(*inner):
                yield dict(zip(datatype.fields, values, strict=True))
        elif datatype.items is not None:
            yield []
        elif datatype.scalar == "bool":
            yield from (True, False)
        elif datatype.scalar in ("int", "num"):
            yield from self.numbers
        else:
            yield from datatype.values or (*self.words, "x")

    def _some(self, values: range) -> list[int]:
        """Of a thousand values those near what guards compare, and near both ends."""
        near = {*values[:6], *values[-2:], *self.numbers}
        return sorted(near & set(values))

    def is_alike(self, state: str, fact: str, one: Any, other: Any) -> bool:
        """Whether no guard can tell two values of a state's fact apart, here or elsewhere."""
        if fact == "verdict" and state in self.graph.judges:
            return bool(one == other)  # that is what `valid` and others tell by as well
        names = (fact, f"{state}.{fact}", f"reports.{state}.{fact}")
        return all(self._class_of(name, one) == self._class_of(name, other) for name in names)

    def _class_of(self, name: str, value: Any) -> Any:
        """What guards can tell of a value; of a bounded input, the value."""
        datatype: Any = self.inputs
        for step in name.split(".")[1:] if name.startswith("input.") else ():
            datatype = datatype.fields[step]
        if name.startswith("input.") and datatype.bounded:
            return value
        return tuple(_holds(atom, {name: value}) for atom in _atoms(tuple(self.texts), name))

    # -- what work can come to -------------------------------------------------------------

    def options(self, run: RunState) -> Iterator[Option]:
        state = self.machine.states[run.state]
        if run.state in self.keeping and self._may_keep(run):
            yield Option(Kept(state=run.state, visit=run.visit))
        match state:
            case AgentState():
                yield from self._of_agent(run, state)
            case CommandState():
                # One below zero is that of a signal.
                for code in (-1, *self.numbers) if self._names("exit_code") else (0,):
                    yield Option(
                        self._work(
                            run,
                            "done",
                            facts={"exit_code": code},
                            artifact=self._artifact(run, state),
                        )
                    )
                yield from self._failing(run, ("transient", "fatal"), ())
                yield from self._limited(run, ())
            case FilledState() | SetState():
                yield Option(self._work(run, "done", artifact=self._artifact(run, state)))
                yield from self._failing(run, state.faults, ())
            case ValidateState():
                yield from self._of_validate(run, state)
            case HumanState():
                yield from self._of_human(run, state)
            case ChoiceState():
                yield Option(self._work(run, "done"))

    def _work(self, run: RunState, outcome: str, **more: Any) -> Worked:
        if outcome == "done" and run.state in self.keeping:
            more["made_from"] = "what it needs"
        return Worked(state=run.state, visit=run.visit, outcome=outcome, **more)

    def _may_keep(self, run: RunState) -> bool:
        """Whether a state was entered again by a forward edge, and its artifact is its own."""
        edge = self.graph.by_id.get(run.entered_by or "")
        output = self.machine.states[run.state].output_at(run.state)
        artifact = run.artifacts.get(output.name) if output is not None else None
        is_its_own = (
            artifact is not None
            and not artifact.fault
            and (artifact.author, artifact.attempt) == (run.state, run.attempts.get(run.state))
        )
        is_told = edge is None or edge.back or run.state in run.pending
        return is_its_own and not is_told

    def _behind(self, run: RunState, artifact: Artifact) -> dict[str, int]:
        """How often those had worked who wrote what an artifact was made from."""
        found, front = {artifact.name: artifact}, [artifact]
        for part in front:
            needed = getattr(self.machine.states[part.author], "needs", None) or ()
            for name in {*needed} & run.artifacts.keys() - found.keys():
                found[name] = run.artifacts[name]
                front.append(found[name])
        asked = (part for part in found.values() if self.machine.states[part.author].asks)
        return {part.author: part.attempt for part in asked if part is not artifact}

    def _artifact(self, run: RunState, state: Any, **more: Any) -> Artifact:
        output = state.output_at(run.state)
        attempt = run.attempts.get(run.state, 0) + 1
        fields = dict.fromkeys(output.fields, "1")
        return Artifact(
            name=output.name, author=run.state, attempt=attempt, text="x", fields=fields
        ).replace(**more)

    def _of_agent(self, run: RunState, state: AgentState) -> Iterator[Option]:
        agent = self.machine.agents[state.agent]
        tries = agent.retry.attempts + agent.has_one_more_try if agent.is_called else 0
        asked = ((state.agent, run.state, tries),) if agent.is_called else ()
        for data in self._data(agent.schema_):
            facts = {k: v for k, v in (data or {}).items() if isinstance(v, str | int | float)}
            artifact = self._artifact(run, state, data=data, is_data=data is not None)
            yield Option(self._work(run, "done", facts=facts, artifact=artifact), asked, asked)
        caught = ["transient", "fatal"]
        if self.graph.on(run.state, "content"):
            empty = self._artifact(
                run, state, text="", fault="empty", fault_code="empty", fields={}
            )
            work = self._work(run, "content", artifact=empty, error="empty")
            yield Option(work, asked, asked)
        yield from self._failing(run, caught, asked)
        yield from self._limited(run, asked)

    def _data(self, schema: Mapping[str, Any] | None) -> Iterator[dict[str, Any] | None]:
        if schema is None:
            yield None
            return
        fields = parse_fields(schema).fields or {}
        read = {name: list(self._of_type(t)) for name, t in fields.items()}
        for values in product(*(vs if self._names(n) else vs[:1] for n, vs in read.items())):
            yield dict(zip(fields, values, strict=True))

    def _failing(self, run: RunState, classes: Sequence[str], asked: Asked) -> Iterator[Option]:
        for error_class in classes:
            yield Option(self._work(run, error_class, error=error_class), asked, asked)

    def _limited(self, run: RunState, asked: Asked) -> Iterator[Option]:
        if self.machine.limits.then is not None and not run.then_used:
            yield Option(self._work(run, "limit", error="limit"), asked, asked)

    def _of_human(self, run: RunState, state: HumanState) -> Iterator[Option]:
        form = parse_fields(state.form).fields or {}
        for choice in state.choices:
            for filled in self._filled(form):
                for origins in self._said_of_findings(run):
                    answer = HumanAnswer(
                        choice=choice, comment="because", form=filled, origins=origins
                    )
                    try:
                        yield Option(complete_work(self.engine, run, state, answer))
                    except AnswerRefused:
                        continue

    def _said_of_findings(self, run: RunState) -> Iterator[dict[str, tuple[str, ...]]]:
        """What a person may say of whose the findings are, where that decides where they go."""
        yield {}
        report = run.last_report
        if run.state in self._asked_for_origins and report is not None and report.origin:
            for origin in self.graph.origins.of_author(report.author):
                if origin != report.origin:
                    yield {found.id: (origin,) for found in report.blocking}

    def _filled(self, form: Mapping[str, DataType]) -> Iterator[dict[str, Any]]:
        """All ways to fill in a form; of a dozen booleans, which guards name one by one, few."""
        flags = [name for name, datatype in form.items() if datatype.scalar == "bool"]
        for values in product(*(list(self._of_type(t)) for n, t in form.items() if n not in flags)):
            others = dict(zip([n for n in form if n not in flags], values, strict=True))
            some = len(flags) + 1 if len(flags) < 10 else 2
            for number in (*range(some), *range(len(flags), len(flags) + (some == 2))):
                for chosen in combinations(flags, number):
                    yield {n: n in chosen if n in flags else others[n] for n in form}

    # -- reports ---------------------------------------------------------------------------

    def _of_validate(self, run: RunState, state: ValidateState) -> Iterator[Option]:
        rules = [r for rules in self.program.validators_of(state).values() for r in rules]
        applying = [rule for rule in rules if self._applies(run, rule)]
        judges = self._judges(run, state)
        second = _second(judges, state)
        asks = any(isinstance(rule, JudgeRule) for rule in rules)
        everyone = _samples(judges)
        mild = self._found(applying, state, kinds=(False,))
        if applying:
            scores = self._scores(judges, always=state.quorum is None)
            for more in _missing(judges, state):
                yield from self._reported(run, "pass", Found(), everyone, more, scores=scores)
        else:
            yield from self._reported(run, "not_applicable", Found(), ())
        for found in self._plainest(mild, "warnings"):
            scores = self._scores(judges)
            yield from self._reported(run, "warn", found, everyone, second, scores=scores)
        yield from self._fails(run, state, applying, judges)
        # Where no rule applies, none can fail to come to a verdict.
        if applying:
            yield from self._routed(run, judges, applying)
        if self._may_be_infeasible(state.validate_):
            names = {n for text in self.guards[run.state] for n in NAMES.findall(text)}
            outcome = "done" if names & {"infeasible", "verdict"} else "content"
            yield from self._reported(run, "infeasible", Found(), (), outcome=outcome)
        # A judge whose question cannot be filled in leaves no report; others may have been asked.
        yield Option(self._work(run, "fatal", error="fatal"), (), everyone + second)
        if asks:
            yield from self._limited(run, everyone + second)

    def _routed(
        self, run: RunState, judges: Sequence[Any], applying: Sequence[Any]
    ) -> Iterator[Option]:
        """Reports that come to the transitions only where a guard names them.

        Nobody finds anything who was not asked.
        """
        state = self.machine.states[run.state]
        assert isinstance(state, ValidateState)
        names = {n for text in self.guards[run.state] for n in NAMES.findall(text)}
        is_named = bool(names & {"incomplete", "verdict"})
        fixed = [rule for rule in applying if not isinstance(rule, JudgeRule)]
        programs = [rule for rule in fixed if isinstance(rule, CommandRule | PythonRule)]
        always = [judge for judge in judges if judge[0].always]
        ways: list[tuple[Sequence[Any], str]] = []
        for error_class in ("fatal",) if is_named else ERRORS:
            # A judge gives no verdict, after all others were asked, or a rule does not, before.
            ways += [(judges, error_class)] if judges or is_named else []
            lost = fixed if error_class == "fatal" else programs
            if lost and (error_class != "content" or always):
                ways.append((always, error_class))
        for asked, error_class in ways:
            outcome = "done" if is_named else error_class
            mild = self._found([*fixed, *(rule for rule, _ in asked)], state, kinds=(False,))
            for found in self._plainest(mild):
                yield from self._reported(
                    run, "incomplete", found, _samples(asked), _second(asked, state),
                    error_class, outcome, scores=self._scores(asked),
                )  # fmt: skip

    def _fails(
        self, run: RunState, state: ValidateState, applying: Sequence[Any], judges: Sequence[Any]
    ) -> Iterator[Option]:
        fixed = [rule for rule in applying if not isinstance(rule, JudgeRule)]
        always = [judge for judge in judges if judge[0].always]
        found = self._found([*fixed, *(rule for rule, _ in always)], state, wanted=fixed)
        asked, more = _samples(always), _second(always, state)
        origins = self._origins(run, fixed, [rule for rule, _ in always])
        for one in self._plainest(found, "is_wanted"):
            scores = self._scores(always)
            yield from self._reported(run, "fail", one, asked, more, scores=scores, origins=origins)
        for judge in judges:
            # It has failed, so it was asked again; whether the others were is open.
            others = [other for other in judges if other is not judge]
            reviewers = [rule for rule, _ in judges]
            mild = self._found(fixed, state, kinds=(False,))
            found = self._found(reviewers, state, wanted=[judge[0]], beside=mild)
            asked, more = _samples(judges) + _second([judge], state), _second(others, state)
            for one in self._plainest(found, "is_wanted"):
                scores = self._scores(judges)
                origins = self._origins(run, (), reviewers)
                yield from self._reported(
                    run, "fail", one, asked, more, scores=scores, origins=origins
                )
        for code in self._fault_codes(state.validate_):
            origins = self._first_of((), run)
            yield from self._reported(
                run, "fail", Found(1, 0, frozenset({code})), (), origins=origins
            )

    def _origins(
        self, run: RunState, fixed: Sequence[Any], judges: Sequence[Any]
    ) -> Sequence[str | None]:
        """What may be the earliest origin where a fixed rule blocks, and maybe a judge."""
        order = list(self.machine.origins)
        if not order:
            return (None,)
        own = [self._first_of(rule.origin, run)[0] for rule in fixed]
        latest = max(map(order.index, filter(None, own)), default=len(order))
        last = order.index(self._first_of((), run)[0] or "")
        of_judges = [self._first_of(rule.origin, run)[0] for rule in judges]
        if any(rule.map is None or rule.map.origin for rule in judges):
            of_judges += order[: last + 1]
        earlier = [o for o in of_judges if o is not None and order.index(o) <= latest]
        return tuple(dict.fromkeys((*own, *earlier)))

    def _first_of(self, named: Sequence[str], run: RunState) -> Sequence[str | None]:
        """The earliest of some origins in what is judged, all of which are authors of something."""
        order = list(self.machine.origins)
        if not order:
            return (None,)
        state = self.machine.states[run.state]
        assert isinstance(state, ValidateState)
        last = order.index(run.artifacts[state.validate_].author)
        places = [min(order.index(name), last) for name in named] or [last]
        return (order[min(places)],)

    def _found(
        self,
        rules: Sequence[Any],
        state: ValidateState,
        *,
        kinds: Sequence[bool] = (True, False),
        wanted: Sequence[Any] = (),
        beside: Iterable[Found] = (Found(),),
    ) -> set[Found]:
        """All that some rules can find, beside what others have found."""
        key = (tuple(map(id, rules)), tuple(kinds), tuple(map(id, wanted)), frozenset(beside))
        if key not in self._counted:
            limit = max(self.counts) + len(self.words)
            may = {True: _may_block, False: _may_warn}
            finders = [
                finder(
                    rule,
                    self.codes,
                    [kind for kind in kinds if may[kind](rule, state)],
                    limit,
                    is_wanted=any(rule is one for one in wanted),
                )
                for rule in rules
            ]
            self._counted[key] = counted_out(finders, limit, beside)
        return self._counted[key]

    def _plainest(self, found: set[Found], only: str = "") -> list[Found]:
        """Those that guards tell apart; `only` such as have warnings, or one that is wanted."""
        key = (id(found), only)
        if key not in self._told:
            read = {n: self.counts for n in ("error_count", "warning_count") if self._names(n)}
            some = (one for one in found if not only or getattr(one, only))
            # What was counted out is kept, so that its id stays its own.
            self._told[key] = plainest(some, read, self.codes)
        return self._told[key]

    def _fault_codes(self, artifact: str) -> Iterator[str]:
        """The codes of what is no artifact, of all its authors."""
        for name, state in self._authors(artifact):
            if isinstance(state, AgentState) and not self.graph.on(name, "content"):
                yield from ("empty", "cut-off")
                if self.machine.agents[state.agent].schema_ is not None:
                    yield from ("not-json", "schema")

    def _reported(
        self, run: RunState, verdict: str, found: Found, asked: Asked, more: Asked = (),
        error_class: Any = None, outcome: str = "done",
        scores: Sequence[Mapping[str, Any]] = ({},), origins: Sequence[str | None] = (None,),
    ) -> Iterator[Option]:  # fmt: skip
        state = self.machine.states[run.state]
        assert isinstance(state, ValidateState)
        artifact = run.artifacts[state.validate_]
        behind = self._behind(run, artifact)
        here = _attempt(artifact, behind)
        earlier = {
            _attempt(r.judged, r.report.made_from)
            for r in run.rounds
            if r.report.state == run.state
        } - {here}
        least = {"stalled": 1, "regressed": 2}
        progress = product(
            *(
                (False, True)
                if verdict == "fail" and len(earlier) >= number and self._names(word)
                else (False,)
                for word, number in least.items()
            )
        )
        codes = [*sorted(found.codes), *[""] * (found.errors + found.warnings)]
        for (stalled, regressed), origin in product(progress, origins):
            findings = tuple(
                Finding(
                    id=f"found{i}",
                    message="m",
                    severity="error" if i < found.errors else "warning",
                    blocking=i < found.errors,
                    status="regressed" if regressed and i == 0 else "new",
                    code=codes[i],
                    origins=() if origin is None else (origin,),
                )
                for i in range(found.errors + found.warnings)
            )
            report = Report(
                state=run.state, artifact=artifact.name, author=artifact.author,
                attempt=artifact.attempt, verdict=verdict, findings=findings,
                stalled=stalled, error_class=error_class, origin=origin, made_from=behind,
            )  # fmt: skip
            error = "" if outcome == "done" else verdict
            none = {"score": None} if run.state in self.graph.scoring else {}
            none |= {"origin": origin} if self.machine.origins else {}
            for score in scores:
                facts = {**report.facts, **none, **score}
                work = self._work(run, outcome, facts=facts, report=report, error=error)
                yield Option(work, asked, asked + more)

    def _scores(self, judges: Sequence[Any], *, always: bool = False) -> list[dict[str, Any]]:
        """What the judges that were asked leave: a number of their range, or none.

        They `always` give one where the artifact passes and none may be missing. One that rejects
        in its own words gives none.
        """
        scoring = [rule.score for rule, _ in judges if rule.score is not None]
        if not scoring:
            return [{}]
        low, high = min(score.min for score in scoring), max(score.max for score in scoring)
        numbers = [n for n in self.numbers if low <= n <= high] if self._names("score") else [low]
        return [{"score": n} for n in (*numbers, *(() if always else (None,)))]

    def _names(self, word: str) -> bool:
        return any(word in text for text in self.texts)

    def _judges(self, run: RunState, state: ValidateState) -> list[tuple[JudgeRule, Any]]:
        found = []
        for index, item in enumerate(state.by):
            place = item if isinstance(item, str) else f"by[{index}]"
            rules = (
                rules_of(self.machine.validators[item]) if isinstance(item, str) else rules_of(item)
            )
            for rule in rules:
                if isinstance(rule, JudgeRule) and self._applies(run, rule):
                    tries = self.machine.agents[rule.judge].retry.attempts
                    found.append((rule, (rule.judge, place, tries * (1 + rule.most_reasks))))
        return found

    def _applies(self, run: RunState, rule: Any) -> bool:
        if rule.guard is None:
            return True
        state = self.machine.states[run.state]
        assert isinstance(state, ValidateState)
        known = {
            "attempt": run.artifacts[state.validate_].attempt,
            **dict(_flat(run.input, "input.")),
        }
        return _holds(self._expanded(rule.guard), known)

    def _authors(self, artifact: str) -> Iterator[tuple[str, Any]]:
        for name, state in self.machine.states.items():
            is_author = isinstance(state, AgentState | CommandState | FilledState | SetState)
            if is_author and state.output_at(name).name == artifact:
                yield name, state

    def _may_be_infeasible(self, artifact: str) -> bool:
        return any(
            isinstance(state, AgentState) and self.machine.agents[state.agent].infeasible
            for _, state in self._authors(artifact)
        )

    # -- steps and paths -------------------------------------------------------------------

    def taken(self, run: RunState, option: Option) -> tuple[RunState, tuple[Any, ...]]:
        """The run after an option, and what a later observer can know of it."""
        self.left -= 1
        after = self.engine.step(run, option.work, 0.0).run
        self.spent |= Counter(after.counters)
        self._note_closed(run, option.outcome)
        self._note_asked(after)
        if after.status == "suspended":
            return after, ("suspended", option.outcome)
        is_kept = isinstance(option.work, Kept)
        return after, (after.route[-1], is_kept, *self._remembered(after))

    def _note_asked(self, run: RunState) -> None:
        """A person sees what has no room before there is an answer."""
        if run.status == "waiting":
            self._note_closed(run, "done")

    def _note_closed(self, run: RunState, event: str) -> None:
        back = (e for e in self.graph.outgoing[run.state] if e.back and e.event == event)
        self.closed.update(e.id for e in back if not has_room(self.engine.program, run, e))

    def _remembered(self, run: RunState) -> Iterator[Any]:
        """What guards ahead can tell of the facts, and of whether a round is the first one."""
        if run.state not in self._ahead:
            self._ahead[run.state] = self._read_from(run.state)
        facts, judging = self._ahead[run.state]
        for name in facts:
            yield self._class_of(name, self._fact(run, name))
        if any(name in self._asked_for_origins for name in self.graph.reachable(run.state)):
            yield run.last_report.origin if run.last_report else None
        for name in judging:
            yield self._progress(run, name)

    @cached_property
    def _asked_for_origins(self) -> set[str]:
        """The states of people that send back to the origin of what was found last."""
        edges = (edge for edge in self.graph.edges if edge.origin)
        return {e.source for e in edges if isinstance(self.machine.states[e.source], HumanState)}

    def _read_from(self, state: str) -> tuple[list[str], list[str]]:
        """The facts that guards read from a state on, and the states whose progress they read."""
        ahead = self.graph.reachable(state)
        later = [text for name in ahead for text in self.guards[name]]
        names = {n for text in later for n in NAMES.findall(WORD.sub("0", text))}
        facts = sorted(n for n in names if "." in n and not n.startswith("input."))
        words = ("stalled", "regressed")
        return facts, [
            n
            for n in sorted(ahead & self.graph.judges.keys())
            if any(w in t for t in self.guards[n] for w in words)
        ]

    def _fact(self, run: RunState, name: str) -> Any:
        *rest, state, fact = name.split(".")
        if rest:
            report = run.reports.get(state)
            return None if report is None else report.verdict
        return run.facts.get(state, {}).get(fact)

    def _progress(self, run: RunState, name: str) -> int:
        rounds = [r for r in run.rounds if r.report.state == name]
        judged = {_attempt(r.judged, r.report.made_from) for r in rounds}
        state = self.machine.states[name]
        assert isinstance(state, ValidateState)
        artifact = run.artifacts.get(state.validate_)
        now = _attempt(artifact, self._behind(run, artifact)) if artifact else None
        names = {n for text in self.texts for n in NAMES.findall(WORD.sub("0", text))}
        own = {n for text in self.guards[name] for n in NAMES.findall(WORD.sub("0", text))}
        told = {"stalled": 1, "regressed": 2}
        most = max(
            [number for word, number in told.items() if word in own or f"{name}.{word}" in names]
        )
        return min(2 * len(judged - {now}) + (now in judged), 2 * most)

    def steps(self, run: RunState) -> list[Step]:
        """What can happen next, each difference once. Raises NoEdge where a run is stuck."""
        found: dict[tuple[Any, ...], list[tuple[RunState, Option]]] = {}
        for option in self.options(run):
            after, key = self.taken(run, option)
            found.setdefault(key, []).append((after, option))
        return [
            Step(
                key,
                members[0][0],
                tuple(
                    map(min, zip(*(weigh(o.least, most=False) for _, o in members), strict=True))
                ),
                tuple(map(max, zip(*(weigh(o.most, most=True) for _, o in members), strict=True))),
                tuple(option for _, option in members),
            )
            for key, members in found.items()
        ]

    def all_paths(self, run: RunState) -> Paths:
        """Every path from one start; raises TooLong where that takes too many steps."""
        first = self._all_of(run)
        waiting = {first: run}
        ways: dict[Any, list[tuple[Step, Any]]] = {}
        while waiting:
            key, here = waiting.popitem()
            if self.left <= 0:
                raise TooLong
            steps = [] if here.status in ENDED else self.steps(here)
            ways[key] = [(step, self._all_of(step.run)) for step in steps]
            waiting |= {target: step.run for step, target in ways[key] if target not in ways}
        after = {key: {target for _, target in steps} for key, steps in ways.items()}
        known: dict[Any, Paths] = {ENDED: Paths(), SUCCESS: Paths(best=NOTHING)}
        for key in TopologicalSorter(after).static_order():
            if key not in known:
                onward = (_before(step, known[target]) for step, target in ways[key])
                known[key] = reduce(Paths.beside, onward, Paths())
        return known[first]

    def _all_of(self, run: RunState) -> Any:
        """What of a run decides how it goes on: paths that agree in it go on alike."""
        if run.status in ENDED:
            return SUCCESS if run.finished is not None and run.finished.success else ENDED
        is_told = run.is_revision or run.state in run.pending
        made = tuple(sorted(run.made_from)), frozenset(run.pending) & self.keeping
        is_kept = run.state in self.keeping and not is_told
        return (*everything_about(run), self._judged(run), made, is_kept)

    def _judged(self, run: RunState) -> int:
        """Which versions each state has judged, a bit for each: there may be a thousand."""
        judged = {(r.report.state, _attempt(r.judged, r.report.made_from)) for r in run.rounds}
        return sum(1 << self._bits.setdefault(one, len(self._bits)) for one in judged)

    def sampled(self, chance: random.Random) -> Weights:
        """What one path takes at most that goes on by chance, mostly where it is dear."""
        run = chance.choice(list(self.starts()))
        total = NOTHING
        for _ in range(MOST_SAMPLED):
            if run.status in ENDED:
                break
            steps = self.steps(run)
            back = [step for step in steps if step.run.entered_by and self._is_back(step)]
            step = chance.choice(back if back and chance.random() < 0.7 else steps)
            run, total = step.run, plus(total, step.most)
        return total

    def _is_back(self, step: Step) -> bool:
        edge = self.graph.by_id.get(str(step.key[0]))
        return edge is not None and edge.back


def _works_on_files(machine: Machine, name: str) -> bool:
    """Whether a program works in a state, or a file is all that is left of its work."""
    output = machine.states[name].output_at(name)
    asks_program = any(hasattr(agent, "command") for agent in machine.agents_at(name))
    return asks_program or bool(output and (output.file or output.folder))


def _attempt(artifact: Artifact, behind: Mapping[str, int]) -> tuple[Any, ...]:
    """The attempt of an artifact, with those of what it was made from."""
    return (artifact.author, artifact.attempt, *sorted(behind.items()))


def _samples(judges: Sequence[tuple[JudgeRule, Any]]) -> Asked:
    return tuple(asked for rule, asked in judges for _ in range(rule.samples))


def _second(judges: Sequence[tuple[JudgeRule, Any]], state: ValidateState) -> Asked:
    """The opinions that are asked for besides, where those judges fail who can."""
    return tuple(a for rule, a in judges if rule.confirm and _may_block(rule, state))


def _missing(judges: Sequence[tuple[JudgeRule, Any]], state: ValidateState) -> Iterator[Asked]:
    """The second opinions that may be missing, each way, where the others are enough to pass."""
    most = 0 if state.quorum is None else max(0, len(judges) - state.quorum)
    second = _second(judges, state)
    for number in range(min(most, len(second)) + 1):
        yield from combinations(second, number)


NEVER: Any = (float("inf"),) * 3
NOTHING: Weights = (0, 0, 0)
SUCCESS = ("success",)
ENDED = ("finished", "suspended")
MOST_SAMPLED = 100
"""Steps of a path that goes on by chance: what so many take is no more than all of them."""


@dataclass(frozen=True)
class Paths:
    """What many paths have in common."""

    worst: Weights = (0, 0, 0)
    best: Weights = NEVER
    taken: frozenset[str] = frozenset()
    """The edges."""

    def beside(self, other: Paths) -> Paths:
        worst = tuple(map(max, zip(self.worst, other.worst, strict=True)))
        best = tuple(map(min, zip(self.best, other.best, strict=True)))
        return Paths(worst, best, self.taken | other.taken)


def _before(step: Step, onward: Paths) -> Paths:
    """The paths that begin with a step."""
    is_limited = step.options[0].outcome == "limit"
    return Paths(
        plus(step.most, onward.worst),
        NEVER if is_limited else plus(step.least, onward.best),
        onward.taken | {str(step.key[0])},
    )


def plus(first: Weights, second: Weights) -> Weights:
    return tuple(map(operator.add, first, second))


def everything_about(run: RunState) -> tuple[Any, ...]:
    """What of a run the engine can read again, the versions that were judged left aside."""
    return (
        run.state,
        run.then_used,
        repr(run.input),
        tuple(sorted(run.counters.items())),
        tuple(sorted(run.attempts.items())),
        tuple(sorted((a.name, a.author, a.attempt) for a in run.artifacts.values())),
        tuple(sorted((name, repr(sorted(facts.items()))) for name, facts in run.facts.items())),
        tuple(sorted((name, report.verdict) for name, report in run.reports.items())),
        run.last_report.origin if run.last_report else None,
    )


def _near(texts: Iterable[str]) -> list[int]:
    """The whole numbers of some guards and their neighbours, none below zero."""
    found = {int(n) for text in texts for n in re.findall(r"(?<![\w.])\d+", text)}
    return sorted({0, 1} | {n + step for n in found for step in (-1, 0, 1) if n + step >= 0})


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _python(text: str) -> str:
    """A guard as Python would write it."""
    for word, literal in (("true", "True"), ("false", "False"), ("none", "None")):
        text = re.sub(rf"(?<![\w.\"]){word}(?![\w\"])", literal, text)
    return text


@cache
def _atoms(texts: tuple[str, ...], name: str) -> list[str]:
    """The smallest conditions on a name."""
    found: dict[str, None] = {}
    for text in texts:
        tree = ast.parse(_python(text), mode="eval")
        inside = {id(n) for c in ast.walk(tree) if isinstance(c, ast.Compare) for n in ast.walk(c)}
        for node in ast.walk(tree):
            is_alone = isinstance(node, ast.Name | ast.Attribute) and id(node) not in inside
            if isinstance(node, ast.Compare) or is_alone:
                told = ast.unparse(node)
                if name in NAMES.findall(WORD.sub("0", told.replace("'", '"'))):
                    found[told] = None
    return list(found)


@cache
def _compiled(text: str) -> Any:
    return compile(_python(text), "<guard>", "eval")


def _holds(text: str, known: Mapping[str, Any]) -> bool:
    """What a guard says of the values of dotted names."""
    names: dict[str, Any] = {}
    for dotted, value in known.items():
        first, *rest = dotted.split(".")
        if not rest:
            names[first] = value
            continue
        inner = names.setdefault(first, SimpleNamespace())
        for step in rest[:-1]:
            inner = inner.__dict__.setdefault(step, SimpleNamespace())
        inner.__dict__[rest[-1]] = value
    try:
        return bool(eval(_compiled(text), {"__builtins__": {}}, names))
    except TypeError:
        return False  # none is neither more nor less than anything
