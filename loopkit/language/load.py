"""Loading: document → machine definition, or every problem of its form, in place.

Validation errors of pydantic become problems in the language's words, at the right place.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property, reduce
from operator import getitem
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from loopkit.document.document import DocPath, Document, Node, looks_like_unquoted_colon
from loopkit.document.parser import kind_of
from loopkit.document.problems import Problem, ProblemsFound, Severity, Span, closest, did_you_mean
from loopkit.document.reading import CannotInclude, Included, read, read_file, read_included
from loopkit.language.agents.agent import Workspace
from loopkit.language.agents.tools import TOOL_KINDS
from loopkit.language.bundling import bundle_schemas, name_agents, read_agent_files
from loopkit.language.datatypes.notation import parse_type, remedy_for_text
from loopkit.language.inclusion import INCLUDING, Files, digest_of, include, include_defaults
from loopkit.language.machine import Machine, allowed_fields, field_names, is_tag, kinds_with
from loopkit.language.remedies import FIELDS, LONGEST_QUOTED, remedy_for_field, remedy_for_value
from loopkit.language.section import Noun, as_id
from loopkit.language.states import STATE_KINDS
from loopkit.language.states.each import ChildMachine
from loopkit.language.validators import RULE_KINDS
from loopkit.text import is_broken, up_in
from loopkit.values import Mutable, Value, field

MACHINE = "machine"
MOST_MACHINES = 100
"""The maximum number of machines inside one, counted at each mention, because all are kept."""
MOST_ROUNDS = 20
"""How often what is wrong in the form is taken out of a machine; new mistakes may show then."""
MOST_LEVELS = 10
"""The maximum depth of machines inside each other."""


class Source(Value, frozen=True, dict=True):
    """The files that a machine was read from, and where each of its values stands."""

    document: Document
    included: Mapping[DocPath, Included] = field(default_factory=dict)
    notes: Sequence[Problem] = ()
    """Parts of the agents' files that were ignored."""
    roles: Set[str] = frozenset()
    """The agents that only their file in the folder of agents declares."""

    @cached_property
    def texts(self) -> dict[str, str]:
        """The text of every file, by the name that problems give it."""
        texts = {included.file: included.text for included in self.included.values()}
        return {self.document.file: self.document.text, **texts}

    def problem(
        self, path: Sequence[str | int], code: str, message: str, *, help: str = "",  # noqa: A002
        key: bool = False, severity: Severity = "error",
    ) -> Problem:  # fmt: skip
        path = self.document.as_written(path)
        return self.document.problem(path, code, message, help, key=key, severity=severity)

    def problem_inside(
        self, path: Sequence[str | int], code: str, message: str, *, help: str = "",  # noqa: A002
        line: int = 1, column: int = 1, length: int = 1,
    ) -> Problem:  # fmt: skip
        if included := self.included.get(tuple(path)):
            line += included.line - 1
            span = Span(included.file, line, column, line, column + max(1, length))
        else:
            span = self.document.inside(path, line, column, length)
        return Problem(code, message, span, ".".join(map(str, path)), help)


class Loaded(Value, frozen=True, dict=True, eq=False, weakref=True):
    """A machine with its source and the resolved definition that a journal keeps."""

    machine: Machine
    source: Source
    folder: Path
    resolved: str
    """JSON: the whole definition with every included file in it, and the digests of all files."""
    digest: str
    children: Mapping[str, Loaded] = field(default_factory=dict)
    """The machines that states run, by the names of these."""

    @cached_property
    def size(self) -> int:
        """The number of machines in it, itself included."""
        return 1 + sum(child.size for child in self.children.values())

    @property
    def levels(self) -> int:
        """The depth of machines inside each other, itself included."""
        return 1 + max((child.levels for child in self.children.values()), default=0)

    @property
    def family(self) -> list[Loaded]:
        """The machine, those that it runs, and so on; of each file one."""
        found = {self.source.document.file: self}
        waiting = [self]
        for one in waiting:
            for child in one.children.values():
                if found.setdefault(child.source.document.file, child) is child:
                    waiting.append(child)
        return waiting


