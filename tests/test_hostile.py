"""The short form of the hostile round; `python -m tests.hostile --count 20000` is the long one."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.hostile.__main__ import played
from tests.hostile.forked import forked, within
from tests.hostile.generators import GENERATORS, hostile

EACH = 3
"""How many inputs each generator makes here."""


@pytest.mark.parametrize("number", range(len(GENERATORS)), ids=lambda n: GENERATORS[n].__name__)
def test_hostile_input_is_told_in_time_and_is_no_bug_of_ours(number: int) -> None:
    numbers = range(number, EACH * len(GENERATORS), len(GENERATORS))
    wrong = [
        f"{which}: {outcome.fault or outcome.value}"
        for which, outcome in played(0, numbers)
        if outcome.fault or outcome.value
    ]
    assert wrong == []


def test_an_input_is_the_same_one_each_time() -> None:
    numbers = range(len(GENERATORS))
    assert [hostile(3, n) for n in numbers] == [hostile(3, n) for n in numbers]
    assert [hostile(3, n) for n in numbers] != [hostile(4, n) for n in numbers]


def test_a_job_that_works_too_long_is_ended_and_the_next_one_goes_on() -> None:
    def for_ever() -> None:
        while True:
            pass

    found = list(forked([lambda: 1, for_ever, lambda: 2], 0.3))
    assert [outcome.value for outcome in found] == [1, None, 2]
    assert found[1].fault == "it worked longer than it may"


def test_a_job_that_raises_or_dies_is_told_from_one_that_does_well() -> None:
    def dies() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def raises() -> None:
        raise ValueError("no")

    found = list(forked([raises, dies, time.time], 5))
    assert "ValueError: no" in found[0].fault
    assert "ended with status 9" in found[1].fault
    assert found[2].fault == ""
    with pytest.raises(AssertionError, match="ValueError: no"):
        within(5, raises)
