"""Expected counts: revisions, calls, money."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.scenario import Expect
from loopkit.testing.expectations.miss import Miss
from loopkit.testing.trace import Trace
from loopkit.text import plural


def revisions(run: Trace, expect: Expect) -> Iterator[Miss]:
    """How often each state was revised, or each edge taken."""
    for name, expected in (expect.revisions or {}).items():
        if (taken := run.revisions[name]) != expected:
            message = f"expected {plural(expected, 'revision')} of `{name}`, and there were {taken}"
            yield Miss(("revisions", name), message)


def calls(run: Trace, expect: Expect) -> Iterator[Miss]:
    """How often each agent was called."""
    for agent, expected in (expect.calls or {}).items():
        if (made := run.calls[agent]) != expected:
            message = f"expected {plural(expected, 'call')} of `{agent}`, and there were {made}"
            yield Miss(("calls", agent), message)
    for agent, most in (expect.calls_at_most or {}).items():
        if (made := run.calls[agent]) > most:
            message = f"expected at most {plural(most, 'call')} of `{agent}`, and there were {made}"
            yield Miss(("calls_at_most", agent), message)


def cost(run: Trace, expect: Expect) -> Iterator[Miss]:
    """What the run and its children cost."""
    most, spent = expect.cost_usd_at_most, run.cost_usd
    if most is not None and (spent is None or spent > most + 1e-9):
        actual = "its cost is not known" if spent is None else f"it cost ${spent:.4f}"
        yield Miss(("cost_usd_at_most",), f"expected to pay at most ${most:.4f}, and {actual}")