class Reading(Value, frozen=True):
    """The state of reading when a machine inside others is read."""

    within: tuple[Path, ...] = ()
    """The files of the machines around it."""
    known: dict[Path, Loaded | ProblemsFound] = field(default_factory=dict)
    """The result for each file of another machine."""


def load(path: Path) -> Loaded:
    """The machine of a file; raises ProblemsFound with everything wrong in its form."""
    document = read_file(path, shown_as=str(path))
    return load_document(document, path.parent, default_name=path.stem)


def load_text(text: str, shown_as: str, folder: Path) -> Loaded:
    return load_document(read(text, shown_as), folder, default_name="machine")


def load_document(
    document: Document, folder: Path, default_name: str, reading: Reading | None = None
) -> Loaded:
    """The machine of a document; `reading` holds what was read for the machines around it."""
    plain = document.plain()
    if "scenario" in plain and "loopkit" not in plain:
        tested = plain.get("machine")
        is_named = isinstance(tested, str)
        remedy = f"name its machine, `{tested}`" if is_named else "name a machine file"
        message, at = "this is a scenario, not a machine", ("scenario",)
        raise ProblemsFound([document.problem(at, "missing-field", message, remedy, key=True)])
    files = Files(document, folder)
    read_agent_files(files)
    document, plain = files.document, files.document.plain()
    name_agents(plain)
    include(plain, files, INCLUDING)
    include_defaults(plain, files)
    bundle_schemas(plain, files)
    source = Source(document, files.included, files.notes, files.roles)
    children, broken = _load_children(plain, folder, source, reading or Reading())
    if faults := [*files.faults, *broken]:
        raise ProblemsFound(dict.fromkeys(faults))
    # Blocks for anchors have been read where they are used.
    written = {key: value for key, value in plain.items() if not key.startswith("x-")}
    form = Form(written, document, folder)
    if (machine := form.machine()) is None:
        raise ProblemsFound(form.problems)
    if machine.name is None:
        machine = machine.model_copy(update={"name": as_id(default_name.lower())})
    machine = machine.with_named_models()
    files_read = {one.file: one.digest for one in files.included.values()}
    resolved = _as_json(machine, {**files_read, document.file: digest_of(document.text)})
    if is_broken(resolved):
        place = Span(document.file, 1, 1, 1, 1)
        message = "plug-ins start at a folder whose name is not UTF-8"
        raise ProblemsFound([Problem("not-utf-8", message, place, help="rename it")])
    loaded = Loaded(machine, source, folder, resolved, digest_of(resolved), children)
    if form.problems:
        raise Unfit(form, loaded)
    return loaded


