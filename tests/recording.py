"""Recording what tests play, and holding a replay against it."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager

from loopkit.engine.events import Event
from loopkit.language.load import load
from loopkit.machine.program import Program
from loopkit.testing import load_suite, play, run_case
from loopkit.testing.playing import FamilyRun
from loopkit.testing.recording import Recording, record, target
from loopkit.testing.trace import difference
from tests.support import Desk, Played


def taped(desk: Desk, played: Played, name: str | None = None) -> Recording:
    """The recording of a run of the desk's `machine.yaml`."""
    path = desk.folder / "machine.yaml"
    loaded = load(path)
    into = target(desk.folder / "recorded.scenario.yaml", path, name)
    run = FamilyRun(played.state, tuple(played.stored))
    return record(into, Program(loaded.machine, loaded.digest), run)


def taped_same(desk: Desk, played: Played, name: str | None = None) -> Recording:
    """The same, after its replay was held against the run."""
    made = taped(desk, played, name)
    assert_same(made, played)
    return made


def replayed(made: Recording) -> list[Event]:
    return [stored.event for stored in play(load_suite(made.path), made.case).events]


def assert_same(made: Recording, played: Played) -> None:
    """The replay comes to the same events, and the case passes as it is written."""
    assert made.difference is None, f"{made.difference}\n{made.path.read_text()}"
    assert difference(played.events, replayed(made)) is None
    result = run_case(load_suite(made.path), made.case)
    assert result.passed, result.text


@contextmanager
def no_room(most_bytes: int = 16) -> Iterator[None]:
    """No file can get longer than a few bytes, as on a disk that is nearly full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
