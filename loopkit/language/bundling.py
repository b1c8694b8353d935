"""Files that become parts of a machine: those that its schemas refer to, and those of its agents.

A file becomes one of the `$defs` of the schema, with its address as its `$id`, so that what refers
to it stays as it is written.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from loopkit.document.document import DocPath, Document, Entry, Node
from loopkit.document.problems import Problem, ProblemsFound, Span, closest
from loopkit.document.reading import (
    CannotInclude,
    FrontMatter,
    Included,
    list_files,
    read,
    read_front_matter,
    read_included,
)
from loopkit.language.agents import noun_with
from loopkit.language.agents.agent import AgentBase
from loopkit.language.datatypes.notation import file_places, inner_types, is_json_schema
from loopkit.language.inclusion import Files, digest_of
from loopkit.language.json_schema import REFERENCES, placed_parts, resolve, schema_problems
from loopkit.language.json_schema.equality import Flaw
from loopkit.language.section import id_from
from loopkit.text.json_text import NoJson, entries_of, parse_json
from loopkit.values import Mutable, Value, field

BUNDLED = "$defs"
VALUES = ("params", "with")
"""Keys whose values are passed on unchanged, even if they look like a reference."""


def bundle_schemas(plain: Any, files: Files) -> None:
    """Put the files that schemas refer to into them; a reference without a target is a fault."""
    _refer_to_files(plain)
    for path, schema in schemas_in(plain):
        if next(_references(schema), None) is not None:
            known = len(files.faults)
            bundle = _Bundle(schema, path, files)
            bundle.fill()
            if len(files.faults) == known:
                files.faults += bundle.flaws()


def _refer_to_files(plain: Any) -> None:
    """Make a reference to its schema of each `{file: PATH}` that stands for a type."""
    for path, notation in list(_notations(plain)):
        for place in list(file_places(notation)):
            *steps, last = (*path, *place)
            holder = reduce(getitem, steps, plain)
            holder[last] = {"$ref": quote(holder[last]["file"])}


def schemas_in(plain: Any) -> Iterator[tuple[DocPath, dict[str, Any]]]:
    for path, notation in _notations(plain):
        yield from _roots(notation, path)


def _notations(plain: Any) -> Iterator[tuple[DocPath, Any]]:
    for key in ("input", "agents", "validators", "states"):
        yield from _types(plain.get(key) if isinstance(plain, dict) else None, (key,))


def _types(value: Any, path: DocPath) -> Iterator[tuple[DocPath, Any]]:
    if path == ("input",):
        yield path, value
    for key, inner in entries_of(value):
        is_type = key == "schema" or (key == "form" and path[0] == "states")
        # The name of an agent, a validator or a state may be any word.
        is_word = len(path) > 1
        if is_type and is_word:
            yield (*path, key), inner
        elif path[0] != "input" and not (key in VALUES and is_word):
            yield from _types(inner, (*path, key))


def _roots(
    notation: Any, path: DocPath, *, is_root: bool = True
) -> Iterator[tuple[DocPath, dict[str, Any]]]:
    if isinstance(notation, dict) and is_json_schema(notation):
        yield path, notation
        return
    for step, inner in inner_types(notation, is_root=is_root):
        yield from _roots(inner, (*path, step), is_root=False)


class _Reference(Value, frozen=True):
    path: DocPath
    holder: dict[str, Any]
    base: str
    """The address that a relative one starts at."""

    @property
    def word(self) -> str:
        return str(self.path[-1])

    @property
    def written(self) -> str:
        return str(self.holder[self.word])

    @property
    def address(self) -> str:
        return resolve(self.base, self.written)[0]

    def file_from(self, name: str) -> str:
        """The file that it names, in a file of this name; nothing where it names none."""
        named = unquote(self.written.partition("#")[0])
        if not named or ":" in named or named.startswith("/"):
            return ""
        return posixpath.normpath(posixpath.join(posixpath.dirname(name), named))


def _references(schema: Any) -> Iterator[_Reference]:
    for path, part, base in placed_parts(schema):
        for word in REFERENCES:
            if isinstance(part.get(word), str):
                yield _Reference((*path, word), part, base)


def _addresses(schema: Any, base: str = "") -> Iterator[str]:
    """The addresses of the schema, and of schemas in it that have their own."""
    return (base for _, _, base in placed_parts(schema, base=base))


class _File(Value, frozen=True):
    """The machine file, or one that is put into a schema of it."""

    name: str
    """Its path from the machine's folder; empty for the machine file."""
    schema: Any
    place: DocPath
    document: Document


