"""`child-state`, `unknown-outcome`, `reserved-name`, `parallel-writers`: how children run.

`no-effect`: a key keeps items apart that never overlap.
"""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language import EachState, Machine
from loopkit.language.states.children import BLOCKED, WITHOUT_END, ChildrenState
from loopkit.language.states.each import After
from loopkit.machine.writers import writers

APART = ("serial", "alone", "group")
"""The keys that say which items do not overlap."""


def check_child_runs(subject: Subject) -> Iterator[Problem]:
    """The states and outcomes of child machines that the states that run them name."""
    for name, state in subject.machine.states_of(ChildrenState).items():
        yield from _check_finals(subject, name, state)
    for name, each in subject.machine.states_of(EachState).items():
        yield from _check_outcomes(subject, name, each)
        yield from _check_apart(subject, name, each)
        yield from _check_writers(subject, name, each)


def _check_finals(subject: Subject, name: str, state: ChildrenState) -> Iterator[Problem]:
    """The final states of a child with reserved names, reported in the child's file."""
    child = subject.loaded.children.get(name)
    for final in (final for final in state.child.finals if final in WITHOUT_END):
        if child is not None:
            message = f"`{final}` is what becomes of a child that comes to no final state"
            yield child.source.problem(
                ("states", final), "reserved-name", message, help="choose another name", key=True
            )


def _check_outcomes(subject: Subject, name: str, state: EachState) -> Iterator[Problem]:
    finals = list(state.child.finals)
    path: DocPath = ("states", name)
    when = state.awaited if isinstance(state.after, After) else ()
    for at, outcomes, known in (
        ((*path, "stop_on"), state.stop_on, finals),
        ((*path, "after", "when"), when, [*finals, BLOCKED]),
    ):
        for index, outcome in enumerate(outcomes):
            if outcome not in known:
                message = f"no item has the outcome `{outcome}`"
                hint = did_you_mean(outcome, known)
                yield subject.source.problem((*at, index), "unknown-outcome", message, help=hint)


def _check_apart(subject: Subject, name: str, state: EachState) -> Iterator[Problem]:
    working = [each for each in state.child.states if _may_be_kept_apart(state.child, each)]
    for key in ("serial", "alone"):
        for index, inner in enumerate(getattr(state, key)):
            path: DocPath = ("states", name, key, index)
            if inner not in state.child.states:
                message = f"`{state.machine.file}` has no state `{inner}`"
            elif inner not in working:
                message = f"`{inner}` has no work of its own that could be kept apart"
            else:
                continue
            hint = did_you_mean(inner, working) or "delete it"
            yield subject.source.problem(path, "child-state", message, help=hint)
    if state.parallel == 1:
        for key in (key for key in APART if key in state.model_fields_set):
            message = f"`{key}` keeps items apart, and only one runs at a time"
            yield subject.no_effect(("states", name, key), message, "add `parallel: 2`")


def _may_be_kept_apart(child: Machine, name: str) -> bool:
    """Whether a state has its own work, which ends without anybody outside."""
    agents = child.agents_at(name)
    return child.states[name].has_own_work and all(agent.is_called for agent in agents)


def _check_writers(subject: Subject, name: str, state: EachState) -> Iterator[Problem]:
    if state.parallel == 1 or state.isolate != "none":
        return
    apart = {*state.serial, *state.alone}
    writing = [inner for inner in writers(state.child) if inner not in apart]
    if not writing:
        return
    inside = [inner for inner in writing if not _may_be_kept_apart(state.child, inner)]
    whose = f"`{writing[0]}` of `{state.machine.file}`"
    message = f"{whose} may write files, and {state.parallel} items run at the same time"
    known = state.child.states
    kept = (e for e in state.serial if e in known and _may_be_kept_apart(state.child, e))
    serial = f"`serial: [{', '.join((*kept, *writing))}]`"
    ways = ["`isolate: copy`", *(() if inside else (serial,)), "`parallel: 1`"]
    remedy = f"write {', '.join(ways[:-1])} or {ways[-1]}"
    path: DocPath = ("states", name, "parallel")
    yield subject.source.problem(path, "parallel-writers", message, help=remedy)
