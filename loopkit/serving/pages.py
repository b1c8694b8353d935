"""The pages of a site: its lists, runs with calls and versions, and the forms that change runs.

A form that was accepted is answered with a redirect, so that a reload does not send it again; one
that is refused is shown again as it was typed.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode

from loopkit.agents.port import NotRunnable
from loopkit.drive.answers import AnswerRefused, without_secrets
from loopkit.drive.inbox import AnyAnswer, given_before, who_gave
from loopkit.engine.payloads import Delivery
from loopkit.engine.records import Usage
from loopkit.journal.errors import JournalError, RunExists, RunUnreadable
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.inclusion import digest_of
from loopkit.language.input_faults import MISSING, InvalidInput
from loopkit.language.load import Loaded
from loopkit.language.machine import Machine
from loopkit.serving.http.answers import BadRequest, status_of, text_of
from loopkit.serving.http.endpoints import (
    WHICH,
    Call,
    Endpoint,
    Parameter,
    as_offered_machine,
    page_of,
    routes,
    version_in,
    wanted_in,
)
from loopkit.serving.http.library import (
    BaseRoute,
    HTMLResponse,
    RedirectResponse,
    Request,
    Response,
)
from loopkit.serving.http.server import Site, run_in_page_thread
from loopkit.text.json_text import canonical
from loopkit.text.run_ids import batch_of
from loopkit.views.page.fields import (
    LIMIT,
    Faults,
    FormField,
    Typed,
    fields_with_text,
    form_fields,
    read_fields,
    read_given,
    typed_of,
)
from loopkit.views.page.rendering import asset, render
from loopkit.views.page.run_page import compared, html_report, path_of
from loopkit.views.plot import Plot, plot
from loopkit.views.run_data import word_of
from loopkit.views.run_view import STATUSES
from loopkit.views.stats import OF_PHASES, MachineStats, RunStats, stats_of_machine

LISTED = 50
MOST = 20_000
"""Characters of a text in the page of a run."""
MOST_ALONE = 200_000
"""Characters of a text on a page of its own."""
MOST_STEPS = 500
MOST_EDITED = 100_000
"""Characters of an artifact that is editable at once; a longer one is behind a link."""
ID_CHARS = 10
"""Those of the id of a run that a form starts: so many that no two forms start one run."""
MOST_BYTES = 20_000_000
"""The size of a form: browsers encode many characters of an artifact as three or nine bytes."""
MOST_FIELDS = 10_000
FORM_TYPE = "application/x-www-form-urlencoded"
MEDIA = {"page.css": "text/css", "site.css": "text/css", "site.js": "text/javascript"}
OURS = ("this server", "nobody")
"""The drivers about whom the page of the run needs no message."""
PREFIX = "input."
BY = "loopkit_by"
REMEMBERED_S = 365 * 24 * 3600
PLACES = ("choice", "comment", "by", "edit")
"""The fields of the page for the parts of an answer; other parts have many or none."""


async def show_runs(call: Call) -> Response:
    newest = await call.site.stored.journal.newest()
    before = call.query["before"] or None
    looks, older = await call.site.runs.looks(wanted_in(call), before, LISTED)
    runs = [look.summary for look in looks]
    query = {name: value for name, value in call.query.items() if value}
    machines = [as_offered_machine(loaded) for loaded in call.site.machines]
    return await page(
        call,
        "runs.html",
        runs=runs,
        next=f"/?{urlencode({**query, 'before': older})}" if older else "",
        query=call.query,
        statuses=STATUSES,
        batches=[*filter(None, dict.fromkeys(batch_of(one.run) for one in runs))],
        known_machines=sorted({*(one.machine for one in runs), *(one.name for one in machines)}),
        known_outcomes=sorted({one.outcome for one in runs if one.outcome}),
        machines=machines if call.site.host is not None else [],
        newest=newest,
    )


async def show_batch(call: Call) -> Response:
    newest = await call.site.stored.journal.newest()
    runs, is_cut = await call.site.runs.batch(call.path["batch"])
    return await page(
        call,
        "batch.html",
        batch=call.path["batch"],
        runs=runs,
        is_cut=is_cut,
        counts=Counter(word_of(one.status, one.success) for one in runs),
        usage=reduce(Usage.plus, (one.usage for one in runs)),
        newest=newest,
    )


async def show_stats(call: Call) -> Response:
    machine = call.query["machine"] or None
    by_machine: dict[str, list[RunStats]] = {}
    for run in await call.site.runs.stats(machine):
        by_machine.setdefault(run.machine, []).append(run)

    def figures() -> list[tuple[MachineStats, Plot]]:
        named = sorted(by_machine.items())
        return [(stats_of_machine(name, runs), plot(runs)) for name, runs in named]

    return await page(
        call,
        "stats.html",
        machine=machine,
        machines=await run_in_page_thread(figures),
        counted=sum(map(len, by_machine.values())),
        of_phases=OF_PHASES,
    )


async def compare(call: Call) -> Response:
    named = call.request.query_params.getlist("run")
    if len(named) != 2 or "\0" in "".join(named):
        raise BadRequest("choose two runs in the list of runs")
    first, second = [await call.site.runs.view(run) for run in named]
    parts = await run_in_page_thread(lambda: compared(first, second))
    return await page(call, "compare.html", pages=(first, second), parts=parts, most=MOST)


async def show_waiting(call: Call) -> Response:
    newest = await call.site.stored.journal.newest()
    asked = sorted(await call.site.runs.waiting(), key=lambda one: one.since)
    people = [one for one in asked if one.question.wanted is None]
    outside = [one for one in asked if one.question.wanted is not None]
    return await page(call, "waiting.html", people=people, outside=outside, newest=newest)


async def show_call(call: Call) -> Response:
    shown, seq = await page_of(call), call.path["seq"]
    calls = (one for _, one in shown.steps.every_call())
    found = next((one for one in calls if str(one.seq) == seq), None)
    if found is None:
        raise BadRequest(f"there is no call {seq} in this run", 404)
    return await page(call, "call.html", page=shown, called=found, most=MOST_ALONE)


async def show_version(call: Call) -> Response:
    shown = await page_of(call)
    versions = shown.steps.versions.get(call.path["artifact"], [])
    kept = version_in(call, versions)
    return await page(
        call, "version.html", page=shown, versions=versions, kept=kept, most=MOST_ALONE
    )


async def show_report(call: Call) -> Response:
    shown = replace(await page_of(call), now=time.time())
    return HTMLResponse(await run_in_page_thread(lambda: html_report(shown)))


async def show_run(call: Call, status: int = 200, **told: Any) -> Response:
    newest = await call.site.stored.journal.newest()
    shown = await page_of(call)
    since = call.query.get("since")
    until = call.query.get("until")
    if since == shown.steps.seq and call.query.get("known") == shown.status:
        return Response(status_code=204)
    steps = [step for step in shown.steps.all if until is None or step.seq < until]
    earlier = max(len(steps) - MOST_STEPS, 0)
    steps = steps[earlier:]
    first = steps[0].seq if steps else 0
    if since is not None:
        steps = [step for step in steps if step.last > since] or steps[-1:]
    known: dict[str, Any] = {
        "page": shown,
        "steps": steps,
        "earlier": earlier,
        "first": first,
        "until": until,
        "since": since,
        "most": MOST,
        "newest": newest,
        "batch": batch_of(shown.run),
        "may_start": not shown.parent and call.site.may_start(shown.machine),
        "may_answer": call.site.host is not None,
        # The name that was last entered in this browser.
        "by": unquote(call.request.cookies.get(BY, "")),
        "is_edited": "edit" in call.request.query_params,
        "most_edited": MOST_EDITED,
        # What a form that was sent adds.
        "typed": None,
        "faults": {},
        "told": "",
        "late": "",
        "lost": (),
    }
    return await page(call, "run.html", status, **{**known, **told})


async def show_asset(call: Call) -> Response:
    name = call.path["name"]
    if name not in MEDIA:
        raise BadRequest("there is nothing of that name", 404)
    return Response(asset(name), media_type=MEDIA[name])


async def show_start(
    call: Call,
    typed: Typed | None = None,
    faults: Faults | None = None,
    message: str = "",
    status: int = 200,
) -> Response:
    loaded = _machine(call)
    fields = _fields(loaded)
    if typed is None and (run := call.query.get("from")):
        state = await call.site.stored.state_of(run)
        typed = typed_of(fields, state.input, PREFIX, once=secrets.token_urlsafe(16))
    return await page(
        call,
        "start.html",
        status,
        machine=call.path["machine"],
        description=loaded.machine.description,
        fields=fields,
        typed=typed,
        faults=faults or {},
        told=message,
        once=secrets.token_urlsafe(16) if typed is None else typed.one("once"),
    )


async def start_run(call: Call) -> Response:
    fields, typed = _fields(_machine(call)), await read_form(call.request)
    inputs, faults = read_fields(fields, typed, PREFIX)
    if faults:
        return await show_start(call, typed, faults, status=422)
    try:
        run = await _run_of(call, typed.one("once"), inputs)
    except InvalidInput as error:
        missing = [one for one in error.faults if one.code == MISSING]
        faults = {f"{PREFIX}{one.path}": one.message for one in missing}
        message = "; ".join(one.message for one in error.faults if one not in missing)
        return await show_start(call, typed, faults, message, 422)
    except (NotRunnable, JournalError) as error:
        status = status_of(error) or 500
        return await show_start(call, typed, message=str(error), status=status)
    return to_page(call, run)


async def give(call: Call) -> Response:
    """Answer the question that a form was for, or deliver what was wanted."""
    run, typed = call.path["run"], await read_form(call.request)
    shown, question = await page_of(call), typed.one("question")
    asked = await run_in_page_thread(lambda: shown.asked)
    if asked is None or asked.question.question != question:
        before = given_before(shown.history)[0].get(question)
        if before is None:
            return await _tell_late(call, typed, "This is no longer open.")
        if _is_same(before, typed, shown.engine.program.machine):
            return to_page(call, run)
        return await _tell_late(call, typed, f"{who_gave(before)}.")
    given, faults = await run_in_page_thread(lambda: read_given(asked, typed))
    if faults:
        return await show_run(call, 422, typed=typed, faults=faults)
    try:
        await call.host.post(run, given, question)
    except (AnswerRefused, NotRunnable, JournalError) as error:
        return await _refuse(call, typed, error)
    return to_page(call, run, given.by)


async def to_run(call: Call) -> Response:
    return to_page(call, call.path["run"])


async def resume_run(call: Call) -> Response:
    run = call.path["run"]
    try:
        driver = await call.host.go_on(run)
    except NotRunnable as error:
        return await show_run(call, 409, told=str(error))
    if driver in OURS:
        return to_page(call, run)
    return await show_run(call, 409, told=f"The run goes on already: {driver}.")


async def ask_whether(call: Call) -> Response:
    assert call.host
    shown = await page_of(call)
    if shown.state.is_over or shown.parent:
        return await to_run(call)
    return await page(call, "cancel.html", page=shown)


async def cancel_run(call: Call) -> Response:
    typed = await read_form(call.request)
    try:
        message = await call.host.app.cancel(call.path["run"], typed.one("reason").strip())
    except NotRunnable as error:
        return await show_run(call, 409, told=str(error))
    if (await page_of(call)).state.is_over:
        return await to_run(call)
    return await show_run(call, 202, told=message)


PAGES: Sequence[Endpoint] = (
    Endpoint("GET", "/", show_runs, WHICH),
    Endpoint("GET", "/compare", compare),
    Endpoint("GET", "/batches/{batch}", show_batch),
    Endpoint("GET", "/stats", show_stats, WHICH[:1]),
    Endpoint("GET", "/waiting", show_waiting),
    Endpoint("GET", "/assets/{name}", show_asset),
    Endpoint(
        "GET", "/start/{machine}", show_start,
        [Parameter("from", "string", "The run whose input is filled in.")],
    ),
    Endpoint("POST", "/start/{machine}", start_run),
    Endpoint("POST", "/runs/{run}/answer", give),
    Endpoint("GET", "/runs/{run}/answer", to_run),
    Endpoint("POST", "/runs/{run}/deliver", give),
    Endpoint("GET", "/runs/{run}/deliver", to_run),
    Endpoint("POST", "/runs/{run}/resume", resume_run),
    Endpoint("GET", "/runs/{run}/resume", to_run),
    Endpoint("POST", "/runs/{run}/cancel", cancel_run),
    Endpoint("GET", "/runs/{run}/cancel", ask_whether),
    Endpoint("GET", "/runs/{run}/calls/{seq}", show_call),
    Endpoint("GET", "/runs/{run}/versions/{artifact}/{version}", show_version),
    Endpoint("GET", "/runs/{run}/report", show_report),
    # The one that takes any id comes last: ids of children have slashes in them.
    Endpoint(
        "GET", "/runs/{run}", show_run,
        [
            Parameter("since", "integer", "Only steps that changed after this record."),
            Parameter("known", "string", "The status that is shown: the same gives no page."),
            Parameter("until", "integer", "Only steps before this record."),
        ],
    ),
)  # fmt: skip


def page_routes(site: Site) -> Sequence[BaseRoute]:
    return routes(site, PAGES)


def _is_same(before: AnyAnswer, typed: Typed, machine: Machine) -> bool:
    by = typed.one("by").strip()
    if isinstance(before, Delivery):
        again = Delivery(text=typed.one("artifact") or None, by=by)
        return without_secrets(again, machine) == before
    counted = before.choice, before.comment, before.by
    return counted == (typed.one("choice"), typed.one("comment"), by)


async def _refuse(call: Call, typed: Typed, error: Exception) -> Response:
    if isinstance(error, RunUnreadable):
        raise error
    at = error.at if isinstance(error, AnswerRefused) else ""
    if at == "question":
        return await _tell_late(call, typed, str(error))
    raised = (name for name in typed.pairs if name.startswith(LIMIT) and typed.one(name).strip())
    name = at if at in PLACES else next(raised, "") if at == "limits" else ""
    told = {"faults": {name: str(error)}} if name else {"told": str(error)}
    return await show_run(call, status_of(error) or 500, typed=typed, **told)


async def _tell_late(call: Call, typed: Typed, message: str) -> Response:
    """The page of the run, with the texts that were typed for a question that has closed."""
    lost = list(fields_with_text(typed))
    return await show_run(call, 409, late=message, lost=lost, by=typed.one("by"))


async def _run_of(call: Call, once: str, inputs: dict[str, Any]) -> str:
    """The run that a form starts: the same run, however often the same form is sent."""
    machine = call.path["machine"]
    digest = digest_of(canonical([once, machine, inputs]))[:ID_CHARS]
    run = f"{machine}-{digest}" if once else ""
    try:
        return await call.host.start(machine, inputs, run)
    except RunExists:
        return run


def _machine(call: Call) -> Loaded:
    name = call.path["machine"]
    loaded = call.host.machines.get(name)
    if loaded is None:
        raise BadRequest(f"there is no machine `{name}` here", 404)
    return loaded


def _fields(loaded: Loaded) -> Sequence[FormField]:
    return form_fields(parse_record(loaded.machine.input))


async def read_form(request: Request) -> Typed:
    fault = f"a form has to be sent as {FORM_TYPE}"
    body = await text_of(request, MOST_BYTES, (FORM_TYPE, fault))

    def pairs() -> dict[str, list[str]]:
        return parse_qs(body, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)

    try:
        # Long texts take a second; other requests must not wait for that.
        return Typed(await asyncio.to_thread(pairs))
    except ValueError as error:
        raise BadRequest(f"the form can't be read: {error}") from error


def to_page(call: Call, run: str, by: str = "") -> Response:
    """A redirect to the page of a run, so a reload does not send the form again; keeps `by`."""
    answer = RedirectResponse(path_of(run), 303)
    if by:
        secure = call.site.access.is_encrypted(call.request.headers.get("host", ""))
        named: dict[str, Any] = {"httponly": True, "samesite": "strict", "secure": secure}
        answer.set_cookie(BY, quote(by, safe=""), max_age=REMEMBERED_S, **named)
    return answer


async def page(call: Call, template: str, status: int = 200, **names: Any) -> Response:
    """A page of the site; every template also gets its `place`, for the navigation links."""
    known = {"place": call.request.url.path, **names}
    text = await run_in_page_thread(lambda: render(template, known))
    return HTMLResponse(text, status)
