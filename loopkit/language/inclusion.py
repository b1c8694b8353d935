"""Files that a machine or a scenario takes in with `{file: PATH}`: texts, and data of inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from loopkit.document.document import DocPath, Document
from loopkit.document.problems import Problem, ProblemsFound, Span
from loopkit.document.reading import CannotInclude, Included, read, read_included
from loopkit.language.datatypes.notation import default_places, file_places
from loopkit.text.json_text import NoJson, entries_of, parse_json
from loopkit.values import Mutable, field

INCLUDING = frozenset(
    {"system", "instructions", "prompt", "render", "human", "feedback", "message", "stdin"}
    | {"rubric"}
)
KNOWN_IN = "in"
TEXTS = ("str", "string")
"""The types whose values are the text of a file, whatever is in it."""
OF_DATA = (".json", ".yaml", ".yml")
"""The names of files that are data where the type may be `any`; other files are text there."""


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Files(Mutable):
    """The files that a machine or a scenario takes in, and what is wrong with them."""

    document: Document
    folder: Path
    included: dict[DocPath, Included] = field(default_factory=dict)
    faults: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    """Parts of agents' files that were ignored, as problems of the kind `note`."""
    roles: frozenset[str] = frozenset()
    """The agents that only their file in the folder of agents declares."""

    def read(self, relative: str, at: DocPath, *below: str) -> Included | None:
        """A file that is named at a place, or below it; none, and a fault there, if it can't be."""
        try:
            text = read_included(self.folder, relative)
        except CannotInclude as error:
            self.refuse(error, at, *below)
            return None
        return Included(self.shown(relative), text, digest_of(text))

    def shown(self, relative: str) -> str:
        """The name of a file in messages."""
        return str(Path(self.document.file).parent / relative)

    def refuse(self, error: CannotInclude, at: DocPath, *below: str) -> None:
        span, also = self.document.places((*at, *below))
        path = ".".join(map(str, at))
        fault = Problem("unreadable-file", str(error), span, path, error.remedy, also=also)
        self.faults.append(fault)


def include(plain: Any, files: Files, keys: frozenset[str], at: DocPath = ()) -> None:
    """Replace every `{file: PATH}` below one of `keys` by the file's text.

    `at` leads to `plain` in the document.
    """
    for path, holder, key in list(_inclusions(plain, at, keys)):
        relative = holder[key]["file"]
        holder[key] = ""
        if (file := files.read(relative, path, "file")) is not None:
            files.included[path] = file
            # The file of a `lookup` keeps its name, which the rule's findings use.
            is_named = key == KNOWN_IN
            holder[key] = {"file": relative, "text": file.text} if is_named else file.text


def _inclusions(
    value: Any, path: DocPath, keys: frozenset[str]
) -> Iterator[tuple[DocPath, Any, Any]]:
    for key, child in entries_of(value):
        here = (*path, key)
        if _includes(child, here, keys):
            yield here, value, key
        else:
            yield from _inclusions(child, here, keys)


def _includes(value: object, path: DocPath, keys: frozenset[str]) -> bool:
    if not (isinstance(value, dict) and set(value) == {"file"} and isinstance(value["file"], str)):
        return False
    # The section `feedback:` itself is a table of names, one of which may be `file`.
    named = path[0] == "feedback" and len(path) == 2
    words = [step for step in path if isinstance(step, str)]
    is_known = path[0] in ("validators", "states") and words[-2:] == ["lookup", KNOWN_IN]
    # The name of an agent may be any word, too, and one may be in a file of its own.
    is_agent = path[0] == "agents" and len(path) == 2
    return named or is_known or (len(path) > 1 and words[-1] in keys and not is_agent)


def include_defaults(plain: Any, files: Files) -> None:
    """Replace each `{file: PATH}` that is the default of an input by the data of the file."""
    for place in list(default_places(plain.get("input"))):
        holder = reduce(getitem, place, plain["input"])
        at = ("input", *place)
        default = holder["default"]
        named = str(default.get("file")) if isinstance(default, dict) else ""
        is_either = holder["type"] == "any" and not named.endswith(OF_DATA)
        if holder["type"] in TEXTS or is_either:
            include(holder, files, frozenset({"default"}), at)
        elif not (_has_file(holder["type"]) or _has_file(holder.get("properties"))):
            # Else it is a value of its own.
            include_data(holder, "default", files, at)


def _has_file(fields: object) -> bool:
    """Whether there is a field `file`, and not a file that stands for the whole type."""
    return isinstance(fields, dict) and "file" in fields and () not in file_places(fields)


def include_data(holder: dict[str, Any], key: str, files: Files, at: DocPath) -> None:
    """Replace `{file: PATH}` under a key by the data of the file, which is JSON or YAML.

    `at` leads to `holder` in the document.
    """
    alone = {key: holder[key]}
    include(alone, files, frozenset({key}), at)
    if file := files.included.get((*at, key)):
        try:
            alone[key] = data_of(file.text, file.file)
        except ProblemsFound as found:
            files.faults += found.problems
    holder |= alone


def data_of(text: str, shown_as: str) -> object:
    """The data of a text of JSON or YAML; raises ProblemsFound."""
    data = parse_json(text)
    if not isinstance(data, NoJson):
        return data
    # Read as YAML, a slip of JSON has its place.
    plain = read(text, shown_as, any_root=True).plain()
    if shown_as.endswith(".json"):
        message = f"this is not JSON: {data.reason}"
        place = Span(shown_as, 1, 1, 1, 1)
        problem = Problem("unreadable-data", message, place, help="correct the file")
        raise ProblemsFound([problem])
    return plain
