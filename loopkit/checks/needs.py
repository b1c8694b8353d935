"""`unknown-name`, `may-be-missing`, `no-effect`: `needs` names something missing or useless."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from loopkit.checks.subject import Subject
from loopkit.checks.template_uses import Use
from loopkit.checks.templates import explain
from loopkit.document.problems import Problem
from loopkit.language import State
from loopkit.language.template import check, parse
from loopkit.machine.sources import names_in_templates, names_needed

ARTIFACTS = "`needs` names artifacts or fields of them"


def check_needs(subject: Subject) -> Iterator[Problem]:
    """The names under `needs` exist on every path to the state, which may be kept."""
    for name, state in subject.machine.states.items():
        yield from _missing(subject, name, state)
        if state.needed is None or name in subject.graph.keeping:
            continue
        # What the texts of a state do not name of it would count for `stalled`.
        if names_needed(subject.graph, name) <= names_in_templates(subject.graph, name):
            yield subject.no_effect(("states", name, "needs"), _why_not(subject, name, state))


def _missing(subject: Subject, name: str, state: State) -> Iterator[Problem]:
    """The names that may be missing when the state works."""
    if not state.needed:
        # Testing every artifact for each state would take time quadratic in the states.
        return
    entering = subject.entering[name]
    artifacts = {one: entering[one] for one in subject.graph.artifacts if one in entering}
    for index, needed in enumerate(state.needed):
        path, text = ("states", name, "needs", index), f"{{{{ {needed} }}}}"
        for fault in check(parse(text), artifacts):
            # A template can test for a missing name; `needs` can't.
            bare = replace(fault, help="") if fault.code == "may-be-missing" else fault
            error = explain(subject, Use(path, text, artifacts, name), bare)
            remedy = error.help or (ARTIFACTS if error.code == "unknown-name" else "")
            yield subject.source.problem(path, error.code, error.message, help=remedy)


def _why_not(subject: Subject, name: str, state: State) -> str:
    """Why a state is never kept."""
    if not state.may_be_kept:
        return "who else writes to a file is not known, so this state always works"
    if not subject.machine.may_be_kept(name):
        return "a program may depend on more than it is told, so this state always works"
    return "no way leads here again but by a revision, so there is nothing to keep"
