"""Checks of names that mean two things, and of what tells findings apart and grades them.

`name-collision`, `reserved-name`, `shadowed-name`: one name stands for two things.
`missing-key`: findings are compared over rounds or judges, and only their words differ.
`unknown-origin`, `bad-origin`, `origin-order`: a state named as an origin can't be one.
`unknown-severity`, `too-large-quorum`, `no-effect`: severities, and rules that count reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from itertools import pairwise
from typing import Any

from loopkit.checks.subject import Subject
from loopkit.checks.templates import OF_COMMANDS, OF_MESSAGES, OF_PROGRAMS
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language.datatypes.notation import field_place, parse_record
from loopkit.language.facts import CAME_FROM, OF_REPORTS, OF_REVISING, ORIGIN
from loopkit.language.guard.grammar import KEYWORDS
from loopkit.language.machine import NO_FINDING
from loopkit.language.states import STATE_NOUNS
from loopkit.language.states.kinds import DataState
from loopkit.language.states.state import Output, WorkingState
from loopkit.language.validators import Rule
from loopkit.language.validators.report_map import ReportMap
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


def check_ids(subject: Subject) -> Iterator[Problem]:
    """States and artifacts share one namespace with the names that templates already have."""
    of_agents = (agent.own_names for agent in subject.machine.agents.values())
    taken = RESERVED.union(KEYWORDS, *of_agents)
    for name in subject.states:
        path: DocPath = ("states", name)
        if name in taken:
            yield _name_problem(subject, path, name)
        artifact = subject.graph.written.get(name)
        if artifact is not None and artifact != name:
            is_long = isinstance(getattr(subject.states[name], "output", None), Output)
            path = ("states", name, "output", *(("name",) if is_long else ()))
            yield from _check_artifact(subject, path, artifact, taken)
    for name, first in subject.machine.first_values.items():
        yield from _check_artifact(subject, ("artifacts", name), name, taken)
        for item in first.lists:
            yield from _check_item(subject, ("artifacts", name, "for", item), item)
    for name, state in subject.states.items():
        for item in state.item_lists:
            at = ("for", item) if isinstance(state, DataState) else ("as",)
            yield from _check_item(subject, ("states", name, *at), item)
    if "artifact" in subject.machine.validators:
        yield _name_problem(subject, ("validators", "artifact"), "artifact")


def _name_problem(subject: Subject, path: DocPath, name: str, *, key: bool = True) -> Problem:
    if name in KEYWORDS:
        message = f"`{name}` is a word of the guard language"
    else:
        message = f"`{name}` means something else in templates already"
    return subject.problem(path, "reserved-name", message, ANOTHER, key=key)


def _check_artifact(
    subject: Subject, path: DocPath, artifact: str, taken: Set[str]
) -> Iterator[Problem]:
    if artifact in taken:
        yield _name_problem(subject, path, artifact, key=False)
    namesake = artifact in subject.states
    if namesake and subject.graph.written.get(artifact) != artifact:
        message = f"`{artifact}` is also a state, and it does not write this artifact"
        yield subject.problem(path, "name-collision", message, ANOTHER)


def _check_item(subject: Subject, path: DocPath, name: str) -> Iterator[Problem]:
    """The name of an item hides no other name that templates beside it may read."""
    if name in OF_WORK.union(KEYWORDS):
        yield _name_problem(subject, path, name, key=False)
    elif name in subject.states or name in subject.graph.artifacts:
        kind = "a state" if name in subject.states else "an artifact"
        message = f"`{name}` is also {kind}: templates could not tell them apart"
        yield subject.problem(path, "name-collision", message, ANOTHER)


def check_fields(subject: Subject) -> Iterator[Problem]:
    for name, state in subject.states.items():
        if state.asked_form is not None:
            yield from _check_form(subject, name, state.asked_form, frozenset(state.said))
        for agent in state.asks:
            yield from _check_answer(subject, name, agent)
        output = state.output_at(name)
        if state.facts and output is not None and output.name == name:
            path: DocPath = ("states", name, "output", "fields")
            written = {field: (*path, field) for field in output.fields}
            yield from _shadowing(subject, written, frozenset(state.facts))


def _check_form(
    subject: Subject, name: str, form: Mapping[str, Any], said: frozenset[str]
) -> Iterator[Problem]:
    path: DocPath = ("states", name, "form")
    fields = parse_record(form).fields or {}
    written = {field: (*path, *field_place(form, field)) for field in fields}
    routed = {ORIGIN} if name in subject.told_what_was_found else set()
    built_in = OF_EVERY_STATE.union(said, RESERVED, (CAME_FROM,), routed)
    yield from _shadowing(subject, written, built_in)
    for field, place in written.items():
        if field in subject.graph.artifacts or field in subject.states:
            kind = "an artifact" if field in subject.graph.artifacts else "a state"
            message = f"`{field}` is also {kind}: feedback could not tell them apart"
            yield subject.problem(place, "name-collision", message, ANOTHER, key=True)


def _check_answer(subject: Subject, name: str, agent: str) -> Iterator[Problem]:
    """The names of an agent's answer in guards, each at the field of the schema."""
    schema = subject.machine.agents[agent].schema_ if agent in subject.machine.agents else None
    path: DocPath = ("agents", agent, "schema")
    named = own_names(subject.graph, name)
    heads = dict.fromkeys(fact.partition(".")[0] for fact in named)
    written = {head: (*path, *field_place(schema or {}, head)) for head in heads}
    yield from _shadowing(subject, written, OF_EVERY_STATE)
    for head, place in written.items():
        if head in subject.states and head not in named:
            message = f"`{head}` is also a state: guards could not tell their fields apart"
            yield subject.problem(place, "name-collision", message, ANOTHER, key=True)


