"""What the records of children tell of the time in which they worked before a kill."""

from __future__ import annotations

import pytest

from loopkit.drive.stored_runs import Stored, last_counted, seconds_in, spans_of
from loopkit.engine.events import ChildEnded, Claimed, Suspended
from loopkit.engine.records import Usage


def test_the_time_between_two_processes_is_nobodys_work() -> None:
    records = [(1, 10.0), (1, 14.0), (2, 100.0), (2, 101.0), (3, 200.0)]
    history = [Stored(seq, epoch, at, Claimed()) for seq, (epoch, at) in enumerate(records)]
    assert list(spans_of(history)) == [(10.0, 14.0), (100.0, 101.0), (200.0, 200.0)]


@pytest.mark.parametrize(
    ("since", "seconds"), [(0.0, 7.0), (11.0, 6.0), (15.0, 2.0), (22.0, 0.0), (30.0, 0.0)]
)
def test_what_children_did_at_the_same_time_counts_once_and_what_was_counted_does_not(
    since: float, seconds: float
) -> None:
    spans = [(20.0, 22.0), (10.0, 14.0), (12.0, 15.0), (11.0, 12.0)]
    assert seconds_in(spans, since) == seconds


def test_a_run_that_was_stopped_before_it_counted_the_time_of_a_kill_has_not_counted_it() -> None:
    ended = ChildEnded(state="s", visit=1, key="k", result={}, usage=Usage(), time_s=1.0)
    stopped = Suspended(state="s", reason="interrupted", message="stopped")
    assert last_counted([Stored(2, 1, 10.0, ended), Stored(3, 1, 20.0, stopped)]) == 10.0
    assert last_counted([Stored(3, 1, 20.0, stopped)]) == 0.0