class Form(Mutable):
    """A machine as it is written, from which what is wrong in its form is taken out."""

    plain: dict[str, Any]
    document: Document
    folder: Path
    problems: list[Problem] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)
    """The places that are no longer as they were written."""
    lost: set[str] = field(default_factory=set)
    """The texts that were taken out."""

    def machine(self) -> Machine | None:
        """The machine, or what is left of it; None where that is not a machine."""
        for _ in range(MOST_ROUNDS):
            try:
                return Machine.model_validate(self.plain, context={"folder": self.folder})
            except ValidationError as error:
                found = [p for p in explain(error, self.document) if not self.explains(p)]
                self.problems += (problem for problem in found if problem not in self.problems)
                is_mended = [self._mend(fault) or self._drop(fault) for fault in _slips(error)]
                if not any(is_mended):
                    return None
        return None

    def explains(self, problem: Problem) -> bool:
        """Whether a problem may come from what was taken out."""
        is_inside = any(f"{problem.path}.".startswith(f"{place}.") for place in self.touched)
        return is_inside or any(f"`{text}`" in problem.message for text in self.lost)

    def _mend(self, fault: Mapping[str, Any]) -> bool:
        """Write what was meant, or any type, in place of what is wrong, or nothing."""
        is_type = fault["type"] == "bad-type"
        inside = fault.get("ctx", {}).get("path", ())[: 1 if is_type else None]
        *steps, last = [*(step for step in fault["loc"] if not is_tag(step)), *inside] or [""]
        try:
            holder: Any = reduce(getitem, steps, self.plain)
        except (LookupError, TypeError):
            return False
        if isinstance(holder, str):
            # One item that is written without its list.
            *steps, last = steps
            holder = reduce(getitem, steps, self.plain)
        if isinstance(holder, list) and fault["type"] == "bad-id":
            holder[last] = as_id(str(holder[last]))
            return True
        if not fault["loc"] or not isinstance(holder, dict) or last not in holder:
            return False
        if fault["loc"][-1] == "[key]":
            # The order of states says which one is the first.
            items = [(as_id(key) if key == last else key, value) for key, value in holder.items()]
            holder.clear()
            holder.update(items)
            return True
        allowed = allowed_fields(Machine, fault["loc"][:-1])
        value = holder.pop(last)
        place, near = ".".join(map(str, [*steps, last])), closest(str(last), allowed)
        foreign = remedy_for_field(str(last), allowed, value)
        if is_type:
            holder[last] = "any" if inside or isinstance(value, str) else {}
        elif (meant := _meant(fault["type"], place, value)) is not None:
            holder[last] = meant
        elif near and fault["type"] == "extra_forbidden" and not foreign and near not in holder:
            holder[near] = value
            self.touched.add(".".join(map(str, [*steps, near])))
        else:
            place = ".".join(map(str, steps)) or place
            self._lose(last, value)
        self.touched.add(place)
        return True

    def _drop(self, fault: Mapping[str, Any]) -> bool:
        """Leave out the state, the agent or whatever has a name and cannot be mended."""
        section, name = (*fault["loc"], "", "")[:2]
        named = self.plain.get(section)
        if not isinstance(named, dict) or name not in named:
            return False
        self._lose(name, named.pop(name))
        self.touched.add(f"{section}.{name}")
        return True

    def _lose(self, name: object, value: object) -> None:
        self.lost |= {str(value), *re.findall(r"\w+", f"{name} {value}")}


def _meant(kind: str, place: str, value: object) -> object:
    """What stands for a value that is wrong in one known way; None for all others."""
    if kind == "bad-id" and "," not in str(value):
        return as_id(str(value))
    if kind in ("list_type", "tuple_type") and isinstance(value, str):
        return [value]
    return 1 if place == "loopkit" else None


class Unfit(ProblemsFound):
    """A machine with mistakes in its form; the rest of it can be checked."""

    def __init__(self, form: Form, rest: Loaded) -> None:
        super().__init__(form.problems)
        self.form, self.rest = form, rest


def _load_children(
    plain: Any, folder: Path, source: Source, reading: Reading
) -> tuple[dict[str, Loaded], list[Problem]]:
    """Replace every machine file that a state names by the machine; failures become problems."""
    here = reading.replace(within=(*reading.within, Path(source.document.file).resolve()))
    states = plain.get("states")
    children: dict[str, Loaded] = {}
    faults: list[Problem] = []
    for name, state in states.items() if isinstance(states, dict) else ():
        if not isinstance(state, dict) or not isinstance(state.get(MACHINE), str):
            continue
        path = ("states", name, MACHINE)
        try:
            children[name] = _load_child(state[MACHINE], folder, source, here)
        except CannotInclude as error:
            faults.append(source.problem(path, "unreadable-file", str(error), help=error.remedy))
        except ProblemsFound as found:
            faults += found.problems
        else:
            child = children[name]
            if sum(one.size for one in children.values()) > MOST_MACHINES:
                most = f"more than {MOST_MACHINES} machines"
                message = f"with this one, {most} are inside this machine"
                remedy = "each counts as often as a state names it; name fewer"
                faults.append(source.problem(path, "too-many-machines", message, help=remedy))
                break
            files = json.loads(child.resolved)["files"]
            inner = _from_above(child.machine, str(Path(state[MACHINE]).parent))
            state[MACHINE] = {"file": state[MACHINE], "files": files, "definition": inner}
    return children, faults