class _Bundle(Mutable):
    root: dict[str, Any]
    path: DocPath
    files: Files
    parts: list[_File] = field(default_factory=list)
    known: set[str] = field(default_factory=set)

    def fill(self) -> None:
        """Read the files that the schema refers to, and those that these do, each once."""
        self.known.update(_addresses(self.root))
        self.parts.append(_File("", self.root, (), self.files.document))
        # The list grows while it is gone through.
        for file in self.parts:
            for reference in list(_references(file.schema)):
                self._follow(file, reference)

    def _follow(self, file: _File, reference: _Reference) -> None:
        name = reference.file_from(file.name)
        if not name or reference.address in self.known:
            return
        shown = self.files.shown(name)
        try:
            text = read_included(self.files.folder, name)
            document = _read(text, shown)
        except CannotInclude as error:
            flaw = Flaw(str(error), reference.path, error.remedy)
            self.files.faults.append(_problem("unreadable-file", flaw, file, self.path))
        except ProblemsFound as found:
            self.files.faults += found.problems
        else:
            place = (BUNDLED, reference.address)
            self._add(reference, _File(name, document.plain(), place, document))
            included = Included(shown, text, digest_of(text))
            self.files.included[(*self.path, *place)] = included

    def _add(self, reference: _Reference, file: _File) -> None:
        own = next(_addresses(file.schema, reference.address))
        if own != reference.address:
            _, mark, part = reference.written.partition("#")
            reference.holder[reference.word] = f"{own}{mark}{part}"
        file.schema["$id"] = own
        self.root.setdefault(BUNDLED, {})[reference.address] = file.schema
        self.known |= {reference.address, *_addresses(file.schema)}
        self.parts.append(file)

    def flaws(self) -> Iterator[Problem]:
        """References without a target, and all other mistakes in the files."""
        for flaw in schema_problems(self.root):
            file = next(f for f in reversed(self.parts) if flaw.path[: len(f.place)] == f.place)
            inside = flaw.replace(path=flaw.path[len(file.place) :])
            if flaw.leads_nowhere:
                yield _problem("dead-reference", inside, file, self.path)
            elif file.name:
                yield _problem("bad-type", inside, file, self.path)


def _problem(code: str, flaw: Flaw, file: _File, path: DocPath) -> Problem:
    place = flaw.path if file.name else (*path, *flaw.path)
    return file.document.problem(place, code, flaw.message, flaw.remedy)


def _read(text: str, shown: str) -> Document:
    # The tabs of JSON are blanks, which YAML does not take.
    is_json = not isinstance(parse_json(text), NoJson)
    return read(text.replace("\t", " ") if is_json else text, shown)


KEYS = ("name", "description", "tools", "model")
"""The keys allowed in an agent's front matter; the agent's name comes from the machine."""


def read_agent_files(files: Files) -> None:
    """Read the files that agents name under `file`, and those of the folder of agents."""
    agents = files.document.node(("agents",))
    if agents is not None and isinstance(agents.value, Mapping):
        named = _with_roles(files, agents.value)
        filled = {name: _with_file(files, name, entry) for name, entry in named.items()}
        if files.included or FOLDER in agents.value:
            files.document = _with_agents(files.document, filled)


FOLDER = "folder"


def _with_roles(files: Files, agents: Mapping[str, Entry]) -> Mapping[str, Entry]:
    if (entry := agents.get(FOLDER)) is None:
        return agents
    declared = {name: agent for name, agent in agents.items() if name != FOLDER}
    given = entry.node.value
    shared = dict(given) if isinstance(given, Mapping) else {"path": entry}
    path = shared.pop("path", entry).node.value
    roles: dict[str, Entry] = {}

    at = ("agents", FOLDER)
    if not isinstance(path, str):
        message = "`folder` is no agent, but names a folder of them"
        files.refuse(CannotInclude(message, "write `folder: {path: PATH, …}`"), at)
        return declared
    try:
        for file in list_files(files.folder, path, ".md"):
            if (name := id_from(file.stem)) in roles:
                message = f"two files in `{path}` are the agent `{name}`"
                files.refuse(CannotInclude(message, "rename one of them"), at)
            own = declared.pop(name, entry.replace(node=entry.node.replace(value={})))
            if isinstance(own.node.value, Mapping):
                text = entry.node.replace(value=file.as_posix(), raw=file.as_posix())
                fields = {**shared, "file": Entry(entry.key, text), **own.node.value}
                own = own.replace(node=own.node.replace(value=fields))
            roles[name] = own
    except CannotInclude as error:
        files.refuse(error, at)
    files.roles = frozenset(roles.keys() - agents.keys())
    return {**roles, **declared}


