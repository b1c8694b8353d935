"""Checks of states that run other machines: how these run, and what they are given.

`child-state`, `unknown-outcome`, `reserved-name`, `parallel-writers`, `no-effect`, `child-input`,
`input-unhandled`, `item-path`, `unbounded-items`, `empty-range`, `may-be-missing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from loopkit.checks.subject import Found, Subject, in_full, of_machine, of_states
from loopkit.checks.templates import Use, explain
from loopkit.document.document import DocPath
from loopkit.document.problems import closest, did_you_mean
from loopkit.language.datatypes.datatype import WORDS, DataType, first_misfit, what_it_takes
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.guard.evaluate import ITEMS, parse_path
from loopkit.language.json_schema.equality import NotJudged
from loopkit.language.machine import Machine
from loopkit.language.states.each import (
    BLOCKED,
    WITHOUT_END,
    After,
    ChildrenState,
    EachState,
    steps_to_items,
)
from loopkit.language.states.kinds import MadeData
from loopkit.language.template.grammar import Anything, Fields, Items, Scalar, Shape
from loopkit.language.template.rendering import Template, check, parse, parse_if_valid
from loopkit.machine.graph import writers
from loopkit.machine.item_list import item_counts, step_into, types_at
from loopkit.machine.scope import shape_of
from loopkit.text.json_text import entries_of, texts_in

APART = ("serial", "alone", "group", "exclusive")


@of_states(ChildrenState)
def check_finals_of_children(subject: Subject, name: str, state: ChildrenState) -> Found:
    # Reported in the child's own file.
    source = subject.loaded.children[name].source
    for final in state.child.finals.keys() & {*WITHOUT_END}:
        message = f"`{final}` is what becomes of a child that comes to no final state"
        path, remedy = ("states", final), "choose another name"
        yield source.problem(path, "reserved-name", message, help=remedy, key=True)


@of_states(EachState)
def check_outcomes(subject: Subject, name: str, state: EachState) -> Found:
    finals = list(state.child.finals)
    when = state.awaited if isinstance(state.after, After) else ()
    for at, outcomes, known in (
        (("stop_on",), state.stop_on, finals),
        (("after", "when"), when, [*finals, BLOCKED]),
    ):
        for index, outcome in enumerate(outcomes):
            if outcome not in known:
                path: DocPath = ("states", name, *at, index)
                what = "no item has the outcome"
                yield subject.unknown(path, "unknown-outcome", what, outcome, known)


@of_states(EachState)
def check_apart(subject: Subject, name: str, state: EachState) -> Found:
    path: DocPath = ("states", name)
    working = [each for each in state.child.states if _may_be_kept_apart(state.child, each)]
    for key in ("serial", "alone"):
        for index, inner in enumerate(getattr(state, key)):
            if inner not in working:
                message = f"`{state.machine.file}` has no state `{inner}`"
                if inner in state.child.states:
                    message = f"`{inner}` has no work of its own that could be kept apart"
                hint = did_you_mean(inner, working) or "delete it"
                yield subject.problem((*path, key, index), "child-state", message, hint)
    if state.on_conflict is not None and not state.isolates:
        message = "items that share one tree are not merged, so none is ever in conflict"
        yield subject.no_effect((*path, "on_conflict"), message, "add `isolate: copy`")
    for key in APART if state.parallel == 1 else ():
        if key in state.model_fields_set:
            message = f"`{key}` keeps items apart, and only one runs at a time"
            yield subject.no_effect((*path, key), message, "add `parallel: 2`")


def _may_be_kept_apart(child: Machine, name: str) -> bool:
    """Whether a state has its own work, which ends without anybody outside."""
    agents = child.agents_at(name)
    return child.states[name].has_own_work and all(agent.is_called for agent in agents)


@of_states(EachState)
def check_writers(subject: Subject, name: str, state: EachState) -> Found:
    apart = {*state.serial, *state.alone}
    writing = [inner for inner in writers(state.child) if inner not in apart]
    if state.parallel == 1 or state.isolate != "none" or not writing:
        return
    kept = {one for one in state.child.states if _may_be_kept_apart(state.child, one)}
    whose = f"`{writing[0]}` of `{state.machine.file}`"
    message = f"{whose} may write files, and {state.parallel} items run at the same time"
    serial = ", ".join((*(one for one in state.serial if one in kept), *writing))
    ways = [f"`serial: [{serial}]`", "`parallel: 1`"][not kept.issuperset(writing) :]
    remedy = f"write {', '.join(('`isolate: copy`', *ways[:-1]))} or {ways[-1]}"
    yield subject.problem(("states", name, "parallel"), "parallel-writers", message, remedy)


PLAIN = frozenset({"type", "description"})
"""What a schema may say of a text that takes every text."""


@of_states(ChildrenState, "paths")
def check_child_content(subject: Subject, name: str, state: ChildrenState) -> Found:
    if isinstance(state, EachState) and not state.is_of_input:
        message = f"the list `{state.each}` is made by the run, and may not be valid"
    elif (field := _may_misfit(subject, state)) is not None:
        message = f"the input `{field}` is made by the run, and `{state.machine.file}` may not"
        message += " take it"
    else:
        return
    if not subject.graph.on(name, "content"):
        remedy = "add `on_error: {content: STATE}`"
        yield subject.problem(("states", name), "input-unhandled", message, remedy)


def _may_misfit(subject: Subject, state: ChildrenState) -> str | None:
    """The first input that a child may refuse and that is unknown before the run."""
    wanted = parse_record(state.child.input)
    chooses = any(choice.is_of_input for choice in state.child.choices.values())
    # Then more than its type decides whether an input is valid.
    is_needed = chooses or bool(state.child.states_of(ChildrenState))
    for field, value in state.input.items():
        if (known := wanted.field(field)) is None:
            continue
        for steps, text in texts_in(value):
            taken = known.at(ITEMS if isinstance(step, int) else step for step in steps)
            read = parse_if_valid(text)
            if read is None or read.names <= state.names_given:
                continue
            if is_needed or not _fits(subject, state, read, taken or DataType({})):
                return field
    return None


def _fits(subject: Subject, state: ChildrenState, read: Template, known: DataType) -> bool:
    """Whether the value of a template always has a type."""
    if not known.schema:
        return True
    is_text = known.scalar == "str" and known.schema.keys() <= PLAIN
    if read.whole is None:
        return is_text and not read.is_expression
    types = types_at(subject.graph, state, read.whole)
    if not types:
        return False
    return all(is_text if one is None else one.schema == known.schema for one in types)


HAND_ON = "hand on a value itself: write `{{ NAME }}` and nothing beside it"
TEXT = DataType({}, scalar="str")


@of_states(ChildrenState)
def check_child_inputs(subject: Subject, name: str, state: ChildrenState) -> Found:
    wanted, path = parse_record(state.child.input), ("states", name, "input")
    fields = wanted.fields or {}
    at = path if "input" in state.model_fields_set else ("states", name, "machine")
    for field, known in fields.items():
        if known.required and field not in state.input:
            message = f"`{state.machine.file}` is not given the input `{field}`"
            # The problem of a similar name already has the remedy.
            is_near = closest(field, state.input.keys() - fields.keys())
            remedy = "" if is_near else f"add it: `input: {{{field}: …}}`"
            yield subject.problem(at, "child-input", message, remedy, key=True)
    for field, value in state.input.items():
        if (taken := wanted.field(field)) is not None:
            yield from _wrong(subject, state, (*path, field), value, taken)
        else:
            hint = did_you_mean(field, fields) or "delete it"
            message = f"`{state.machine.file}` takes no input `{field}`"
            yield subject.problem((*path, field), "child-input", message, hint, key=True)


def _wrong(
    subject: Subject, state: ChildrenState, path: DocPath, value: object, known: DataType
) -> Found:
    """Values that are the same in every run and never fit."""
    read = parse_if_valid(value) if isinstance(value, str) else None
    if read is not None and read.names:
        made = _never_fitting(subject, state, read, known)
        wants = "takes a list" if known.items is not None else "takes fields"
        wants = what_it_takes(known) if known.scalar is not None else wants
        remedy = HAND_ON if not read.is_expression else ""
        if read.whole is not None and known.scalar == "str":
            remedy = f"for its text write `{{{{ {'.'.join(read.whole)} | string }}}}`"
        if made:
            yield subject.problem(path, "child-input", f"`{path[-1]}` {wants}, and {made}", remedy)
    elif _is_fixed(value):
        # A value that can't be judged here is reported by the run.
        with suppress(NotJudged):
            if why := first_misfit(value, known):
                yield subject.problem(path, "child-input", f"`{path[-1]}` {why}")
    else:
        for step, inner in entries_of(value):
            wanted = known.items if isinstance(step, int) else known.field(step)
            if wanted is not None:
                yield from _wrong(subject, state, (*path, step), inner, wanted)


def _never_fitting(subject: Subject, state: ChildrenState, read: Template, known: DataType) -> str:
    """What a template makes, for a message, if that never fits a type; else empty."""
    if not read.is_expression:
        return "" if _may_be_a(known, TEXT) else "this makes a text"
    if read.whole is None:
        return ""
    types = types_at(subject.graph, state, read.whole)
    if not types or any(_may_be_a(known, one or TEXT) for one in types):
        return ""
    one = types[0] or TEXT
    what = WORDS[one.scalar] if one.scalar else "a list" if one.items is not None else "fields"
    return f"`{'.'.join(read.whole)}` is {what}"


def _may_be_a(known: DataType, value: DataType) -> bool:
    """Whether a value of one type may have another type, as far as their kinds show it."""
    kinds = {_kind(known), _kind(value)}
    return "" in kinds or len(kinds) == 1 or kinds <= {"int", "num"}


def _kind(known: DataType) -> str:
    inner = "items" if known.items is not None else "fields" if known.fields is not None else ""
    return known.scalar or inner


def _is_fixed(value: object) -> bool:
    marks = ("{{", "{%", "{#")
    return not any(mark in text for _, text in texts_in(value) for mark in marks)


Flaw = tuple[str, str]
"""Why a path leads nowhere, and what to do."""


@of_machine()
def check_item_paths(subject: Subject) -> Found:
    for name, state in subject.machine.states_of(EachState).items():
        path, names = ("states", name, "each"), subject.entering[name]
        unread = [*_unread(subject, path, state.each, names)]
        item = Anything() if unread else _walk(Fields(names), state.item_steps)
        flaws = [*_problems(subject, path, item)]
        yield from unread or flaws or _check_counts(subject, name, state)
        yield from _inside(subject, name, state, Anything() if isinstance(item, tuple) else item)
    given = {"input": shape_of(subject.scope.input)}
    made: list[tuple[DocPath, object, Mapping[str, Shape]]] = [
        *((("states", name), one, subject.entering[name]) for name, one in subject.states.items()),
        *((("artifacts", name), one, given) for name, one in subject.machine.first_values.items()),
    ]
    for at, maker, names in made:
        lists = maker.for_ if isinstance(maker, MadeData) else {}
        for one, index, written in ((n, i, p) for n in lists for i, p in enumerate(lists[n])):
            here: DocPath = (*at, "for", one, index)
            unread = [*_unread(subject, here, written, names)]
            found = _walk(Fields(names), steps_to_items(written))
            yield from unread or _problems(subject, here, found)


def _unread(subject: Subject, path: DocPath, written: str, names: Mapping[str, Shape]) -> Found:
    """The names up to the first list of a path that are unknown or may be missing."""
    first, *steps = parse_path(written.split(ITEMS, maxsplit=1)[0])
    text = f"{{{{ {first}{''.join(f'[{step!r}]' for step in steps)} }}}}"
    use = Use(path, text, names, str(path[1]) if path[0] == "states" else None)
    for fault in check(parse(text), names):
        if fault.code != "may-be-missing":
            told = explain(subject, use, fault)
        elif first != "input":
            told = explain(subject, use, replace(fault, help=""))
        else:
            # A missing list has no items.
            continue
        known = [first, *steps][: text[: fault.column - 1].count("[")]
        meant = in_full(told.help, "".join(f"{step}." for step in known))
        yield subject.problem(path, told.code, told.message, meant)


def _walk(shape: Shape, steps: Sequence[str]) -> Shape | Flaw:
    """The shape to which a path leads."""
    way = ""
    for step in steps:
        inner = step_into(shape, step)
        if inner is None and step == ITEMS:
            return f"`{way}` is no list", "give the path of a list"
        if inner is None:
            known = shape.fields if isinstance(shape, Fields) else ()
            meant = in_full(did_you_mean(step, known), f"{way}.")
            return f"`{way}` has no field `{step}`", meant
        shape = inner
        way = way + (step if step == ITEMS or not way else f".{step}")
    return shape


def _problems(subject: Subject, path: DocPath, found: Shape | Flaw | None) -> Found:
    if isinstance(found, tuple):
        yield subject.problem(path, "item-path", *found)


def _check_counts(subject: Subject, name: str, state: EachState) -> Found:
    least, most = item_counts(subject.graph, state)
    if most is None:
        message = f"nothing says how many items `{state.each}` has at most"
        remedy = "add `max_items: 50`, or give the list a JSON Schema with `maxItems`"
        yield subject.problem(("states", name, "each"), "unbounded-items", message, remedy)
    elif least > most:
        written = [key for key in ("min_items", "max_items") if key in state.model_fields_set]
        message = f"at least {least} items have to be in `{state.each}`, and at most {most} can be"
        path: DocPath = ("states", name, *(written[:1] or ("each",)))
        yield subject.problem(path, "empty-range", message, "correct one of them")


def _inside(subject: Subject, name: str, state: EachState, item: Shape) -> Found:
    """The paths of an item: of its key, its group, what it needs, and the keys it waits for."""
    single = {"key": state.key, "group": state.group}
    paths: list[tuple[DocPath, str]] = [((key,), path) for key, path in single.items() if path]
    after: DocPath = ("after", "of") if isinstance(state.after, After) else ("after",)
    paths += (((*after, index), path) for index, path in enumerate(state.after_written))
    paths += ((("exclusive", index), path) for index, path in enumerate(state.exclusive or ()))
    for key, written in paths:
        first, *rest = parse_path(written)
        found: Shape | Flaw | None
        if key[0] == "after" and written in state.edge_paths:
            steps = parse_path(written.removesuffix(ITEMS) + ITEMS)
            found = _walk(Fields(subject.entering[name]), steps)
        elif first != state.as_:
            message = f"`{written}` does not start with the item, which is `{state.as_}`"
            found = message, f"write `{state.as_}.{written}`"
        else:
            leads = _walk(Fields({first: item}), (first, *rest))
            found = _flaw_of_texts(leads, written, is_single=key[0] in single)
        yield from _problems(subject, ("states", name, *key), found)


def _flaw_of_texts(shape: Shape | Flaw, path: str, *, is_single: bool) -> Flaw | None:
    """Whether a path may lead to the single text, or the texts, that name items."""
    if isinstance(shape, tuple):
        return shape
    if is_single and ITEMS in parse_path(path):
        return f"`{path}` leads to several values", "give the path of a single one"
    inner = shape.item if isinstance(shape, Items) and not is_single else shape
    if isinstance(inner, Scalar | Anything):
        return None
    if isinstance(inner, Fields):
        dotted = f"{path}{ITEMS if inner is not shape else ''}.{next(iter(inner.fields), 'id')}"
        return f"`{path}` leads to no text or number", f"such as `{dotted}`"
    return f"`{path}` leads to a list", "give the path of a text or a number"
