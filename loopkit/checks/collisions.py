"""Checks of names that mean two things, and of what tells findings apart and grades them.

`name-collision`, `reserved-name`, `shadowed-name`, `missing-key`, `unknown-origin`, `bad-origin`,
`origin-order`, `unknown-severity`, `too-large-quorum`, `no-effect`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from itertools import pairwise

from loopkit.checks.subject import Found, Subject, Texts, of_machine, of_rules, of_states
from loopkit.checks.templates import OF_COMMANDS, OF_MESSAGES, OF_PROGRAMS
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language.datatypes.notation import field_place, parse_record
from loopkit.language.facts import CAME_FROM, OF_REPORTS, OF_REVISING, ORIGIN
from loopkit.language.guard.grammar import KEYWORDS
from loopkit.language.machine import NO_FINDING
from loopkit.language.states import STATE_NOUNS
from loopkit.language.states.kinds import DataState, ValidateState
from loopkit.language.states.state import Output, StateBase, WorkingState
from loopkit.language.validators import Rule
from loopkit.language.validators.report_map import ReportMap
from loopkit.language.validators.rule import RuleBase
from loopkit.machine.scope import EVERYWHERE_NAMES, own_names
from loopkit.proof.outcomes.analysis import PlacedRule, levels_at, may_block
from loopkit.text import fold, plural

OF_EVERY_STATE = frozenset({"attempt", *OF_REVISING, "input", "reports"})
"""Names known to guards in every state, or in every one with a revise edge."""
OF_WORK = frozenset({*EVERYWHERE_NAMES, "input", "report", "reports", "loop", "range"})
"""Names known to templates in every state that works."""
RESERVED = OF_WORK.union(OF_MESSAGES, OF_COMMANDS, OF_PROGRAMS, ("choice", "comment", "artifact"))
"""Names known to templates in at least one place."""
SAID = frozenset(name for noun in STATE_NOUNS for name in noun.said)
"""Names of results of a state's work, which follow the state's name and a dot."""
ANOTHER = "choose another name"


@of_machine()
def check_ids(subject: Subject) -> Found:
    """States and artifacts share one namespace with the names that templates already have."""
    of_agents = (agent.own_names for agent in subject.machine.agents.values())
    taken = RESERVED.union(KEYWORDS, *of_agents)
    for path, name in _artifacts(subject):
        if name in taken:
            yield _reserved(subject, path, name, key=path == ("states", name))
        is_other = path != ("states", name) and subject.graph.written.get(name) != name
        if name in subject.states and is_other:
            message = f"`{name}` is also a state, and it does not write this artifact"
            yield subject.problem(path, "name-collision", message, ANOTHER)
    # The name of an item hides no other name that templates beside it may read.
    for path, name in _items(subject):
        if name in OF_WORK.union(KEYWORDS):
            yield _reserved(subject, path, name, key=False)
        elif name in subject.states or name in subject.graph.artifacts:
            kind = "a state" if name in subject.states else "an artifact"
            message = f"`{name}` is also {kind}: templates could not tell them apart"
            yield subject.problem(path, "name-collision", message, ANOTHER)


def _artifacts(subject: Subject) -> Texts:
    """The names of states, and those of artifacts where these differ."""
    for name, state in subject.states.items():
        yield ("states", name), name
        if (artifact := subject.graph.written.get(name, name)) != name:
            is_long = isinstance(getattr(state, "output", None), Output)
            yield ("states", name, "output", *(("name",) if is_long else ())), artifact
    yield from ((("artifacts", name), name) for name in subject.machine.first_values)


def _items(subject: Subject) -> Texts:
    for name, first in subject.machine.first_values.items():
        yield from ((("artifacts", name, "for", item), item) for item in first.lists)
    for name, state in subject.states.items():
        is_data = isinstance(state, DataState)
        for item in state.item_lists:
            yield ("states", name, *(("for", item) if is_data else ("as",))), item


def _reserved(subject: Subject, path: DocPath, name: str, *, key: bool = True) -> Problem:
    means = "means something else in templates already"
    means = "is a word of the guard language" if name in KEYWORDS else means
    return subject.problem(path, "reserved-name", f"`{name}` {means}", ANOTHER, key=key)


@of_states(StateBase)
def check_fields(subject: Subject, name: str, state: StateBase) -> Found:
    if state.asked_form is not None:
        path: DocPath = ("states", name, "form")
        fields = parse_record(state.asked_form).fields or {}
        written = {field: (*path, *field_place(state.asked_form, field)) for field in fields}
        routed = {ORIGIN} if name in subject.told_what_was_found else set()
        built_in = OF_EVERY_STATE.union(state.said, RESERVED, (CAME_FROM,), routed)
        others = subject.graph.artifacts.keys() | subject.states.keys()
        yield from _shadowing(subject, written, built_in, "feedback", others)
    for agent in state.asks:
        yield from _check_answer(subject, name, agent)
    output = state.output_at(name)
    if state.facts and output is not None and output.name == name:
        path = ("states", name, "output", "fields")
        written = {field: (*path, field) for field in output.fields}
        yield from _shadowing(subject, written, frozenset(state.facts))


def _check_answer(subject: Subject, name: str, agent: str) -> Found:
    """The names of an agent's answer in guards, each at the field of the schema."""
    schema = subject.machine.agents[agent].schema_ if agent in subject.machine.agents else None
    path: DocPath = ("agents", agent, "schema")
    named = own_names(subject.graph, name)
    heads = dict.fromkeys(fact.partition(".")[0] for fact in named)
    written = {head: (*path, *field_place(schema or {}, head)) for head in heads}
    others = subject.states.keys() - named.keys()
    yield from _shadowing(subject, written, OF_EVERY_STATE, "guards", others)


