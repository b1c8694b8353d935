"""The pages that list runs, and everything that waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from loopkit.engine.events import Waiting
from loopkit.serving.http.library import Response
from loopkit.serving.http.reading import offered
from loopkit.serving.http.table import Call, Endpoint, Parameter
from loopkit.serving.pages.shown import page
from loopkit.views.run_data import RunData

LISTED = 50
STATUSES = (
    "new", "running", "waiting", "suspended", "interrupted", "finished", "cancelled", "damaged",
    "unreadable",
)  # fmt: skip


class Asked(NamedTuple):
    """A question in a list."""

    run: str
    """The run that asks."""
    place: str
    question: Waiting
    since: float
    """Unix time of the last event of the run that waits."""


async def show_runs(call: Call) -> Response:
    machine, status = call.query["machine"] or None, call.query["status"] or None
    before = call.query["before"] or None
    place = await call.site.follower.newest()
    runs, older = await call.site.runs.summaries(machine, status, before, LISTED)
    wanted = {"machine": machine, "status": status, "before": older}
    query = urlencode({name: value for name, value in wanted.items() if value})
    machines = [offered(loaded) for loaded in call.site.machines]
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
    asked = [one for run in await call.site.runs.waiting() for one in _asked(run)]
    asked.sort(key=lambda one: one.since)
    names = {
        "people": [one for one in asked if one.question.wanted is None],
        "outside": [one for one in asked if one.question.wanted is not None],
        "from": place,
    }
    return await page(call, "waiting.html", names)


def _asked(run: RunData) -> Sequence[Asked]:
    since = {child.summary.run: child.summary.updated_at for child in run.children}
    return [
        Asked(one.run, one.place, one.question, since.get(one.run, run.summary.updated_at))
        for one in run.questions
    ]


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