def _load_child(file: str, folder: Path, source: Source, reading: Reading) -> Loaded:
    """The machine of a file beside another one, or below; raises CannotInclude, ProblemsFound."""
    text = read_included(folder, file)
    path = Path(source.document.file).parent / file
    found = path.resolve()
    if found in reading.within:
        raise CannotInclude(
            f"`{file}` contains itself", "name another machine; a machine can't run itself"
        )
    known = reading.known.get(found)
    # A machine that was already read also brings the levels below it.
    levels = known.levels if isinstance(known, Loaded) else 1
    if len(reading.within) + levels - 1 > MOST_LEVELS:
        message = f"`{file}` is inside more than {MOST_LEVELS} other machines, or those in it are"
        raise CannotInclude(message, "let machines run each other in fewer levels")
    if known is None:
        try:
            document = read(text, str(path))
            known = load_document(document, (folder / file).parent, path.stem, reading)
        except ProblemsFound as error:
            known = error
        reading.known[found] = known
    if isinstance(known, ProblemsFound):
        raise known
    return known


def _from_above(machine: Machine, folder: str) -> Machine:
    """A machine of a file in a folder, with its workspaces as the machine above names them."""

    def moved(own: Workspace) -> Workspace:
        up = up_in(own.path)
        start = os.path.normpath(os.path.join(folder, up))
        rest = own.path.strip()[len(up) :]
        path = f"{start}/{rest}" if rest else start
        return own.model_copy(update={"path": path.removeprefix("./")})

    return machine.with_workspaces(moved) if folder != "." else machine


def with_machine(loaded: Loaded, machine: Machine) -> Loaded:
    resolved = with_definition(loaded.resolved, machine)
    return loaded.replace(machine=machine, resolved=resolved, digest=digest_of(resolved))


def with_definition(resolved: str, machine: Machine) -> str:
    return _as_json(machine, json.loads(resolved)["files"])


def load_resolved(resolved: str) -> Machine:
    return Machine.model_validate(json.loads(resolved)["machine"])


def definition_of_child(child: ChildMachine) -> str:
    """The resolved definition of a machine that another one runs, as if it ran alone."""
    return _as_json(child.definition, child.files)


def file_of_definition(resolved: str) -> Path:
    """The machine file of a resolved definition; it is listed after the files that it includes."""
    return Path(list(json.loads(resolved)["files"])[-1])


def _as_json(machine: Machine, files: Mapping[str, str]) -> str:
    # Defaults are written out: another version's must not change a run that has begun.
    definition = machine.model_dump(mode="json", exclude_none=True, by_alias=True)
    return json.dumps(
        {"machine": definition, "files": files}, ensure_ascii=False, separators=(",", ":")
    )


AT_KEY = ("extra_forbidden", "missing", "unknown-rule", "unknown-tool")
EXTRACTS = "a field is extracted with `section`, `match`, `all` or `count`"
WORK_KEYS = tuple(kind for kind in STATE_KINDS if kind != "choice")
KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "`true` or `false`",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
    "int_from_float": "a whole number",
    "finite_number": "a number that is not infinite",
}
SINGLE = {"`true` or `false`": "bool", "a whole number": "int", "a number": "num"}
BOUNDS = {
    "ge": "expected at least {:,.10g}",
    "gt": "expected more than {:,.10g}",
    "le": "expected at most {:,.10g}",
    "lt": "expected less than {:,.10g}",
    "min_length": "this text is empty",
    "max_length": "expected at most {:,} characters or items",
}
"""What breaks a bound, by what pydantic calls it."""


def explain(
    error: ValidationError, document: Document, root: type[Noun] = Machine
) -> Iterator[Problem]:
    problems: dict[object, Problem] = {}
    for fault in _slips(error):
        problem = _problem(fault, document, root)
        # A name is one mistake, however often it is written.
        key = problem.message if problem.code == "bad-id" else len(problems)
        if (first := problems.setdefault(key, problem)) is not problem and problem.span:
            places = (*first.also, ("written here, too", problem.span))
            problems[key] = first.replace(also=places)
    yield from problems.values()


