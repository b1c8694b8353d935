"""Reads of rules: the inputs and artifacts that they need besides the one that they judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from loopkit.language import Machine, Rule
from loopkit.language.datatypes import parse_record
from loopkit.language.guard import expand
from loopkit.language.guard import parse as parse_guard
from loopkit.language.template import parse

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
        for text in _templates(machine, rule):
            yield from parse(text).paths


def _templates(machine: Machine, rule: Rule) -> Iterator[str]:
    yield from (text for _, text in rule.templates)
    yield from (text for _, text in rule.finding_templates)
    if rule.asks is not None:
        yield from (text for _, text in machine.agents[rule.asks].templates)
    if machine.workspace is not None:
        yield machine.workspace.path


def _steps(dotted: str) -> Path:
    return tuple(dotted.split("."))
