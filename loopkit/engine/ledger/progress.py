"""Stalls: revising made no progress if the work is the same or the findings repeat."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from loopkit.engine.findings import Report
from loopkit.engine.ledger.version import Version
from loopkit.engine.rounds import Earlier, what_blocks


def has_stalled(earlier: Earlier, now: Report, version: Version, stall: int) -> bool:
    """Whether revising made no progress.

    True if the work equals that of an earlier attempt; if the artifact is not all of the work,
    everything that blocked then has to block now as well. True also if for some period p the last
    `stall`·p sets of blocking findings repeat with period p.
    """
    ids, blocked_by = what_blocks(now)
    if version.digest:
        same = earlier.of_work(version.digest)
        if any(version.is_whole or entry.blocking_ids <= ids for entry in same):
            return True
    if len(earlier) + 1 < stall or not earlier.has_blocked(blocked_by):
        return False
    # Usually the last set repeats, and then no earlier ones need to be compared.
    last = [entry.blocked_by for entry in islice(reversed(earlier), stall - 1)]
    if last.count(blocked_by) == stall - 1:
        return True
    return _repeats([blocked_by, *(entry.blocked_by for entry in reversed(earlier))], stall)


def _repeats(sets: Sequence[object], stall: int) -> bool:
    """Whether the first `stall`·p of the sets, the newest first, have period p for some p."""
    common = _common(sets)
    return bool([p for p in range(1, len(sets) // stall + 1) if common[p] >= (stall - 1) * p])


def _common(sets: Sequence[object]) -> list[int]:
    """How much of the beginning repeats at each place: the Z-function, in linear time."""
    count = len(sets)
    common = [0] * count
    start = end = 0
    for at in range(1, count):
        known = min(end - at, common[at - start]) if at < end else 0
        while at + known < count and sets[known] == sets[at + known]:
            known += 1
        common[at] = known
        if at + known > end:
            start, end = at, at + known
    return common
