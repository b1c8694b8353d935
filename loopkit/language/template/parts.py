"""Parts: a template that is nothing but texts and `{{ paths }}`, as most are."""

from __future__ import annotations

from typing import NamedTuple

from jinja2 import nodes

from loopkit.language.template.names import steps_of


class Hole(NamedTuple):
    """A `{{ findings[0].message }}`."""

    path: tuple[str | int, ...]
    line: int


def parts_of(tree: nodes.Template) -> tuple[str | Hole, ...] | None:
    """Return the texts and holes of a template in order; None where it has anything else."""
    parts: list[str | Hole] = []
    for node in tree.body:
        if not isinstance(node, nodes.Output):
            return None
        for part in node.nodes:
            if isinstance(part, nodes.TemplateData):
                parts.append(part.data)
            elif steps := steps_of(part):
                parts.append(Hole(steps, part.lineno))
            else:
                return None
    return tuple(parts)
