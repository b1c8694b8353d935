"""What a round of a long run costs: as much as the first ones, whatever was before."""

from __future__ import annotations

import asyncio
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from loopkit.agents.port import Reply, Request
from loopkit.app import App
from loopkit.drive.stored_runs import Stored
from loopkit.engine.events import Worked
from loopkit.engine.records import Usage
from loopkit.language.load import load
from tests.machines import loop

ROUNDS = 120
MACHINE = loop(
    "[rules]",
    {"valid or regressed": "done"},
    '{revise: draft, feedback: "{% for f in findings %}{{ f.message }}{% endfor %}"}',
    "{target: failed}",
    top=r"""
limits: {revisions: 120, stall: 2}
agents: {author: {model: some/model}}
validators:
  rules:
    - {not_matches: 'TODO \d+', message: 'Of {{ attempt }}: {{ value }}'}
    - {command: [cat], parse: lines, fail_codes: [1]}
    - {require: n > attempt}
""",
    judge="check",
)


class Author:
    """Writes data that are wrong in a new way each time."""

    def __init__(self) -> None:
        self.number = 0

    async def ready(self) -> None:
        return None

    def quote(self, _: Request) -> Usage:
        return Usage(agent_calls=1)

    async def ask(self, _: Request) -> Reply:
        self.number += 1
        return Reply(f'{{"n": 0, "said": "TODO {self.number}"}}')


@pytest.fixture
def counted(tmp_path: Path) -> list[int]:
    """For each round of a run that is never right, the calls that Python made in it."""
    path = tmp_path / "machine.yaml"
    path.write_text(MACHINE)
    calls, marks = 0, list[int]()

    def count(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    def watch(stored: Stored) -> None:
        if isinstance(stored.event, Worked) and stored.event.report is not None:
            marks.append(calls)

    async def drive() -> None:
        app = App.open(None, listeners=[watch])
        active = await app.start(load(path), {}, None)
        active.agents = {"author": Author()}
        sys.setprofile(count)
        await app.drive(active)
        sys.setprofile(None)
        await app.close()

    asyncio.run(drive())
    return [after - before for before, after in pairwise(marks)]


def test_the_last_rounds_of_a_long_run_cost_what_the_first_ones_did(counted: list[int]) -> None:
    assert len(counted) == ROUNDS
    first, last = sum(counted[5:15]), sum(counted[-10:])
    assert last < 1.1 * first, (first, last)