def _shadowing(
    subject: Subject, written: Mapping[str, DocPath], built_in: frozenset[str]
) -> Iterator[Problem]:
    for field, place in written.items():
        if field in KEYWORDS:
            yield _name_problem(subject, place, field)
        elif field in built_in:
            message = f"the field `{field}` would hide the built-in name `{field}`"
            yield subject.problem(place, "shadowed-name", message, ANOTHER, key=True)


def check_named_guards(subject: Subject) -> Iterator[Problem]:
    facts = {name for state in subject.states for name in own_names(subject.graph, state)}
    taken = facts | OF_EVERY_STATE | {CAME_FROM} | SAID | OF_REPORTS.keys()
    for name in subject.machine.guards:
        path: DocPath = ("guards", name)
        if name in KEYWORDS:
            yield _name_problem(subject, path, name)
        elif name in taken:
            message = f"the named guard `{name}` would hide the fact `{name}`"
            yield subject.problem(path, "shadowed-name", message, ANOTHER, key=True)


OF_MAP = "add `key:` with the path to what it calls a finding in every round"
OF_VERDICT = (
    "add a group `key` to `verdict.findings`, as in `^- (?P<key>[\\w.-]+): (?P<message>.+)$`"
)


def check_finding_keys(subject: Subject) -> Iterator[Problem]:
    for placed in subject.rules:
        lacking = _lacking(subject, placed.rule)
        for name in placed.judged_at if lacking else ():
            message = _need_of_key(subject, name, placed)
            if lacking and message:
                path = (*placed.path, *lacking[0])
                remedy = lacking[1]
                yield subject.problem(path, "missing-key", message, remedy, key=True)


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


def _need_of_key(subject: Subject, name: str, placed: PlacedRule[Rule]) -> str:
    """The reason why a state needs a key of this rule's findings; empty if it needs none."""
    state = subject.judges[name]
    if state.merge is not None and placed.rule.asks is not None:
        return f"`merge` of `{name}` joins findings with the same key, but these have none"
    if state.settle_after is not None and may_block(placed.rule, levels_at(subject.machine, state)):
        return f"`settle_after` of `{name}` could recognize these findings only by their words"
    return ""


