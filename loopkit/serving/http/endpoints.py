"""The endpoints of the API: those that read runs, and those that change them.

The latter make the same checks as the command line.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from loopkit.document.problems import did_you_mean
from loopkit.drive.answers import AnsweredTwice, AnswerRefused
from loopkit.drive.inbox import AnyAnswer
from loopkit.drive.stored_runs import read_stored
from loopkit.engine.payloads import Delivery, HumanAnswer
from loopkit.engine.records import Record
from loopkit.journal.records import Place
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.load import Loaded
from loopkit.serving.host import THIS_SERVER, Host
from loopkit.serving.http.answers import (
    EVENTS,
    OVER,
    BadRequest,
    Stream,
    json_answer,
    record_of,
    stream,
)
from loopkit.serving.http.library import BaseRoute, Request, Response, Route
from loopkit.serving.http.server import Site
from loopkit.serving.metrics import MEDIA as MEDIA_OF_METRICS
from loopkit.text.json_text import text_or_json
from loopkit.views.amounts import DAY_S
from loopkit.views.console import event_line
from loopkit.views.page.fields import LONGEST_NAME, is_name
from loopkit.views.page.run_page import RunPage
from loopkit.views.run_data import (
    AskedQuestion,
    RunData,
    RunSummary,
    ShownVersion,
    as_shown_version,
)
from loopkit.views.run_view import STATUSES, Wanted
from loopkit.views.steps import KeptVersion

ONLY_SHOWS = "this server only shows runs; start it with `--answer`"
Kind: TypeAlias = Literal["string", "integer"]


@dataclass(frozen=True)
class Parameter:
    name: str
    kind: Kind
    does: str
    default: int | str | None = None
    most: int | None = None


@dataclass(frozen=True)
class Call:
    site: Site
    request: Request
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Any
    """The record that the endpoint takes; None if it takes none."""

    @property
    def host(self) -> Host:
        """The host that drives runs; raises BadRequest if the server only shows runs."""
        if self.site.host is None:
            raise BadRequest(ONLY_SHOWS, 403)
        return self.site.host


Handle: TypeAlias = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True)
class Endpoint:
    method: Literal["GET", "POST"]
    path: str
    """As in OpenAPI: `/api/runs/{run}`."""
    handle: Handle
    """Its name and docstring are those of the endpoint."""
    query: Sequence[Parameter] = ()
    takes: type[Record] | None = None
    gives: type[Record] | None = None
    media: Mapping[str, Any] = field(default_factory=dict)
    """The schemas of its other answers, by content type."""


API: list[Endpoint] = []
"""In the order in which paths are looked for."""


def endpoint(
    method: Literal["GET", "POST"], path: str, *query: Parameter, **more: Any
) -> Callable[[Handle], Handle]:
    def add(handle: Handle) -> Handle:
        API.append(Endpoint(method, path, handle, query, **more))
        return handle

    return add


def routes(site: Site, table: Sequence[Endpoint]) -> Sequence[BaseRoute]:
    return [_route(site, endpoint) for endpoint in table]


def _route(site: Site, endpoint: Endpoint) -> BaseRoute:
    async def answer(request: Request) -> Response:
        path = {name: _plain(value) for name, value in request.path_params.items()}
        query = {each.name: _value(each, request) for each in endpoint.query}
        if endpoint.method == "POST" and site.host is None:
            raise BadRequest(ONLY_SHOWS, 403)
        taken = None if endpoint.takes is None else await record_of(request, endpoint.takes)
        return await endpoint.handle(Call(site, request, path, query, taken))

    # Ids of children have slashes in them.
    path = endpoint.path.replace("{run}", "{run:path}")
    return Route(path, answer, methods=[endpoint.method])


def _plain(text: str) -> str:
    if "\0" in text:
        raise BadRequest("there is nothing of that name", 404)
    return text


def _value(parameter: Parameter, request: Request) -> Any:
    written = request.query_params.get(parameter.name)
    if written is None:
        return parameter.default
    if parameter.kind == "string":
        return _plain(written)
    if not (written.isascii() and written.isdigit() and len(written) < 19):
        raise BadRequest(f"`{parameter.name}` has to be a whole number, 0 or more")
    return int(written) if parameter.most is None else min(int(written), parameter.most)


PING_S = 15
"""How often a quiet stream sends a comment, which shows that it is alive."""
CONTENT_POLICY = "default-src 'none'; sandbox; frame-ancestors 'none'"
"""The policy for texts of models: browsers never run them, whatever they look like."""
WHICH = (
    Parameter("machine", "string", "Only runs of this machine."),
    Parameter("status", "string", "Only runs of this status, such as `waiting` or `failed`."),
    Parameter("outcome", "string", "Only runs that have ended in this state."),
    Parameter("text", "string", "Only runs with this in their id, input, question or result."),
    Parameter("since", "string", "Only runs that began then or later: a date, or with a time."),
    Parameter("until", "string", "Only runs that began then or earlier."),
    Parameter("before", "string", "Only runs that were started before this one."),
)
LIMIT_OF_RUNS = Parameter("limit", "integer", "The most that are listed.", 50, 200)
AFTER = Parameter("from", "string", "The id of an event of this stream, behind which to begin.")
TEXT = {"text/plain": {"type": "string"}}


class RunList(Record, frozen=True, kw_only=True):
    """Runs that no other run has begun, newest first."""

    runs: tuple[RunSummary, ...]
    next: str | None
    """The run before which to go on, if there may be more."""


class QuestionList(Record, frozen=True, kw_only=True):
    """What waits for a person."""

    questions: tuple[AskedQuestion, ...]


class EventList(Record, frozen=True, kw_only=True):
    """Events of a run, oldest first."""

    events: tuple[dict[str, Any], ...]
    """As the event schema says."""
    next: int | None
    """The number after which to go on, if there are more."""


class VersionList(Record, frozen=True, kw_only=True):
    """Every version of each artifact of a run, oldest first."""

    versions: tuple[ShownVersion, ...]


class OfferedMachine(Record, frozen=True, kw_only=True):
    """A machine that can be started here."""

    name: str
    description: str
    definition: str
    """Digest of its resolved definition."""
    input: dict[str, Any]
    """The JSON Schema of its input."""


class MachineList(Record, frozen=True, kw_only=True):
    """The machines that were named when the server was started."""

    machines: tuple[OfferedMachine, ...]
    may_start: bool
    """Whether runs can be started and answered here."""


@endpoint("GET", "/api/runs", *WHICH, LIMIT_OF_RUNS, gives=RunList)
async def list_runs(call: Call) -> Response:
    """List runs, newest first."""
    limit = max(call.query["limit"], 1)
    looks, before = await call.site.runs.looks(wanted_in(call), call.query["before"], limit)
    return json_answer(RunList(runs=tuple(look.summary for look in looks), next=before))


def wanted_in(call: Call) -> Wanted:
    """Which runs a query asks for; raises BadRequest."""
    named: dict[str, Any] = {name: call.query[name] or None for name in Wanted._fields}
    if (status := named["status"]) and status not in STATUSES:
        raise BadRequest(f"there is no status `{status}`; {did_you_mean(status, STATUSES)}")
    return Wanted(**{**named, "since": _time(call, "since"), "until": _time(call, "until")})


def _time(call: Call, name: str) -> float | None:
    """A moment in a query, of a date its beginning or, for the end of a span, its end."""
    if not (written := call.query[name]):
        return None
    try:
        at = datetime.fromisoformat(written)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        is_day = name == "until" and len(written) == len("2026-11-30")
        return at.timestamp() + (DAY_S if is_day else 0)
    except (ValueError, OverflowError) as error:
        raise BadRequest(f"`{name}` has to be a date such as `2026-11-30`") from error


@endpoint("GET", "/api/questions", gives=QuestionList)
async def list_questions(call: Call) -> Response:
    """List everything that waits for a person."""
    return json_answer(QuestionList(questions=tuple(await call.site.runs.waiting())))


@endpoint("GET", "/api/machines", gives=MachineList)
async def list_machines(call: Call) -> Response:
    """List the machines that can be started."""
    machines = tuple(as_offered_machine(loaded) for loaded in call.site.machines)
    return json_answer(MachineList(machines=machines, may_start=call.site.host is not None))


def as_offered_machine(loaded: Loaded) -> OfferedMachine:
    return OfferedMachine(
        name=loaded.machine.label,
        description=loaded.machine.description,
        definition=loaded.digest,
        input=dict(parse_record(loaded.machine.input).schema),
    )


@endpoint(
    "GET",
    "/api/runs/{run}/events",
    Parameter("after", "integer", "Only events after this number.", 0),
    Parameter("limit", "integer", "The most that are listed.", 500, 1000),
    AFTER,
    gives=EventList,
    media={"text/event-stream": EVENTS},
)
async def list_events(call: Call) -> Response:
    """List the events of a run; with `Accept: text/event-stream` follow those of it and of all runs
    that it has begun."""
    run = call.path["run"]
    await call.site.runs.row(run)
    if "text/event-stream" in call.request.headers.get("accept", ""):
        return await _stream(call, run, is_over=await call.site.stored.is_over(run))
    limit = max(call.query["limit"], 1)
    # One more than the limit shows whether there are more.
    records = await call.site.stored.journal.read(run, call.query["after"], limit + 1)
    shown = records[:limit]
    events = tuple(json.loads(event_line(run, read_stored(run, one))) for one in shown)
    after = shown[-1].seq if len(shown) < len(records) else None
    return json_answer(EventList(events=events, next=after))


@endpoint("GET", "/api/events", AFTER, media={"text/event-stream": EVENTS})
async def follow_all(call: Call) -> Response:
    """Follow the events of all runs from now on."""
    return await _stream(call, None)


async def _stream(call: Call, run: str | None, *, is_over: bool = False) -> Response:
    cursor = call.request.headers.get("last-event-id", "") or call.query["from"] or ""
    journal = call.site.stored.journal
    if cursor.endswith(f".{OVER}"):
        # This status stops browsers from reconnecting.
        return Response(status_code=204)
    newest = await journal.newest()
    after = journal.place_in(cursor) if cursor else newest
    if after is None:
        raise BadRequest("there is no such place in the stream: give the id of an event")
    if after > newest or (run is not None and not cursor):
        # A place behind the newest belongs to another journal.
        after = Place()
    events = stream(call.site.follower, after, run, is_over=is_over)
    return Stream(events, ping=PING_S, send_timeout=call.site.longest_send_s)


@endpoint("GET", "/api/runs/{run}/artifacts", gives=VersionList)
async def list_artifacts(call: Call) -> Response:
    """List the versions of the artifacts of a run."""
    kept = (await page_of(call)).steps.versions.values()
    every = (as_shown_version(one) for versions in kept for one in versions)
    return json_answer(VersionList(versions=tuple(every)))


@endpoint(
    "GET",
    "/api/runs/{run}/artifacts/{artifact}/{version}",
    media={"text/plain": {"type": "string"}, "application/json": {}},
)
async def show_artifact(call: Call) -> Response:
    """Read a version of an artifact as it was written."""
    versions = (await page_of(call)).steps.versions.get(call.path["artifact"], [])
    artifact = version_in(call, versions).artifact
    media = "application/json" if artifact.is_data and not artifact.fault else "text/plain"
    headers = {"content-security-policy": CONTENT_POLICY}
    return Response(artifact.text, media_type=media, headers=headers)


def version_in(call: Call, versions: Sequence[KeptVersion]) -> KeptVersion:
    """The version of an artifact that a path names; raises BadRequest."""
    name, number = call.path["artifact"], call.path["version"]
    found = next((one for one in versions if str(one.number) == number), None)
    if found is None:
        raise BadRequest(f"there is no version {number} of an artifact `{name}` in this run", 404)
    return found


async def page_of(call: Call) -> RunPage:
    """The run of a path; raises UnknownRun and RunUnreadable."""
    return await call.site.runs.view(call.path["run"])


@endpoint("GET", "/metrics", media=TEXT)
async def show_metrics(call: Call) -> Response:
    """Show figures to Prometheus."""
    return Response(await call.site.metrics.text(), media_type=MEDIA_OF_METRICS)


@endpoint("GET", "/healthz", media=TEXT)
async def show_health(call: Call) -> Response:
    """Tell whether the journal answers."""
    fault = await call.site.metrics.fault()
    return Response(fault or "ok", 503 if fault else 200, media_type="text/plain")


@endpoint("GET", "/api/runs/{run}", gives=RunData)
async def show_run(call: Call) -> Response:
    """Read everything about a run."""
    return json_answer(await call.site.runs.data(call.path["run"]))


class Begin(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run to start."""

    machine: str
    """The name of one of the machines of this server."""
    input: dict[str, Any] = {}


