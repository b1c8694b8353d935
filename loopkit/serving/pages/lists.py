"""The pages that list runs, and open questions."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from loopkit.serving.http.library import Response
from loopkit.serving.http.reading import STATUSES, as_offered_machine
from loopkit.serving.http.table import Call, Endpoint, Parameter
from loopkit.serving.pages.shown import page

LISTED = 50


async def show_runs(call: Call) -> Response:
    machine, status = call.query["machine"] or None, call.query["status"] or None
    before = call.query["before"] or None
    place = await call.site.follower.newest()
    runs, older = await call.site.runs.summaries(machine, status, before, LISTED)
    parameters = {"machine": machine, "status": status, "before": older}
    query = urlencode({name: value for name, value in parameters.items() if value})
    machines = [as_offered_machine(loaded) for loaded in call.site.machines]
    names = {
        "runs": runs,
        "next": f"/?{query}" if older else "",
        "machine": machine,
        "status": status,
        "before": before,
        "statuses": STATUSES,
        "known_machines": sorted({*(one.machine for one in runs), *(one.name for one in machines)}),
        "machines": machines if call.site.host is not None else [],
        "from": place,
    }
    return await page(call, "runs.html", names)


async def show_waiting(call: Call) -> Response:
    place = await call.site.follower.newest()
    asked = sorted(await call.site.runs.waiting(), key=lambda one: one.since)
    names = {
        "people": [one for one in asked if one.question.wanted is None],
        "outside": [one for one in asked if one.question.wanted is not None],
        "from": place,
    }
    return await page(call, "waiting.html", names)


LISTS: Sequence[Endpoint] = (
    Endpoint(
        "GET", "/", "List runs.", show_runs,
        [
            Parameter("machine", "string", "Only runs of this machine."),
            Parameter("status", "string", "Only runs of this status."),
            Parameter("before", "string", "Only runs that were started before this one."),
        ],
    ),
    Endpoint("GET", "/waiting", "List everything that waits.", show_waiting),
)  # fmt: skip
