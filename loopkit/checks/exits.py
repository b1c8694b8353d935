"""`stuck`, `no-open-choice`, `dead-transition`: rows of facts without an edge, and vice versa."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem
from loopkit.language.facts import VERDICT
from loopkit.proof.outcomes import OTHER_TEXT, ROOM, Exit, Row, Table, table_of

MAY_BE_STUCK = "may be stuck: its guards leave more cases open than can be enumerated"
MOVE_UP = "delete it, or move it up"


def check_exits(subject: Subject) -> Iterator[Problem]:
    """States in which a run could be stuck, and transitions that no run takes."""
    for name in subject.machine.states:
        table = table_of(subject, name)
        if table is not None and table.exits:
            taken = [(row, *table.exits_of(row)) for row in table.rows()]
            held = next((row for row, _, is_left in taken if not is_left), None)
            yield from _stuck(subject, name, table, held)
            yield from _dead(subject, table, {e.edge.id for _, exits, _ in taken for e in exits})


def _stuck(subject: Subject, name: str, table: Table, row: Row | None) -> Iterator[Problem]:
    """`row` is one that may have no transition, if there is such a row."""
    if row is not None:
        path = ("states", name, "transitions")
        message = f"`{name}` {_how_stuck(table, row)}"
        remedy = "add `- {target: STATE}` as the last one"
        yield subject.source.problem(path, "stuck", message, help=remedy, key=True)
        return
    shut = table.without_choice() if table.is_human else None
    if shut is not None:
        path = ("states", name, "choices")
        message = f"no choice is open when {_facts_in_words(table, shut) or 'it is asked'}"
        remedy = "offer a choice that leads forward"
        yield subject.source.problem(path, "no-open-choice", message, help=remedy)


def _how_stuck(table: Table, row: Row) -> str:
    if not table.is_stuck(row):
        return MAY_BE_STUCK
    reason = _facts_in_words(table, _reduce(table, row))
    return f"is stuck: no transition is open{f' when {reason}' if reason else ''}"


def _reduce(table: Table, row: Row) -> Row:
    """Remove the facts that do not matter for being stuck."""
    named = {name for exit_ in table.exits if exit_.guard for name in exit_.guard.names}
    facts = sorted(row, key=lambda fact: (fact in named, fact in (VERDICT, "choice")))
    kept = dict(row)
    for fact in facts:
        fewer = {other: value for other, value in kept.items() if other != fact}
        if table.is_stuck(table.with_derived_facts(fewer)):
            kept = fewer
    return kept


def _facts_in_words(table: Table, row: Row) -> str:
    """The facts of a row in words."""
    shown = (name for name in row if not name.startswith(ROOM) and name != "cap_reached")
    parts = [fact_in_words(name, row[name]) for name in shown]
    return " and ".join([*parts, *_rooms(table, row)])


def fact_in_words(name: str, value: object) -> str:
    """A fact and its value, for the end of a sentence."""
    match value:
        case None:
            return f"`{name}` is none"
        case frozenset():
            held = ", ".join(
                json.dumps(text, ensure_ascii=False) for text in sorted(map(str, value))
            )
            return f"`{name}` holds {held}" if held else f"`{name}` holds none of those"
        case str() if value == OTHER_TEXT:
            return f"`{name}` is a text that no guard names"
        case _:
            return f"`{name}` is {json.dumps(value, ensure_ascii=False)}"


def _rooms(table: Table, row: Row) -> Iterator[str]:
    row = table.with_derived_facts(row)
    back = [exit_ for exit_ in table.exits if exit_.edge.back]
    if row.get("cap_reached") is True:
        yield "no revisions are left"
        return
    for exit_ in back:
        if exit_.is_open(row) is False:
            yield f"no revision of `{exit_.edge.target}` is left"
    if row.get("cap_reached") is False:
        yield "revisions are left"


def _dead(subject: Subject, table: Table, taken: Collection[str]) -> Iterator[Problem]:
    for exit_ in table.exits:
        if exit_.edge.id in taken or _is_exempt(subject, table, exit_):
            continue
        reason, remedy = _why_dead(table, exit_)
        message = f"this transition is never taken: {reason}"
        yield subject.source.problem(
            exit_.edge.path, "dead-transition", message, help=remedy, severity="warning"
        )


def _is_exempt(subject: Subject, table: Table, exit_: Exit) -> bool:
    """Whether an exit is a default at the end, or is switched off by a cap of 0."""
    edge = exit_.edge
    is_default = edge.guard is None and not edge.back and exit_ is table.exits[-1]
    return is_default or any(subject.graph.caps.get(counter) == 0 for counter in edge.counters)


def _why_dead(table: Table, exit_: Exit) -> tuple[str, str]:
    """The reason and the remedy."""
    before = table.exits[: table.exits.index(exit_)]
    if any(other.edge.guard is None and not other.edge.back for other in before):
        return "one before it has no guard", MOVE_UP
    if exit_.edge.origin is not None and not table.has_origin(exit_.edge.origin):
        reason = f"nothing that is found here can have the origin `{exit_.edge.origin}`"
        return reason, "leave the origin out, or delete the transition"
    if not table.may_hold(exit_.wanted):
        return "its guard is never true here", "correct the guard, or delete the transition"
    if not table.may_hold(exit_.wanted, exit_.allowed):
        return 'only a report with the verdict "fail" is sent back', "write `target:`, or delete it"
    return "the ones before it cover every case", MOVE_UP