def _slips(error: ValidationError) -> Iterator[Mapping[str, Any]]:
    """The faults without those that another one brings with it."""
    # Pydantic counts a list of only faulty items as empty, too; the faults are reported.
    every = error.errors(include_url=False)
    faults = [one for one in every if one["type"] != "too_short" or not one["input"]]
    unknown: dict[tuple[Any, ...], list[str]] = {}
    for fault in faults:
        if fault["type"] == "extra_forbidden":
            unknown.setdefault(fault["loc"][:-1], []).append(str(fault["loc"][-1]))
    for fault in faults:
        *at, name = fault["loc"] or ("",)
        beside = unknown.get(tuple(at), [])
        if fault["type"] == "missing" and closest(str(name), beside):
            continue
        if fault["type"] == "extra_forbidden" and at[-1:] == ["<choice>"] and kinds_with(str(name)):
            # Without the key of its work, a state knows none of the others that belong to it.
            foreign = (one for one in beside if not kinds_with(one))
            leads = (one for one in foreign if one in FIELDS or closest(one, WORK_KEYS))
            if name != next(leads, next(filter(kinds_with, beside))):
                continue
        yield fault


def _problem(fault: Mapping[str, Any], document: Document, root: type[Noun]) -> Problem:
    loc = tuple(fault["loc"])
    context = fault.get("ctx", {})
    named = (*(step for step in loc if not is_tag(step)), *context.get("path", ()))
    path = document.as_written(named)
    at_key = fault["type"] in AT_KEY or loc[-1:] == ("[key]",)
    path, message, help_text, code = _explanation(fault, loc, path, document, root)
    return document.problem(path, code, message, help_text, key=at_key)


Explanation = tuple[tuple[Any, ...], str, str, str]


def _explanation(
    fault: Mapping[str, Any],
    loc: tuple[Any, ...],
    path: tuple[Any, ...],
    document: Document,
    root: type[Noun],
) -> Explanation:
    kind, context = fault["type"], fault.get("ctx", {})
    if kind == "extra_forbidden":
        return path, *(_torn_text(path, document) or _unknown_field(fault, loc, path, root))
    if kind == "missing":
        is_version = path in (("loopkit",), ("scenario",))
        remedy = f"start the file with `{path[0]}: 1`" if is_version else f"add `{path[-1]}: …`"
        if isinstance(path[-1], int):
            return path[:-1], "an item is missing", f"write {path[-1] + 1} items", "missing-field"
        return path[:-1], f"missing field `{path[-1]}`", remedy, "missing-field"
    if kind in KINDS:
        message, remedy, code = _wrong_kind(KINDS[kind], path, document)
        meant = remedy_for_value(path, fault.get("input"), KINDS[kind])
        return path, message, meant or remedy, code
    if kind == "literal_error":
        return path, *_unknown_value(fault, path)
    if kind == "unknown-rule":
        return _unknown_kind(path, fault.get("input"), "rule", RULE_KINDS)
    if kind == "unknown-tool" and "text" not in context:
        return _unknown_kind(path, fault.get("input"), "tool", TOOL_KINDS)
    if kind == "unknown-extract":
        return path, context.get("text", fault["msg"]), EXTRACTS, kind
    if "text" in context:
        remedy = remedy_for_value(path, fault.get("input"), kind) or context.get("help", "")
        return path, context["text"], remedy, kind
    return _of_bound(fault, path, document)


def _of_bound(fault: Mapping[str, Any], path: tuple[Any, ...], document: Document) -> Explanation:
    context, kind, node = fault.get("ctx", {}), fault["type"], document.node(path)
    if kind == "too_short":
        return path, f"`{path[-1]}` is empty", "it needs at least one item", "empty"
    bound = next((name for name in BOUNDS if name in context), "")
    raw = node.raw if node is not None and not bound.endswith("length") else ""
    message = BOUNDS.get(bound, "this does not fit").format(context.get(bound))
    return path, message + (f", found `{raw}`" if raw else ""), "", kind.replace("_", "-")


def _unknown_field(
    fault: Mapping[str, Any], loc: Sequence[Any], path: Sequence[Any], root: type[Noun]
) -> tuple[str, str, str]:
    name = str(path[-1])
    choices = allowed_fields(root, loc[:-1])
    if remedy := remedy_for_field(name, choices, fault.get("input")):
        return f"unknown field `{name}`", remedy, "unknown-field"
    tag = next((step for step in reversed(loc[:-1]) if is_tag(step)), "")
    of_state = root is Machine and len(path) == 3 and path[0] == "states"
    if of_state and name in WORK_KEYS:
        second = f"`{name}` would be a second one beside `{str(tag)[1:-1]}`"
        return f"a state does one piece of work; {second}", "make two states of it", "two-works"
    if of_state and (kinds := kinds_with(name)):
        remedy = f"it is a field of {' or '.join(f'`{kind}`' for kind in kinds)} states"
        return f"`{name}` does not belong here", remedy, "unknown-field"
    if of_state and tag == "<choice>":
        choices = [*WORK_KEYS, *choices]
    remedy = did_you_mean(name, choices)
    if root is Machine and len(path) == 1 and isinstance(fault.get("input"), dict | list):
        remedy += f"; a block that others share by an anchor is called `x-{name.strip('.-_')}`"
    return f"unknown field `{name}`", remedy, "unknown-field"


