"""Sources: the names from which the author of each artifact makes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from loopkit.language.template import TemplateError, parse
from loopkit.machine.graph import Graph


def names_in_templates(graph: Graph, name: str) -> frozenset[str]:
    """The names in the templates of an author and of its agents."""
    own = (template for agent in graph.machine.agents_at(name) for template in agent.templates)
    names = frozenset[str]()
    for path, text in (*graph.states[name].templates, *own):
        # Neither the file that holds the artifact nor how a program is resumed makes a difference.
        if path[0] not in ("output", "resume"):
            # A template that can't be parsed is a problem of its own.
            with suppress(TemplateError):
                names |= parse(text).names
    return names


def names_needed(graph: Graph, name: str) -> frozenset[str]:
    """The artifacts that a state lists under `needs`."""
    return frozenset(path.partition(".")[0] for path in graph.states[name].needed or ())


def names_behind(graph: Graph, name: str) -> frozenset[str]:
    """The names of all that an author's work is made from."""
    return names_in_templates(graph, name) | names_needed(graph, name)


def judges_behind(graph: Graph, states: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """For each author, the validate states among `states` that judge what its artifact led to."""
    names_of = {name: names_behind(graph, name) for name in graph.authors}
    found: dict[str, dict[str, None]] = {}
    for judging in states:
        for author in _sources(graph, names_of, graph.judges[judging].validate_):
            found.setdefault(author, {})[judging] = None
    return {author: tuple(judging) for author, judging in found.items()}


def _sources(graph: Graph, names_of: dict[str, frozenset[str]], artifact: str) -> Iterator[str]:
    """The authors of an artifact, and the agents' states that may have a part in it."""
    seen, front = {artifact}, [artifact]
    while front:
        name = front.pop()
        for author in graph.artifacts.get(name, ()):
            if name == artifact or graph.states[author].asks:
                yield author
            made_of = [n for n in names_of[author] if n in graph.artifacts and n not in seen]
            seen.update(made_of)
            front += made_of
