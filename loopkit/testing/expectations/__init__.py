"""Expectations compared with a run: one function for each key of `expect:`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from loopkit.scenario import Expect
from loopkit.testing.expectations import counts, findings, route, written_texts
from loopkit.testing.expectations.children import judged_children, unbegun
from loopkit.testing.expectations.miss import Miss
from loopkit.testing.trace import Trace
from loopkit.text.run_ids import place_of

EXPECTATIONS: tuple[Callable[[Trace, Expect], Iterator[Miss]], ...] = (
    route.path,
    route.outcome,
    route.kept,
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


def misses(run: Trace, expect: Expect, called: str = "") -> Iterator[Miss]:
    """Every expectation that did not come true, in the order of the keys in the reference.

    `called` is the name of the run, if it is a child.
    """
    for expectation in EXPECTATIONS:
        yield from _with_child_name(called, expectation(run, expect))
    for child, expected in judged_children(run, expect):
        place = place_of(child.state, child.key, called)
        for miss in misses(child.trace, expected.said, place):
            yield Miss((*expected.at, *miss.at), miss.message, miss.shown)
    yield from _with_child_name(called, unbegun(run, expect))


def _with_child_name(called: str, found: Iterable[Miss]) -> Iterator[Miss]:
    for miss in found:
        message = f"`{called}`: {miss.message}" if called else miss.message
        yield Miss(miss.at, message, miss.shown)


__all__ = ["misses"]