def check_origins(subject: Subject) -> Iterator[Problem]:
    machine = subject.machine
    for index, name in enumerate(machine.origins):
        yield from _check_origin(subject, name, ("origins", index))
    for index, (before, after) in enumerate(pairwise(machine.origins)):
        if not {before, after} <= machine.states.keys():
            continue
        if before == after or after not in subject.graph.reachable(before, back=False):
            message = f"no forward path leads from `{before}` to `{after}`"
            remedy = "list the origins in the order in which they work, each once"
            yield subject.problem(("origins", index + 1), "origin-order", message, remedy)
    for path, name in _names_of_origins(subject):
        if name not in machine.origins:
            yield _unknown(subject, path, name)


def _check_origin(subject: Subject, name: str, path: DocPath) -> Iterator[Problem]:
    state = subject.states.get(name)
    if state is None:
        message = f"there is no state `{name}`"
        remedy = did_you_mean(name, subject.states)
        yield subject.problem(path, "bad-origin", message, remedy)
    elif not state.reads_feedback:
        message = f"`{name}` writes nothing that feedback could change"
        states = subject.states.items()
        authors = ", ".join(f"`{one}`" for one, known in states if known.reads_feedback)
        remedy = f"name the states that are to fix what is found: {authors or 'none does'}"
        yield subject.problem(path, "bad-origin", message, remedy)


def _names_of_origins(subject: Subject) -> Iterator[tuple[DocPath, str]]:
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


def _unknown(subject: Subject, path: DocPath, name: str) -> Problem:
    declared = subject.machine.origins
    if not declared:
        message = f"`{name}` is no origin: the machine declares none"
        remedy = f"add `origins: [{name}]` at the top, with all states that can inject a defect"
    else:
        message = f"`{name}` is not among the origins"
        remedy = did_you_mean(name, declared) or "add it to `origins` at the top"
    return subject.problem(path, "unknown-origin", message, remedy)


def check_severities(subject: Subject) -> Iterator[Problem]:
    for placed in subject.rules:
        if placed.rule.severity is not None:
            yield from _level(subject, (*placed.path, "severity"), placed.rule.severity)
        if placed.rule.report_map is not None:
            yield from _of_map(subject, (*placed.path, "map"), placed.rule.report_map)
        if (reading := placed.rule.verdict_reading) is not None:
            yield from _of_words(subject, (*placed.path, "verdict"), reading.severities)
    for name, state in subject.judges.items():
        if state.block is not None:
            yield from _level(subject, ("states", name, "block"), state.block)


def _of_words(subject: Subject, path: DocPath, words: Mapping[str, str]) -> Iterator[Problem]:
    for word, level in words.items():
        if level != NO_FINDING:
            yield from _level(subject, (*path, "severities", word), level)


def _of_map(subject: Subject, path: DocPath, read: ReportMap) -> Iterator[Problem]:
    yield from _of_words(subject, path, read.severities)
    for at, check in read.checks.items():
        if check.severity is not None:
            yield from _level(subject, (*path, "checks", at, "severity"), check.severity)
    known = (*read.severities, *subject.machine.severities)
    for counted in read.counts:
        if counted not in known and fold(counted) not in map(fold, read.severities):
            message = f"no severity of a report is called `{counted}`"
            remedy = did_you_mean(counted, known)
            place = (*path, "counts", counted)
            yield subject.problem(place, "unknown-severity", message, remedy, key=True)


def check_counting(subject: Subject) -> Iterator[Problem]:
    for name, state in subject.judges.items():
        judges = sum(rule.asks is not None for rule in subject.graph.rules_at(name))
        if state.quorum is not None and state.quorum > judges:
            message = f"{plural(state.quorum, 'judge')} have to answer, and {_judges_text(judges)}"
            path = ("states", name, "quorum")
            yield subject.problem(path, "too-large-quorum", message, "lower it")
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


def _level(subject: Subject, path: DocPath, level: str) -> Iterator[Problem]:
    known = subject.machine.severities
    if level not in known:
        remedy = did_you_mean(level, known) or f"one of {', '.join(known)}"
        message = f"there is no severity `{level}`"
        yield subject.problem(path, "unknown-severity", message, remedy)