def _shadowing(
    subject: Subject, written: Mapping[str, DocPath], built_in: Set[str], who: str = "",
    others: Set[str] = frozenset(),
) -> Found:  # fmt: skip
    for field, place in written.items():
        if field in KEYWORDS:
            yield _reserved(subject, place, field)
        elif field in built_in:
            message = f"the field `{field}` would hide the built-in name `{field}`"
            yield subject.problem(place, "shadowed-name", message, ANOTHER)
        if field in others:
            kind = "an artifact" if field in subject.graph.artifacts else "a state"
            message = f"`{field}` is also {kind}: {who} could not tell them apart"
            yield subject.problem(place, "name-collision", message, ANOTHER, key=True)


@of_machine()
def check_named_guards(subject: Subject) -> Found:
    facts = {name for state in subject.states for name in own_names(subject.graph, state)}
    taken = facts | OF_EVERY_STATE | {CAME_FROM} | SAID | OF_REPORTS.keys()
    for name in subject.machine.guards:
        if name in taken:
            message = f"the named guard `{name}` would hide the fact `{name}`"
            yield subject.problem(("guards", name), "shadowed-name", message, ANOTHER)


OF_MAP = "add `key:` with the path to what it calls a finding in every round"
OF_VERDICT = (
    "add a group `key` to `verdict.findings`, as in `^- (?P<key>[\\w.-]+): (?P<message>.+)$`"
)


@of_rules(RuleBase)
def check_finding_keys(subject: Subject, placed: PlacedRule[Rule]) -> Found:
    lacking = _lacking(subject, placed.rule)
    for name in placed.judged_at if lacking else ():
        state, levels = subject.judges[name], levels_at(subject.machine, subject.judges[name])
        message = ""
        if state.merge is not None and placed.rule.asks is not None:
            message = f"`merge` of `{name}` joins findings with the same key, but these have none"
        elif state.settle_after is not None and may_block(placed.rule, levels):
            message = f"`settle_after` of `{name}` could recognize these findings only by their"
            message += " words"
        if lacking and message:
            yield subject.problem((*placed.path, *lacking[0]), "missing-key", message, lacking[1])


def _lacking(subject: Subject, rule: Rule) -> tuple[DocPath, str] | None:
    """Where a key is missing and how to add one; none where there is one, or no need of it.

    A judge in our own form is asked about what was open, and rules know what they look for.
    """
    if rule.report_map is not None and rule.report_map.key is None:
        return ("map",), OF_MAP
    if rule.verdict_reading is None:
        return None
    written = rule.verdict_reading.findings
    if written is None:
        return ("verdict",), OF_VERDICT
    pattern = subject.pattern(written)
    has_key = pattern is None or "key" in pattern.groupindex
    return None if has_key else (("verdict", "findings"), OF_VERDICT)


