"""Bundled JSON Schemas: the files that a schema refers to, put into it as its `$defs`.

As the specification of JSON Schema describes it: a file becomes one of the `$defs`, with its
address as its `$id`, so that what refers to it stays as it is written.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urldefrag, urljoin

from loopkit.document import Document, read
from loopkit.document.document import DocPath
from loopkit.document.inclusion import CannotInclude, Included, read_included
from loopkit.document.problems import Problem, ProblemsFound
from loopkit.language.datatypes import file_places, inner_types, is_json_schema
from loopkit.language.json_schema import Flaw, schema_problems
from loopkit.language.json_schema.layout import REFERENCES, inner_schemas
from loopkit.text.json_text import parse_json
from loopkit.values import Mutable, Value, field

BUNDLED = "$defs"
VALUES = ("params", "with")
"""Keys whose values are passed on unchanged, even if they look like a reference."""


def bundle_schemas(
    plain: Any, folder: Path, document: Document
) -> tuple[dict[DocPath, Included], list[Problem]]:
    """Put the files that schemas refer to into them; a reference without a target is a problem."""
    included: dict[DocPath, Included] = {}
    faults: list[Problem] = []
    _refer_to_files(plain)
    for path, schema in schemas_in(plain):
        if next(_references(schema), None) is not None:
            bundle = _Bundle(schema, path, folder, document)
            bundle.fill()
            included |= bundle.included
            faults += bundle.faults or bundle.flaws()
    return included, faults


def _refer_to_files(plain: Any) -> None:
    """Make a reference to its schema of each `{file: PATH}` that stands for a type."""
    for path, notation in list(_notations(plain)):
        for place in list(file_places(notation)):
            *steps, last = (*path, *place)
            holder = plain
            for step in steps:
                holder = holder[step]
            holder[last] = {"$ref": quote(holder[last]["file"])}


def schemas_in(plain: Any) -> Iterator[tuple[DocPath, dict[str, Any]]]:
    """Each JSON Schema that a machine uses as a type, with its place."""
    for path, notation in _notations(plain):
        yield from _roots(notation, path)


def _notations(plain: Any) -> Iterator[tuple[DocPath, Any]]:
    for key in ("input", "agents", "validators", "states"):
        yield from _types(plain.get(key) if isinstance(plain, dict) else None, (key,))


def _types(value: Any, path: DocPath) -> Iterator[tuple[DocPath, Any]]:
    """Each type notation of a machine, with its place."""
    if path == ("input",):
        yield path, value
    for key, inner in _items(value):
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


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


class _Reference(Value, frozen=True):
    """A `$ref`, where it stands and where it leads."""

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
        return _resolve(self.base, self.written)

    def file_from(self, name: str) -> str:
        """The file that it names, in a file of this name; nothing where it names none."""
        named = unquote(self.written.partition("#")[0])
        if not named or ":" in named or named.startswith("/"):
            return ""
        return posixpath.normpath(posixpath.join(posixpath.dirname(name), named))


def _references(schema: Any, path: DocPath = (), base: str = "") -> Iterator[_Reference]:
    if not isinstance(schema, dict):
        return
    base = _resolve(base, schema.get("$id"))
    for word in REFERENCES:
        if isinstance(schema.get(word), str):
            yield _Reference((*path, word), schema, base)
    for step, inner in inner_schemas(schema):
        yield from _references(inner, (*path, *step), base)


def _addresses(schema: Any, base: str = "") -> Iterator[str]:
    """The addresses of the schema, and of schemas in it that have their own."""
    if isinstance(schema, dict):
        base = _resolve(base, schema.get("$id"))
        yield base
        for _, inner in inner_schemas(schema):
            yield from _addresses(inner, base)


def _resolve(base: str, address: object) -> str:
    """An address resolved against a base, without its fragment."""
    if not isinstance(address, str):
        return base
    try:
        return urldefrag(urljoin(base, address))[0]
    except ValueError:
        # This is not an address, so it leads nowhere.
        return address


class _File(Value, frozen=True):
    """The machine file, or one that is put into a schema of it."""

    name: str
    """Its path from the machine's folder; empty for the machine file."""
    schema: Any
    place: DocPath
    """The way to it in the bundle."""
    document: Document | None
    """The places of its parts, if they are known."""


class _Bundle(Mutable):
    """One schema of a machine, while the files that it refers to are put into it."""

    root: dict[str, Any]
    path: DocPath
    folder: Path
    document: Document
    files: list[_File] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    """All addresses in the bundle."""
    included: dict[DocPath, Included] = field(default_factory=dict)
    faults: list[Problem] = field(default_factory=list)

    def fill(self) -> None:
        """Read the files that the schema refers to, and those that these do, each once."""
        self.known.update(_addresses(self.root))
        self.files.append(_File("", self.root, (), self.document))
        # The list grows while it is gone through.
        for file in self.files:
            for reference in list(_references(file.schema)):
                self._follow(file, reference)

    def _follow(self, file: _File, reference: _Reference) -> None:
        name = reference.file_from(file.name)
        if not name or reference.address in self.known:
            return
        shown = str(Path(self.document.file).parent / name)
        try:
            text = read_included(self.folder, name)
            schema, document = _read(text, shown)
        except CannotInclude as error:
            flaw = Flaw(str(error), reference.path, error.remedy)
            self.faults.append(_problem("unreadable-file", flaw, file, self.path))
        except ProblemsFound as found:
            self.faults += found.problems
        else:
            self._add(reference, _File(name, schema, (BUNDLED, reference.address), document))
            digest = hashlib.sha256(text.encode()).hexdigest()
            self.included[*self.path, *self.files[-1].place] = Included(shown, text, digest)

    def _add(self, reference: _Reference, file: _File) -> None:
        own = _resolve(reference.address, file.schema.get("$id"))
        if own != reference.address:
            _, mark, part = reference.written.partition("#")
            reference.holder[reference.word] = f"{own}{mark}{part}"
        file.schema["$id"] = own
        self.root.setdefault(BUNDLED, {})[reference.address] = file.schema
        self.known |= {reference.address, *_addresses(file.schema)}
        self.files.append(file)

    def flaws(self) -> Iterator[Problem]:
        """References without a target, and all other mistakes in the files."""
        for flaw in schema_problems(self.root):
            file = next(f for f in reversed(self.files) if flaw.path[: len(f.place)] == f.place)
            inside = flaw.replace(path=flaw.path[len(file.place) :])
            if flaw.leads_nowhere:
                yield _problem("dead-reference", inside, file, self.path)
            elif file.name:
                yield _problem("bad-type", inside, file, self.path)


def _problem(code: str, flaw: Flaw, file: _File, path: DocPath) -> Problem:
    place = flaw.path if file.name else (*path, *flaw.path)
    dotted = ".".join(map(str, place))
    if file.document is None:
        return Problem(code, f"`{file.name}`: {flaw.message}", None, dotted, flaw.remedy)
    span, also = file.document.places(place)
    return Problem(code, flaw.message, span, dotted, flaw.remedy, also=also)


def _read(text: str, shown: str) -> tuple[dict[str, Any], Document | None]:
    """The schema of a file, and where its parts stand; raises ProblemsFound."""
    value = parse_json(text)
    try:
        document = read(text, shown)
    except ProblemsFound:
        # JSON may have tabs where YAML may not; then the places are unknown.
        if not isinstance(value, dict):
            raise
        return value, None
    return document.plain(), document
