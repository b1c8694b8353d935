"""The endpoints that change runs, with the same checks as the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopkit.drive.answers import AnsweredTwice, AnswerRefused
from loopkit.drive.inbox import AnyAnswer
from loopkit.engine.payloads import Delivery, HumanAnswer
from loopkit.engine.records import Record
from loopkit.serving.host import THIS_SERVER
from loopkit.serving.http.answers import BadRequest, json_answer
from loopkit.serving.http.library import Response
from loopkit.serving.http.table import Call, Endpoint
from loopkit.text.json_text import text_or_json
from loopkit.views.page.fields import LONGEST_NAME, is_name


class Begin(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run to start."""

    machine: str
    """The name of one of the machines of this server."""
    input: dict[str, Any] = {}


class Given(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer to the open question of a run."""

    choice: str
    comment: str = ""
    form: dict[str, Any] = {}
    """The fields of the question's form."""
    edit: str | None = None
    """The artifact as you have edited it, where the question offers that."""
    origins: dict[str, tuple[str, ...]] = {}
    """For findings of the last report: the states that have to fix them."""
    limits: dict[str, Any] = {}
    """Limits of the run to raise."""
    by: str = "person"
    """Who answers, for the record."""
    question: str | None = None
    """The id of the question that is meant. Without it, it is the open one, and the answer that
    the one before it had is refused."""


class Delivered(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run waits for from outside."""

    artifact: Any = None
    """The whole text, or data. Without it what lies in the workspace is delivered."""
    by: str = "person"
    """Who delivers, for the record."""
    question: str | None = None
    """The id of the request that is meant. Without it, it is the open one, and what was delivered
    to the one before it is refused."""


class Reason(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a run is ended."""

    reason: str = ""


class Nothing(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An empty object."""


class Driven(Record, frozen=True, kw_only=True):
    """What became of a run that was started or goes on."""

    run: str
    driver: str
    """Who drives it now: `this server`, another process, or `nobody`, where it is over or has
    stopped for another reason since."""
    is_new: bool = True
    """False where the same was answered or delivered before."""


class Ended(Record, frozen=True, kw_only=True):
    """What became of a run that was to be ended."""

    run: str
    message: str


async def start_run(call: Call) -> Response:
    body: Begin = call.body
    if body.machine not in call.host.machines:
        raise BadRequest(f"there is no machine `{body.machine}` here; see /api/machines", 404)
    run = await call.host.start(body.machine, body.input)
    return json_answer(Driven(run=run, driver=THIS_SERVER), 201)


async def answer_run(call: Call) -> Response:
    given = {name: getattr(call.body, name) for name in Given.__struct_fields__}
    del given["question"]
    return await _post(call, HumanAnswer(**given))


async def reply_to_run(call: Call) -> Response:
    body: Delivered = call.body
    text = None if body.artifact is None else text_or_json(body.artifact)
    return await _post(call, Delivery(text=text, by=body.by))


async def _post(call: Call, given: AnyAnswer) -> Response:
    """Give a run what a body holds, and go on with it; raises BadRequest and AnswerRefused."""
    if not is_name(given.by):
        raise BadRequest(f"`by` has to be a name of at most {LONGEST_NAME} characters", 422)
    run = call.path["run"]
    try:
        posted = await call.host.post(run, given, call.body.question)
    except AnsweredTwice as twice:
        raise AnswerRefused(f"{twice}; name it as `question` to {twice.again}") from twice
    return json_answer(Driven(run=run, driver=posted.driver, is_new=posted.is_new))


async def resume_run(call: Call) -> Response:
    run = call.path["run"]
    await call.host.resume(run)
    return json_answer(Driven(run=run, driver=THIS_SERVER))


async def cancel_run(call: Call) -> Response:
    run, body = call.path["run"], call.body
    message = await call.host.app.cancel(run, body.reason)
    return json_answer(Ended(run=run, message=message))


CHANGING: Sequence[Endpoint] = (
    Endpoint("POST", "/api/runs", "Start a run.", start_run, takes=Begin, gives=Driven),
    Endpoint(
        "POST", "/api/runs/{run}/answer", "Answer the open question of a run, and go on with it.",
        answer_run, takes=Given, gives=Driven,
    ),
    Endpoint(
        "POST", "/api/runs/{run}/reply",
        "Deliver the artifact that a run waits for from outside, and go on with it.",
        reply_to_run, takes=Delivered, gives=Driven,
    ),
    Endpoint(
        "POST", "/api/runs/{run}/resume", "Go on with a run that was suspended or interrupted.",
        resume_run, takes=Nothing, gives=Driven,
    ),
    Endpoint(
        "POST", "/api/runs/{run}/cancel", "End a run permanently.", cancel_run, takes=Reason,
        gives=Ended,
    ),
)  # fmt: skip
