"""The version of an artifact that is judged, and its data: parsed, or JSON or YAML in its text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

from loopkit.document.problems import ProblemsFound
from loopkit.document.reading import read, why_unread
from loopkit.language.validators import DataFile, Lookup
from loopkit.machine.scope import over
from loopkit.text.json_text import NoJson, extract_json, parse_json
from loopkit.values import Value


class JudgedArtifact(Value, frozen=True):
    artifact: str
    text: str
    data: object = None
    is_data: bool = False
    """Whether the artifact is `data`, so that `text` does not count."""

    @property
    def content(self) -> str:
        """The text with LF line ends, or the data as JSON on one line."""
        if self.is_data:
            return json.dumps(self.data, ensure_ascii=False)
        from loopkit.text.markdown import with_line_feeds  # noqa: PLC0415 - as below

        return with_line_feeds(self.text)

    def names(self, others: Mapping[str, object]) -> Mapping[str, object]:
        """The names of a template: the others, the artifact by its name and as `artifact`.

        If one of the others equals this artifact, it is used instead, with its fields.
        """
        own = self.data if self.is_data else self.text
        known = others.get(self.artifact)
        value = known if known == own else own
        return over({self.artifact: value, "artifact": value}, others)


class NoData(Value, frozen=True):
    """Why the artifact holds no data, as a message for its author."""

    reason: str


def data_of(subject: JudgedArtifact, *, tolerant: bool) -> object | NoData:
    """The data of the artifact.

    A text has to be JSON, or else YAML with a mapping at the root, within the limits of a machine
    file. `tolerant` takes JSON out of a fence or prose as well, and YAML out of the only fence.
    """
    if subject.is_data:
        return subject.data
    return _data_in(subject.artifact, subject.text, tolerant=tolerant)


def _data_in(name: str, text: str, *, tolerant: bool) -> object | NoData:
    if not text.strip():
        return NoData("the artifact is empty, but JSON is expected")
    text = _without_yaml_fence(text) if tolerant else text
    value = extract_json(text) if tolerant else parse_json(text)
    return _from_yaml(name, text, value) if isinstance(value, NoJson) else value


@lru_cache(maxsize=64)
def data_in(file: DataFile) -> object | NoData:
    return _data_in(file.file, file.text, tolerant=False)


def place(lookup: Lookup) -> str:
    where = f" where `{lookup.where}`" if lookup.where else ""
    return f"`{lookup.in_}`" + (f" at `{lookup.at}`" if lookup.at else "") + where


def _from_yaml(artifact: str, text: str, no_json: NoJson) -> object | NoData:
    if is_meant_as_json(artifact, text):
        return NoData(f"the artifact is not JSON: {no_json.reason}")
    try:
        data: object = read(text, artifact).plain()
    except ProblemsFound as found:
        yaml = why_unread(found)
        return NoData(f"the artifact is neither JSON ({no_json.reason}) nor YAML: {yaml}")
    return data


def is_meant_as_json(name: str, text: str) -> bool:
    """Whether the reason from JSON is the better one: other YAML has its name, or another start."""
    start = text.lstrip("\ufeff \r\n")[:1]
    return start in ("{", "[", "`") and not name.endswith((".yaml", ".yml"))


def _without_yaml_fence(text: str) -> str:
    """The code of the only fence, if it is labelled yaml; else the text."""
    from loopkit.text.markdown import code_blocks  # noqa: PLC0415 - no check of a machine needs it

    blocks = code_blocks(text)
    return blocks[0][1] if len(blocks) == 1 and blocks[0][0] in ("yaml", "yml") else text
