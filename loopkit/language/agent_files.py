"""Agents in Markdown: what a file says of an agent, put among the fields that the machine gives it.

The front matter gives fields, the text below it is the system prompt; what the machine says wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from loopkit.document import Document
from loopkit.document.document import DocPath, Entry, Node
from loopkit.document.front_matter import FrontMatter, read_front_matter
from loopkit.document.inclusion import CannotInclude, Included, read_included
from loopkit.document.problems import Problem, ProblemsFound, Span, closest
from loopkit.language.agents import noun_with
from loopkit.language.agents.agent import AgentBase
from loopkit.language.inclusion import digest_of
from loopkit.values import Mutable, Value, field

KEYS = ("name", "description", "tools", "model")
"""The keys allowed in an agent's front matter; the agent's name comes from the machine."""


class AgentFiles(Mutable):
    """A document with the content of its agents' files merged in."""

    document: Document
    included: dict[DocPath, Included] = field(default_factory=dict)
    faults: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    """Parts of the files that were ignored, as problems of the kind `note`."""


def with_agent_files(document: Document, folder: Path) -> AgentFiles:
    """Read the files that agents name under `file`; faults in them become problems."""
    files = AgentFiles(document)
    agents = document.node(("agents",))
    if agents is not None and isinstance(agents.value, Mapping):
        filled = {name: _with_file(files, folder, name, e) for name, e in agents.value.items()}
        if files.included:
            files.document = _with_agents(document, filled)
    return files


def _with_agents(document: Document, agents: Mapping[str, Entry]) -> Document:
    root = document.root
    assert isinstance(root.value, Mapping)
    of_agents = root.value["agents"]
    entry = of_agents.replace(node=of_agents.node.replace(value=agents))
    return document.replace(root=root.replace(value={**root.value, "agents": entry}))


def _with_file(files: AgentFiles, folder: Path, name: str, entry: Entry) -> Entry:
    """An agent with the fields of its file added."""
    own = entry.node.value
    named = own.get("file") if isinstance(own, Mapping) else None
    if not isinstance(own, Mapping) or named is None or not isinstance(named.node.value, str):
        return entry
    if "file" not in (noun := noun_with(own)).model_fields:
        return entry
    path, relative = ("agents", name), named.node.value
    shown = str(Path(files.document.file).parent / relative)
    try:
        text = read_included(folder, relative)
        found = read_front_matter(text, shown)
    except CannotInclude as error:
        span, also = files.document.places((*path, "file"))
        where = ".".join((*path, "file"))
        files.faults.append(
            Problem("unreadable-file", str(error), span, where, error.remedy, also=also)
        )
        return entry
    except ProblemsFound as error:
        files.faults += error.problems
        return entry
    of_file = _AgentFile(".".join(path), shown, found, noun, own)
    files.faults += of_file.faults()
    files.notes += of_file.notes()
    # The place of the system prompt is this file, unless the machine has its own.
    at = "file" if "system" in own else "system"
    files.included[*path, at] = Included(shown, text, digest_of(text), found.line)
    return entry.replace(node=entry.node.replace(value={**of_file.fields(), **own}))


class _AgentFile(Value, frozen=True):
    """One file, and the agent that names it."""

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
        """The place of the text below the front matter."""
        rows = self.found.body.split("\n")
        first = self.found.line
        return Span(self.file, first, 1, first + len(rows) - 1, len(rows[-1]) + 1)

    def fields(self) -> dict[str, Entry]:
        """The fields of the agent that the file has."""
        known = self.noun.front_matter
        body = Entry(self._body, Node(self._body, self.found.body, None, "literal"))
        given = {key: entry for key, entry in self._given.items() if key in known}
        return {**given, **({"system": body} if self.found.body else {})}

    def faults(self) -> Iterator[Problem]:
        """The mistakes that make the file unusable as an agent."""
        kind = self.noun.kind
        if kind not in self.own and kind not in self._given:
            message = f"nothing says which `{kind}` this agent has"
            yield Problem("missing-field", message, self._start, self.path, self._missing(kind))
        if not self.found.body and "system" not in self.own:
            message = "there is no text below the front matter"
            remedy = "write the system prompt there"
            yield Problem("empty", message, self._body, self.path, remedy)

    def _missing(self, key: str) -> str:
        """The remedy for a key that the front matter lacks."""
        if self.found.keys is None:
            return f"start the file with a line `---`, `{key}: …` and another line `---`"
        foreign = [name for name in self._given if name not in KEYS]
        near = closest(key, foreign)
        if near is not None:
            return f"`{near}` is not read; did you mean `{key}`?"
        return f"add `{key}: …` to the front matter, or to the agent in the machine file"

    def notes(self) -> Iterator[Problem]:
        """Parts of the file that were ignored."""
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