@of_machine()
def check_origins(subject: Subject) -> Found:
    machine = subject.machine
    for index, name in enumerate(machine.origins):
        state, path = machine.states.get(name), ("origins", index)
        if state is None:
            yield subject.unknown(path, "bad-origin", "there is no state", name, machine.states)
        elif not state.reads_feedback:
            message = f"`{name}` writes nothing that feedback could change"
            authors = [f"`{one}`" for one, known in machine.states.items() if known.reads_feedback]
            remedy = "name the states that are to fix what is found: "
            remedy += ", ".join(authors) or "none does"
            yield subject.problem(path, "bad-origin", message, remedy)
    for index, (before, after) in enumerate(pairwise(machine.origins), 1):
        if not {before, after} <= machine.states.keys():
            continue
        if before == after or after not in subject.graph.reachable(before, back=False):
            message = f"no forward path leads from `{before}` to `{after}`"
            remedy = "list the origins in the order in which they work, each once"
            yield subject.problem(("origins", index), "origin-order", message, remedy)
    for at, name in _names_of_origins(subject):
        if name not in machine.origins:
            message = f"`{name}` is not among the origins"
            if not machine.origins:
                message = f"`{name}` is no origin: the machine declares none"
            add = f"add `origins: [{name}]` at the top, with all states that can inject a defect"
            remedy = did_you_mean(name, machine.origins) or add
            yield subject.problem(at, "unknown-origin", message, remedy)


def _names_of_origins(subject: Subject) -> Texts:
    for placed in subject.rules:
        for origin in placed.rule.origin:
            yield (*placed.path, "origin"), origin
        read = placed.rule.report_map or ReportMap()
        path = (*placed.path, "map")
        for word, states in read.origins.items():
            yield from (((*path, "origins", word), state) for state in states)
        for at, check in read.checks.items():
            yield from (((*path, "checks", at, "origin"), state) for state in check.origin)
    for name, state in subject.machine.states_of(WorkingState).items():
        for index, transition in enumerate(state.transitions or ()):
            for origin in transition.origins:
                yield ("states", name, "transitions", index, "revise", "origin"), origin


@of_machine()
def check_severities(subject: Subject) -> Found:
    known = subject.machine.severities
    for path, level in _levels(subject):
        if level is not None and level not in known:
            what, listed = "there is no severity", f"one of {', '.join(known)}"
            yield subject.unknown(path, "unknown-severity", what, level, known, listed)
    for placed in subject.rules:
        read = placed.rule.report_map or ReportMap()
        words = (*read.severities, *known)
        for counted in read.counts:
            if counted not in words and fold(counted) not in map(fold, read.severities):
                message = f"no severity of a report is called `{counted}`"
                place = (*placed.path, "map", "counts", counted)
                remedy = did_you_mean(counted, words)
                yield subject.problem(place, "unknown-severity", message, remedy, key=True)


def _levels(subject: Subject) -> Iterator[tuple[DocPath, str | None]]:
    for placed in subject.rules:
        path, rule, read = placed.path, placed.rule, placed.rule.report_map or ReportMap()
        yield (*path, "severity"), rule.severity
        of_verdict = rule.verdict_reading.severities if rule.verdict_reading is not None else {}
        for key, words in (("map", read.severities), ("verdict", of_verdict)):
            for word, level in words.items():
                yield (*path, key, "severities", word), None if level == NO_FINDING else level
        for at, check in read.checks.items():
            yield (*path, "map", "checks", at, "severity"), check.severity
    for name, state in subject.judges.items():
        yield ("states", name, "block"), state.block


@of_states(ValidateState)
def check_counting(subject: Subject, name: str, state: ValidateState) -> Found:
    judges = sum(rule.asks is not None for rule in subject.graph.rules_at(name))
    if state.quorum is not None and state.quorum > judges:
        message = f"{plural(state.quorum, 'judge')} have to answer, and {_judges_text(judges)}"
        yield subject.problem(("states", name, "quorum"), "too-large-quorum", message, "lower it")
    if state.combine == "majority" and judges < 3:
        message = f"nobody can be outvoted: {_judges_text(judges)}"
        yield subject.no_effect(("states", name, "combine"), message)
    if state.merge is not None and judges < 2:
        message = f"there is nothing to merge: {_judges_text(judges)}"
        yield subject.no_effect(("states", name, "merge"), message)
    levels = subject.machine.levels.blocking_from(state.block)
    settles = any(levels.blocks(level) for level in levels.levels[1:])
    if state.settle_after is not None and not settles:
        message = "only the worst severity blocks here, and that blocks after any round"
        yield subject.no_effect(("states", name, "settle_after"), message)


def _judges_text(judges: int) -> str:
    return f"only {plural(judges, 'judge')} can be asked" if judges else "no judge is asked"
