"""`item-path`, `unbounded-items`, `empty-range`: lists of `each`, and the paths inside their items.

`may-be-missing`, and what else templates say of a name, for what the list is read from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from loopkit.checks.subject import Subject
from loopkit.checks.template_uses import Use
from loopkit.checks.templates import explain
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language import EachState
from loopkit.language.guard import parse_path
from loopkit.language.guard.paths import ITEMS
from loopkit.language.states.each import After
from loopkit.language.template import Anything, Fields, Items, Scalar, Shape, check, parse
from loopkit.machine.item_types import item_counts, step_into
from loopkit.machine.path_values import ENDS
from loopkit.values import Value

CODE = "item-path"


def check_item_paths(subject: Subject) -> Iterator[Problem]:
    """The list of each `each` state, its length, and the keys and relations of its items."""
    for name, state in subject.machine.states_of(EachState).items():
        item = _Found(None)
        problems = list(_unread(subject, name, state))
        if not problems:
            item = _items(subject.entering[name], state)
            problems = list(_problems(subject, ("states", name, "each"), item))
        if not problems:
            problems = list(_check_counts(subject, name, state))
        yield from problems
        yield from _inside(subject, name, state, item.shape or Anything())


def _unread(subject: Subject, name: str, state: EachState) -> Iterator[Problem]:
    """The names up to the first list that are unknown or may be missing."""
    path: DocPath = ("states", name, "each")
    first, *steps = parse_path(state.each.split(ITEMS)[0])
    text = f"{{{{ {first}{''.join(f'[{step!r}]' for step in steps)} }}}}"
    use = Use(path, text, subject.entering[name], name)
    for fault in check(parse(text), subject.entering[name]):
        if fault.code != "may-be-missing":
            told = explain(subject, use, fault)
        elif not state.is_of_input:
            told = explain(subject, use, replace(fault, help=""))
        else:
            # A missing list has no items.
            continue
        yield subject.source.problem(path, told.code, told.message, help=told.help)


class _Found(Value, frozen=True):
    """The shape to which a path leads, or why it leads nowhere."""

    shape: Shape | None
    message: str = ""
    remedy: str = ""


def _items(names: Mapping[str, Shape], state: EachState) -> _Found:
    """The shape of the items of a list."""
    return _walk(Fields(names), state.item_steps)


def _walk(shape: Shape, steps: tuple[str, ...]) -> _Found:
    way = ""
    for step in steps:
        inner = step_into(shape, step)
        if inner is None and step == ITEMS:
            return _Found(None, f"`{way}` is no list", "give the path of a list")
        if inner is None:
            known = shape.fields if isinstance(shape, Fields) else ()
            return _Found(None, f"`{way}` has no field `{step}`", did_you_mean(step, known))
        shape, way = inner, way + (step if step == ITEMS or not way else f".{step}")
    return _Found(shape)


def _problems(subject: Subject, path: DocPath, found: _Found) -> Iterator[Problem]:
    if found.message:
        yield subject.source.problem(path, CODE, found.message, help=found.remedy)


def _check_counts(subject: Subject, name: str, state: EachState) -> Iterator[Problem]:
    least, most = item_counts(subject.graph, state)
    if most is None:
        message = f"nothing says how many items `{state.each}` has at most"
        remedy = "add `max_items: 50`, or give the list a JSON Schema with `maxItems`"
        path: DocPath = ("states", name, "each")
        yield subject.source.problem(path, "unbounded-items", message, help=remedy)
    elif least > most:
        written = [key for key in ("min_items", "max_items") if key in state.model_fields_set]
        message = f"at least {least} items have to be in `{state.each}`, and at most {most} can be"
        path = ("states", name, *(written[:1] or ("each",)))
        yield subject.source.problem(path, "empty-range", message, help="correct one of them")


def _inside(subject: Subject, name: str, state: EachState, item: Shape) -> Iterator[Problem]:
    """The paths of an item: of its key, its group, and the keys that it waits for."""
    single = {"key": state.key, "group": state.group}
    paths: list[tuple[DocPath, str]] = [((key,), path) for key, path in single.items() if path]
    after: DocPath = ("after", "of") if isinstance(state.after, After) else ("after",)
    paths += (((*after, index), path) for index, path in enumerate(state.after_written))
    for key, written in paths:
        path: DocPath = ("states", name, *key)
        if key[0] == "after" and written in state.edge_paths:
            yield from _problems(subject, path, _edges(subject.entering[name], written))
            continue
        first, *rest = parse_path(written)
        if first != state.as_:
            message = f"`{written}` does not start with the item, which is `{state.as_}`"
            remedy = f"write `{state.as_}.{written}`"
            yield subject.source.problem(path, CODE, message, help=remedy)
            continue
        found = _walk(Fields({first: item}), (first, *rest))
        is_single = key[0] != "after"
        yield from _problems(subject, path, found)
        if found.shape is not None:
            yield from _problems(subject, path, _texts(found.shape, written, is_single=is_single))


def _edges(names: Mapping[str, Shape], written: str) -> _Found:
    """Whether a path may lead to edges that are written by themselves."""
    found = _walk(Fields(names), parse_path(written.removesuffix(ITEMS) + ITEMS))
    edge = found.shape
    is_pair = isinstance(edge, Fields) and any({*ends} <= edge.fields.keys() for ends in ENDS)
    if edge is None or is_pair or isinstance(edge, Items | Anything):
        return found
    return _Found(None, f"`{written}` leads to no edges", "an edge is [FROM, TO] or {from, to}")


def _texts(shape: Shape, path: str, *, is_single: bool) -> _Found:
    """Whether a path may lead to the single text, or the texts, that name items."""
    if is_single and ITEMS in parse_path(path):
        return _Found(None, f"`{path}` leads to several values", "give the path of a single one")
    inner = shape.item if isinstance(shape, Items) and not is_single else shape
    if isinstance(inner, Scalar | Anything):
        return _Found(shape)
    if isinstance(inner, Fields):
        dotted = f"{path}{ITEMS if inner is not shape else ''}.{next(iter(inner.fields), 'id')}"
        return _Found(None, f"`{path}` leads to no text or number", f"such as `{dotted}`")
    return _Found(None, f"`{path}` leads to a list", "give the path of a text or a number")
