"""The pages of one run: the run itself, a call of it, a version of an artifact, and its report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from loopkit.serving.http.answers import BadRequest
from loopkit.serving.http.library import HTMLResponse, Response
from loopkit.serving.http.table import Call, Endpoint, Parameter
from loopkit.serving.pages.forms import name_from_cookie
from loopkit.serving.pages.shown import page
from loopkit.serving.run_pages import run_in_page_thread
from loopkit.text.run_ids import ancestors_of
from loopkit.views.page.report import html_report
from loopkit.views.page.run_page import RunPage

MOST = 20_000
"""Characters of a text in the page of a run."""
MOST_ALONE = 200_000
"""Characters of a text on a page of its own."""
MOST_STEPS = 500
MOST_EDITED = 100_000
"""Characters of an artifact that is editable at once; a longer one is behind a link."""


async def show_run(call: Call) -> Response:
    return await run_page(call, call.path["run"])


async def run_page(
    call: Call, run: str, status: int = 200, names: dict[str, Any] | None = None
) -> Response:
    """The page of a run; `names` are further names for its template."""
    place = await call.site.follower.newest()
    shown = await page_of(call, run)
    since, until = call.query.get("since"), call.query.get("until")
    if since == shown.seq and call.query.get("known") == shown.status:
        return Response(status_code=204)
    steps = [step for step in shown.steps.all if until is None or step.seq < until]
    earlier = max(len(steps) - MOST_STEPS, 0)
    steps = steps[earlier:]
    first = steps[0].seq if steps else 0
    if since is not None:
        steps = [step for step in steps if step.last > since] or steps[-1:]
    known = {
        "page": shown,
        "steps": steps,
        "earlier": earlier,
        "first": first,
        "until": until,
        "since": since,
        "most": MOST,
        "from": place,
        "parent": next(ancestors_of(run), ""),
        **answering(call),
    }
    return await page(call, "run.html", {**known, **(names or {})}, status)


def answering(call: Call) -> dict[str, Any]:
    """The names that the forms of a page need before anything is typed."""
    return {
        "may_answer": call.site.host is not None,
        "by": name_from_cookie(call.request),
        "is_edited": "edit" in call.request.query_params,
        "most_edited": MOST_EDITED,
        "typed": None,
        "faults": {},
        "told": "",
        "late": "",
        "lost": (),
    }


async def page_of(call: Call, run: str) -> RunPage:
    """The page of a run as data; raises JournalError."""
    return await call.site.pages.page(run)


async def show_call(call: Call) -> Response:
    shown = await page_of(call, call.path["run"])
    seq = call.path["seq"]
    calls = (one for step in shown.steps.all for one in step.calls)
    found = next((one for one in calls if str(one.seq) == seq), None)
    if found is None:
        raise BadRequest(f"there is no call {seq} in this run", 404)
    return await page(call, "call.html", {"page": shown, "call": found, "most": MOST_ALONE})


async def show_version(call: Call) -> Response:
    shown = await page_of(call, call.path["run"])
    name, number = call.path["artifact"], call.path["version"]
    versions = shown.artifact(name)
    found = versions and next((one for one in versions.all if str(one.number) == number), None)
    if not found:
        raise BadRequest(f"there is no version {number} of an artifact `{name}` in this run", 404)
    names = {"page": shown, "versions": versions, "kept": found, "most": MOST_ALONE}
    return await page(call, "version.html", names)


async def show_report(call: Call) -> Response:
    shown = await page_of(call, call.path["run"])
    facts = replace(shown.facts, now=time.time())
    return HTMLResponse(await run_in_page_thread(lambda: html_report(facts)))


RUN: Sequence[Endpoint] = (
    Endpoint("GET", "/runs/{run}/calls/{seq}", "Show a call.", show_call),
    Endpoint("GET", "/runs/{run}/versions/{artifact}/{version}", "Show a version.", show_version),
    Endpoint("GET", "/runs/{run}/report", "Write a report.", show_report),
    Endpoint(
        "GET", "/runs/{run}", "Show a run.", show_run,
        [
            Parameter("since", "integer", "Only steps that changed after this record."),
            Parameter("known", "string", "The status that is shown: the same gives no page."),
            Parameter("until", "integer", "Only steps before this record."),
        ],
    ),
)  # fmt: skip
"""The one that takes any id comes last: ids of children have slashes in them."""
