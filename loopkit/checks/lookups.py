"""`no-known-values`, `unreadable-data`, `may-be-missing`: a `lookup:` has nothing to look in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from loopkit.checks.artifacts import way_without
from loopkit.checks.sees import unseen
from loopkit.checks.state_paths import on_path
from loopkit.checks.subject import Subject
from loopkit.document import read
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, ProblemsFound
from loopkit.language import AcyclicRule, DataFile, Lookup, LookupRule
from loopkit.language.guard import GuardError, parse_path
from loopkit.language.guard.paths import ITEMS
from loopkit.language.template import Anything, Fields, Items, Scalar, Shape
from loopkit.language.template.shapes import member
from loopkit.machine.flow import Token
from loopkit.machine.item_types import step_into
from loopkit.machine.path_values import same_as, values_at
from loopkit.validators.data import NoData, data_in, place

MOST_SHOWN = 12
"""The most fields that are named of a place without values."""


def check_lookups(subject: Subject) -> Iterator[Problem]:
    """The files, inputs and artifacts of `lookup:` rules, at each state that judges by them."""
    for given in subject.rules_of(AcyclicRule):
        if (name := given.rule.acyclic.given) is not None:
            for state in given.used_at:
                yield from _unusable(subject, (*given.path, "acyclic", "given"), name, state)
    for placed in subject.rules_of(LookupRule):
        if not _has_paths(placed.rule.lookup):
            continue
        lookup, path = placed.rule.lookup, (*placed.path, "lookup")
        if isinstance(lookup.in_, DataFile):
            yield from _of_file(subject, path, lookup, lookup.in_)
            continue
        for state in placed.used_at:
            yield from _of_name(subject, path, lookup, lookup.in_, state)


def _has_paths(lookup: Lookup) -> bool:
    """Whether its paths can be parsed; a path that can't be is reported by another check."""
    try:
        parse_path(lookup.path)
        parse_path(lookup.at or ITEMS)
    except GuardError:
        return False
    return True


def _of_file(subject: Subject, path: DocPath, lookup: Lookup, file: DataFile) -> Iterator[Problem]:
    data = data_in(file)
    if isinstance(data, NoData):
        yield from _unreadable(subject, (*path, "in"), file, data)
    elif not any(same_as(value) for _, value in values_at(lookup.at, data)):
        at: DocPath = (*path, "at" if lookup.at else "in")
        yield _without_values(subject, at, place(lookup), _heads(data))


def _unreadable(subject: Subject, path: DocPath, file: DataFile, data: NoData) -> Iterator[Problem]:
    """The fault in a data file: at its place in YAML, with its reason in JSON."""
    included = subject.source.included.get(path)
    if included is not None and file.text.lstrip("\ufeff \r\n")[:1] not in ("{", "[", ""):
        try:
            read(included.text, included.file)
        except ProblemsFound as found:
            yield from found.problems
            return
    reason = data.reason.replace("the artifact", f"`{file}`", 1)
    yield subject.source.problem(path, "unreadable-data", reason, help="correct the file")


def _heads(data: object) -> list[str]:
    return [str(key) for key in data] if isinstance(data, Mapping) else []


def _without_values(
    subject: Subject, path: DocPath, where: str, fields: list[str], at: str = ""
) -> Problem:
    example = f'"{at}{fields[0]}"' if at and fields else '"items[].id"'
    remedy = f"write `at:` with the path to them, such as `at: {example}`"
    if fields:
        remedy += f"; it has {', '.join(f'`{name}`' for name in fields[:MOST_SHOWN])}"
    message = f"{where} has no values to look up"
    return subject.source.problem(path, "no-known-values", message, help=remedy)


def _of_name(
    subject: Subject, path: DocPath, lookup: Lookup, name: str, state: str
) -> Iterator[Problem]:
    names = subject.judging[state]
    problems = list(_unusable(subject, (*path, "in"), name, state))
    if problems:
        is_known = problems[0].code == "may-be-missing"
        remedy = "" if lookup.at or is_known else _split(name, names)
        yield from (p.replace(help=remedy) if remedy else p for p in problems)
    elif not _may_be_text(subject, name):
        yield from _check_types(subject, path, lookup, _shape_at(name, names))


def _unusable(subject: Subject, path: DocPath, name: str, state: str) -> Iterator[Problem]:
    """A problem if a name of known values is unknown or may be missing."""
    names = subject.judging[state]
    problems = list(unseen(subject, path, name, names))
    yield from problems
    if not problems and _shape_at(name, names).optional:
        yield _missing(subject, path, name, state)


def _split(name: str, names: Mapping[str, Shape]) -> str:
    """The right form of a name with a path into a list; empty if it has none."""
    parts = name.split(".")
    for count, part in enumerate(parts, 1):
        inside = ".".join([*parts[: count - 1], part.removesuffix(ITEMS)])
        if isinstance(_shape_at(inside, names), Items):
            at = ".".join([ITEMS, *parts[count:]])
            return f'write `in: {inside}, at: "{at}"`' if at != ITEMS else f"write `in: {inside}`"
    return ""


def _shape_at(name: str, names: Mapping[str, Shape]) -> Shape:
    shape: Shape = Fields(names)
    optional = False
    for step in name.split("."):
        shape = member(shape, step) or Anything()
        optional = optional or shape.optional
    return Anything(optional=True) if optional else shape


def _missing(subject: Subject, path: DocPath, name: str, state: str) -> Problem:
    token: Token = ("artifact", name)
    way = way_without(subject, token, state) if name in subject.graph.artifacts else None
    remedy = f"it is missing {on_path(way)}" if way is not None else "give it a default"
    message = f"`{name}` may be missing at `{state}`"
    return subject.source.problem(path, "may-be-missing", message, help=remedy)


def _may_be_text(subject: Subject, name: str) -> bool:
    """Whether a name may stand for a text, whose data is unknown before it exists."""
    if name == "artifact":
        return True
    for author in subject.graph.artifacts.get(name, ()):
        agents = subject.machine.agents_at(author)
        if not agents or any(agent.schema_ is None for agent in agents):
            return True
    return False


def _check_types(
    subject: Subject, path: DocPath, lookup: Lookup, shape: Shape
) -> Iterator[Problem]:
    """A problem if the types show that there can be no values at the place."""
    for step in parse_path(lookup.at) if lookup.at else ():
        inner = step_into(shape, step)
        if inner is None:
            heads = list(shape.fields) if isinstance(shape, Fields) else []
            yield _without_values(subject, (*path, "at"), place(lookup), heads)
            return
        shape = inner
    item = shape.item if isinstance(shape, Items) else None
    is_single = isinstance(shape, Scalar) and ITEMS not in parse_path(lookup.at or "none")
    if is_single or isinstance(item, Fields | Items):
        heads = list(item.fields) if isinstance(item, Fields) else []
        at = "" if lookup.at else "[]."
        yield _without_values(subject, (*path, "in" if at else "at"), place(lookup), heads, at)
