"""Sources: what the author of each artifact is told or needs, so what its work is made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from loopkit.language.template import TemplateError, parse
from loopkit.machine.graph import Graph


def names_told(graph: Graph, name: str) -> frozenset[str]:
    """The names in what a state that writes is told to do."""
    own = (template for agent in graph.machine.agents_at(name) for template in agent.templates)
    names = frozenset[str]()
    for path, text in (*graph.states[name].templates, *own):
        # Not by which file the artifact is handed over, nor how a program is taken back.
        if path[0] not in ("output", "resume"):
            # One that can't be read is a problem of its own.
            with suppress(TemplateError):
                names |= parse(text).names
    return names


def names_needed(graph: Graph, name: str) -> frozenset[str]:
    """The artifacts of which a state says itself that it needs them."""
    return frozenset(path.partition(".")[0] for path in graph.states[name].needed or ())


def names_behind(graph: Graph, name: str) -> frozenset[str]:
    """The names of all that the work of a state that writes is made from."""
    return names_told(graph, name) | names_needed(graph, name)


def judged_behind(graph: Graph, states: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """For each author, those of the validate states that judge what was made from its artifact."""
    told = {name: names_behind(graph, name) for name in graph.authors}
    found: dict[str, dict[str, None]] = {}
    for judging in states:
        for author in _sources(graph, told, graph.judges[judging].validate_):
            found.setdefault(author, {})[judging] = None
    return {author: tuple(judging) for author, judging in found.items()}


def _sources(graph: Graph, told: dict[str, frozenset[str]], artifact: str) -> Iterator[str]:
    """The authors of an artifact, and the agents' states that may have a part in it."""
    seen, front = {artifact}, [artifact]
    while front:
        name = front.pop()
        for author in graph.artifacts.get(name, ()):
            if name == artifact or graph.states[author].asks:
                yield author
            made_of = [n for n in told[author] if n in graph.artifacts and n not in seen]
            seen.update(made_of)
            front += made_of