def _torn_text(path: Sequence[Any], document: Document) -> tuple[str, str, str] | None:
    """The mistake of a text in `{}` that goes on after a comma, as a field without a value."""
    node, name = document.node(path), str(path[-1])
    if " " not in name or node is None or node.value is not None:
        return None
    message = f"the comma ends the text before it, so `{name}` is taken for a field"
    return message, "put the whole text in quotes", "unquoted-comma"


def _unknown_value(fault: Mapping[str, Any], path: Sequence[Any]) -> tuple[str, str, str]:
    expected = fault["ctx"]["expected"]
    words = re.findall("'([^']+)'", expected)
    near = closest(str(fault.get("input")), words)
    field = f"{path[-1]}: " if isinstance(path[-1], str) else ""
    ways = " or ".join(f"`{field}{word}`" for word in words)
    remedy = f"did you mean `{near}`?" if near else f"write {ways}"
    remedy = remedy_for_value(path, fault.get("input")) or remedy
    return f"expected {expected.replace(chr(39), '`')}", remedy, "unknown-value"


def _wrong_kind(expected: str, path: Sequence[Any], document: Document) -> tuple[str, str, str]:
    node = document.node(path)
    if node is not None and expected == "text":
        if (meant := looks_like_unquoted_colon(node)) is not None:
            return "the colon makes this a mapping", f'quote the text: "{meant}"', "unquoted-colon"
        if node.style == "plain" and node.raw:
            return f"expected text, found `{node.raw}`", f'quote it: "{node.raw}"', "wrong-kind"
        if isinstance(node.value, tuple) and len(node.value) == 1 and node.value[0].raw:
            one = f"write `{path[-1]}: {node.value[0].raw}`"
            return "expected text, found a list", one, "wrong-kind"
    remedy = _list_remedy(str(path[-1]), node) if node is not None and expected == "a list" else ""
    if node is not None and (kind := SINGLE.get(expected)):
        remedy = remedy_for_text(node.value, parse_type(kind)) if node.raw else ""
    amount = (
        re.fullmatch(r"[^\d\s]{0,3}\s?(\d*\.?\d+)[^\d.]*", node.raw) if node is not None else None
    )
    if amount is not None and expected.endswith("number"):
        remedy = f"write the number alone: `{path[-1]}: {amount[1]}`"
    found = "nothing" if node is None else kind_of(node)
    if node is not None and isinstance(node.value, int | float):
        found = f"`{str(node.value).lower()}`"
    return f"expected {expected}, found {found}", remedy, "wrong-kind"


def _list_remedy(field: str, node: Node) -> str:
    if node.raw and len(node.raw) <= LONGEST_QUOTED:
        return f"write `{field}: [{node.raw}]`"
    return "" if node.is_unwritten else "start each item with `- `, or put `[…]` around the items"


def _unknown_kind(
    path: tuple[Any, ...], value: object, word: str, kinds: Mapping[str, type[Noun]]
) -> Explanation:
    if isinstance(value, Mapping):
        known = {name for noun in kinds.values() for name in field_names(noun)}
        unknown = next((str(key) for key in value if key not in known), None)
        if unknown is not None:
            remedy = remedy_for_field(unknown, kinds, value[unknown])
            remedy = remedy or did_you_mean(unknown, kinds)
            return (*path, unknown), f"unknown {word} `{unknown}`", remedy, f"unknown-{word}"
    listed = ", ".join(f"`{kind}`" for kind in kinds)
    return path, f"this names no {word}", f"a {word} is one of {listed}", f"unknown-{word}"
