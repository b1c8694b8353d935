"""The `acyclic` rule: a graph in data."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Self

from pydantic import model_validator

from loopkit.language.guard import GuardError
from loopkit.language.guard.paths import ITEMS, parse_path
from loopkit.language.noun import Noun, Written, fault
from loopkit.language.validators.rule import Example, FixedRule


class Acyclic(Noun):
    """The paths of the graph's nodes and edges in the data."""

    nodes: str
    """The path of the node ids: `nodes[].id`."""
    edges: str
    """The path of the edges: the ids that each node names, `nodes[].needs[]`, or a list of pairs of
    ids."""
    needs: str | None = None
    """The path of what each node needs: `nodes[].inputs[]`. The rule then checks only that an
    earlier node gives it."""
    gives: str | None = None
    """The path of what each node gives: `nodes[].outputs[]`."""
    given: str | None = None
    """An input or an artifact that lists what is available without any node."""

    def __str__(self) -> str:
        return self.edges

    @property
    def item_steps(self) -> tuple[str, ...]:
        """The steps of the path to the items that are the nodes; none where they are no items."""
        steps = parse_path(self.nodes)
        return steps[: len(steps) - steps[::-1].index(ITEMS)] if ITEMS in steps else ()

    def is_in_nodes(self, path: str) -> bool:
        """Whether a path leads into the items that are the nodes."""
        items, steps = self.item_steps, parse_path(path)
        return 0 < len(items) < len(steps) and steps[: len(items)] == items

    @model_validator(mode="after")
    def _flows(self) -> Self:
        if (self.needs is None) != (self.gives is None) or (self.given and not self.needs):
            missing = "gives" if self.needs else "needs"
            message = f"`needs` and `gives` belong together, and `{missing}` is missing"
            raise fault("missing-field", message, help=f'add it: `{missing}: "nodes[].name[]"`')
        for key, path in (("needs", self.needs), ("gives", self.gives)):
            with suppress(GuardError):
                if path is not None and not self.is_in_nodes(path):
                    message = f"`{path}` does not lead into the nodes, the items of `{self.nodes}`"
                    help_ = "write it like `nodes[].name[]` beside `nodes: nodes[].id`"
                    raise fault("bad-path", message, (key,), help=help_)
        return self


class AcyclicRule(FixedRule):
    """Checks that a graph in the data has no cycle and that its edges lead to nodes."""

    acyclic: Acyclic
    """The paths of the nodes and edges."""

    kind = "acyclic"
    example = Example(
        {"acyclic": {"nodes": "tasks[].id", "edges": "tasks[].needs[]"}},
        passes='{"tasks": [{"id": "boil"}, {"id": "brew", "needs": ["boil"]}]}',
        fails='{"tasks": [{"id": "boil", "needs": ["boil"]}]}',
    )

    @property
    def paths(self) -> Written:
        yield ("acyclic", "nodes"), self.acyclic.nodes
        yield ("acyclic", "edges"), self.acyclic.edges
        if self.acyclic.needs is not None and self.acyclic.gives is not None:
            yield ("acyclic", "needs"), self.acyclic.needs
            yield ("acyclic", "gives"), self.acyclic.gives

    @property
    def mentions(self) -> Iterator[str]:
        yield from super().mentions
        if self.acyclic.given is not None:
            yield self.acyclic.given

    def wish(self, patterns: Mapping[str, str]) -> str:
        if self.acyclic.needs is not None:
            return f"a node before has each of `{self.acyclic.needs}` in `{self.acyclic.gives}`"
        return f"no cycle in `{self.acyclic.edges}`, which lead to `{self.acyclic.nodes}`"