class Given(HumanAnswer, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer to the open question of a run."""

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


@endpoint("POST", "/api/runs", takes=Begin, gives=Driven)
async def start_run(call: Call) -> Response:
    """Start a run."""
    body: Begin = call.body
    if body.machine not in call.host.machines:
        raise BadRequest(f"there is no machine `{body.machine}` here; see /api/machines", 404)
    run = await call.host.start(body.machine, body.input)
    return json_answer(Driven(run=run, driver=THIS_SERVER), 201)


@endpoint("POST", "/api/runs/{run}/answer", takes=Given, gives=Driven)
async def answer_run(call: Call) -> Response:
    """Answer the open question of a run, and go on with it."""
    given = {name: getattr(call.body, name) for name in HumanAnswer.__struct_fields__}
    return await _post(call, HumanAnswer(**given))


@endpoint("POST", "/api/runs/{run}/reply", takes=Delivered, gives=Driven)
async def reply_to_run(call: Call) -> Response:
    """Deliver the artifact that a run waits for from outside, and go on with it."""
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


@endpoint("POST", "/api/runs/{run}/resume", takes=Nothing, gives=Driven)
async def resume_run(call: Call) -> Response:
    """Go on with a run that was suspended or interrupted."""
    run = call.path["run"]
    await call.host.resume(run)
    return json_answer(Driven(run=run, driver=THIS_SERVER))


@endpoint("POST", "/api/runs/{run}/cancel", takes=Reason, gives=Ended)
async def cancel_run(call: Call) -> Response:
    """End a run permanently."""
    run = call.path["run"]
    return json_answer(Ended(run=run, message=await call.host.app.cancel(run, call.body.reason)))