def name_agents(plain: Any) -> None:
    """Fill in the words of each state that chooses its agent by the names of all agents."""
    agents, states = plain.get("agents"), plain.get("states")
    if not isinstance(agents, dict) or not isinstance(states, dict):
        return
    files = ((name, a["file"]) for name, a in agents.items() if isinstance(a, dict) and "file" in a)
    words = {Path(str(file)).stem: name for name, file in files} | {name: name for name in agents}
    for state in states.values():
        choice = state.get("agent") if isinstance(state, dict) else None
        if isinstance(choice, dict) and "from" in choice:
            choice.setdefault("of", words)


def _with_agents(document: Document, agents: Mapping[str, Entry]) -> Document:
    root = document.root
    assert isinstance(root.value, Mapping)
    of_agents = root.value["agents"]
    entry = of_agents.replace(node=of_agents.node.replace(value=agents))
    return document.replace(root=root.replace(value={**root.value, "agents": entry}))


def _with_file(files: Files, name: str, entry: Entry) -> Entry:
    own = entry.node.value
    named = own.get("file") if isinstance(own, Mapping) else None
    if not isinstance(own, Mapping) or named is None or not isinstance(named.node.value, str):
        return entry
    if "file" not in (noun := noun_with(own)).model_fields:
        return entry
    path = ("agents", name)
    if (file := files.read(named.node.value, (*path, "file"))) is None:
        return entry
    try:
        found = read_front_matter(file.text, file.file)
    except ProblemsFound as error:
        files.faults += error.problems
        return entry
    of_file = _AgentFile(".".join(path), file.file, found, noun, own)
    files.faults += of_file.faults()
    files.notes += of_file.notes()
    # The place of the system prompt is this file, unless the machine has its own.
    at = "file" if noun.prompt_key in own else noun.prompt_key
    files.included[*path, at] = file.replace(line=found.line)
    return entry.replace(node=entry.node.replace(value={**of_file.fields(), **own}))


class _AgentFile(Value, frozen=True):
    path: str
    file: str
    found: FrontMatter
    noun: type[AgentBase]
    own: Mapping[str, Entry]

    @property
    def _given(self) -> Mapping[str, Entry]:
        value = self.found.keys.root.value if self.found.keys is not None else {}
        assert isinstance(value, Mapping)
        return {key: entry for key, entry in value.items() if entry.node.value is not None}

    @property
    def _start(self) -> Span:
        return Span(self.file, 1, 1, 1, 4 if self.found.keys is not None else 1)

    @property
    def _body(self) -> Span:
        rows = self.found.body.split("\n")
        first = self.found.line
        return Span(self.file, first, 1, first + len(rows) - 1, len(rows[-1]) + 1)

    def fields(self) -> dict[str, Entry]:
        known = self.noun.front_matter
        body = Entry(self._body, Node(self._body, self.found.body, None, "literal"))
        given = {key: entry for key, entry in self._given.items() if key in known}
        return {**given, **({self.noun.prompt_key: body} if self.found.body else {})}

    def faults(self) -> Iterator[Problem]:
        kind = self.noun.kind
        if kind not in self.own and kind not in self._given:
            message = f"nothing says which `{kind}` this agent has"
            yield Problem("missing-field", message, self._start, self.path, self._missing(kind))
        if not self.found.body and self.noun.prompt_key not in self.own:
            message = "there is no text below the front matter"
            remedy = "write the system prompt there"
            yield Problem("empty", message, self._body, self.path, remedy)

    def _missing(self, key: str) -> str:
        if self.found.keys is None:
            return f"start the file with a line `---`, `{key}: …` and another line `---`"
        foreign = [name for name in self._given if name not in KEYS]
        if (near := closest(key, foreign)) is not None:
            return f"`{near}` is not read; did you mean `{key}`?"
        return f"add `{key}: …` to the front matter, or to the agent in the machine file"

    def notes(self) -> Iterator[Problem]:
        if self.found.keys is None:
            message = "the file has no front matter, so that all of it is the system prompt"
            remedy = "front matter stands between two lines `---`, of which one is the first line"
            yield self._note("front-matter", message, self._start, remedy)
        known = self.noun.front_matter
        for key, entry in self._given.items():
            if key not in KEYS:
                near = closest(key, KEYS)
                remedy = f"did you mean `{near}`?" if near else ""
                yield self._note("ignored-key", f"`{key}` is not read", entry.key, remedy)
            elif key != "name" and key not in known:
                message = f"`{key}` is not read: a {self.noun.kind} agent has none"
                yield self._note("ignored-key", message, entry.key)

    def _note(self, code: str, message: str, place: Span, remedy: str = "") -> Problem:
        return Problem(code, message, place, self.path, remedy, "note")
