"""Expected children: the expectations of the runs that a state began."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loopkit.scenario import Expect, InChild, one_child
from loopkit.testing.expectations.miss import Miss
from loopkit.testing.trace import ChildTrace, Trace


def judged_children(run: Trace, expect: Expect) -> Iterator[tuple[ChildTrace, InChild[Expect]]]:
    """Each child that has expectations, with these."""
    for child in run.children:
        expected = one_child(expect.children or {}, child.state, child.key, child.visit)
        if expected is not None:
            yield child, expected


def unbegun(run: Trace, expect: Expect) -> Iterator[Miss]:
    """The unmet expectations of children that never began; of these only the outcome is known."""
    begun = {expected.at for _, expected in judged_children(run, expect)}
    for one in expect.in_children:
        if one.at in begun:
            continue
        outcome = _results(run, one.state).get(one.key, {}).get("outcome")
        if outcome is None:
            message = f"expected something of `{one.called}`, and no such child began"
            yield Miss(one.at, message)
        elif one.said.model_fields_set - {"outcome"} or one.said.outcome not in (None, outcome):
            # For a visit without such an item, nothing is expected: `{}`.
            message = f"expected something of `{one.called}`, which is `{outcome}` and never began"
            yield Miss(one.at, message)


def _results(run: Trace, state: str) -> Mapping[str, Any]:
    artifact = run.state.artifacts.get(state)
    return artifact.data if artifact is not None and isinstance(artifact.data, Mapping) else {}
