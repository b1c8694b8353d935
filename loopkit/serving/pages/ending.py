"""Resuming and cancelling a run from its page."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.agents.not_runnable import NotRunnable
from loopkit.serving.http.answers import BadRequest
from loopkit.serving.http.library import Response
from loopkit.serving.http.table import ONLY_SHOWS, Call, Endpoint
from loopkit.serving.pages.forms import read_form, to_page
from loopkit.serving.pages.run import page_of, run_page
from loopkit.serving.pages.shown import page

OURS = ("this server", "nobody")
"""The drivers about whom the page of the run needs no message."""


async def resume_run(call: Call) -> Response:
    run = call.path["run"]
    try:
        driver = await call.host.go_on(run)
    except NotRunnable as error:
        return await run_page(call, run, 409, {"told": str(error)})
    if driver in OURS:
        return to_page(call, run)
    return await run_page(call, run, 409, {"told": f"The run goes on already: {driver}."})


async def ask_whether(call: Call) -> Response:
    if call.site.host is None:
        raise BadRequest(ONLY_SHOWS, 403)
    shown = await page_of(call, call.path["run"])
    if shown.state.is_over or shown.parent:
        return to_page(call, call.path["run"])
    return await page(call, "cancel.html", {"page": shown})


async def cancel_run(call: Call) -> Response:
    run, typed = call.path["run"], await read_form(call.request)
    try:
        message = await call.host.cancel(run, typed.one("reason").strip())
    except NotRunnable as error:
        return await run_page(call, run, 409, {"told": str(error)})
    if (await page_of(call, run)).state.is_over:
        return to_page(call, run)
    return await run_page(call, run, 202, {"told": message})


async def to_run(call: Call) -> Response:
    """Answer a GET of the address of a form with a redirect to the page of the run."""
    return to_page(call, call.path["run"])


ENDING: Sequence[Endpoint] = (
    Endpoint("POST", "/runs/{run}/resume", "Go on with a run.", resume_run),
    Endpoint("GET", "/runs/{run}/resume", "Show the run.", to_run),
    Endpoint("POST", "/runs/{run}/cancel", "End a run.", cancel_run),
    Endpoint("GET", "/runs/{run}/cancel", "Ask whether to end a run.", ask_whether),
)
