"""Expectations compared with a run: one function for each key of `expect:`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from loopkit.scenario import Expect, child_name
from loopkit.testing.expectations import counts, findings, route, written_texts
from loopkit.testing.expectations.children import judged_children, unbegun
from loopkit.testing.expectations.miss import Miss
from loopkit.testing.trace import Trace

EXPECTATIONS: tuple[Callable[[Trace, Expect], Iterator[Miss]], ...] = (
    route.path,
    route.outcome,
    route.verdicts,
    findings.findings,
    written_texts.feedback,
    written_texts.prompts,
    counts.revisions,
    counts.calls,
    counts.cost,
    route.events,
    written_texts.artifacts,
)


def misses(run: Trace, expect: Expect) -> Iterator[Miss]:
    """Everything that did not come true, in the order in which the reference has the keys."""
    yield from own_misses(run, expect)
    for child, expected in judged_children(run, expect):
        for miss in misses(child.trace, expected.said):
            called = child_name(child.state, child.key)
            yield Miss((*expected.at, *miss.at), f"`{called}`: {miss.message}", miss.shown)
    yield from unbegun(run, expect)


def own_misses(run: Trace, expect: Expect) -> Iterator[Miss]:
    """The same but for what is expected of children."""
    for judge in EXPECTATIONS:
        yield from judge(run, expect)


__all__ = ["Miss", "judged_children", "misses", "own_misses"]
