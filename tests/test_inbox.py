"""The inbox of a run, when the process that drove it died with messages in there."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopkit.app import App
from loopkit.engine.events import Refused
from loopkit.engine.payloads import HumanAnswer
from loopkit.language.load import load
from tests.support_postgres import url_of

ASKING = """
loopkit: 1
states:
  write: {render: A note., output: note, next: ask}
  ask:
    human: Go on?
    choices: [yes, again]
    transitions: [{guard: choice == "yes", target: done}, {revise: write}]
  done: {final: success}
"""


@pytest.fixture(params=["file", "postgres"])
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Path | str:
    return url_of(tmp_path) if request.param == "postgres" else tmp_path / ".loopkit"


async def waiting(app: App, folder: Path) -> str:
    """A run that waits for an answer."""
    (folder / "machine.yaml").write_text(ASKING, encoding="utf-8")
    return (await app.drive(await app.start(load(folder / "machine.yaml"), {}))).run


async def test_a_cancellation_takes_precedence_over_an_answer_that_came_before_it(
    place: Path | str, tmp_path: Path
) -> None:
    async with App.open(place) as dying, App.open(place) as other:
        run = await waiting(dying, tmp_path)
        claim = await dying.journal.claim(run)
        await other.post(run, HumanAnswer(choice="yes"))
        await other.cancel(run, "Enough.")
        await claim.release()
        state = await other.drive(await other.resume(run))
    assert state.status == "cancelled"


async def test_an_answer_to_a_question_that_is_over_is_refused_when_it_is_found(
    place: Path | str, tmp_path: Path
) -> None:
    async with App.open(place) as app:
        run = await waiting(app, tmp_path)
        claim = await app.journal.claim(run)
        await app.post(run, HumanAnswer(choice="again"))
        [message] = await claim.inbox()
        await claim.release()
        again = await app.drive(await app.resume(run))
        await app.journal.post(run, message.kind, "late", message.data, message.at)
        state = await app.drive(await app.resume(run))
        [refused] = [s.event for s in await app.events(run) if isinstance(s.event, Refused)]
    assert (again.status, state.status) == ("waiting", "waiting")
    assert (state.question, state.revised) == (again.question, again.revised)
    assert (refused.message_id, refused.reason) == ("late", "question `ask:1` is no longer open")
