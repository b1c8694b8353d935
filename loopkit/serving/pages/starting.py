"""The page on which a run of a machine is started, with a field for each of its inputs."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import Any

from loopkit.agents.not_runnable import NotRunnable
from loopkit.journal.errors import JournalError
from loopkit.language.datatypes import parse_record
from loopkit.language.inclusion import digest_of
from loopkit.language.input_faults import InvalidInput
from loopkit.language.load import Loaded
from loopkit.serving.http.answers import BadRequest, status_of
from loopkit.serving.http.library import Response
from loopkit.serving.http.table import Call, Endpoint
from loopkit.serving.pages.forms import read_form, to_page
from loopkit.serving.pages.shown import page
from loopkit.text.json_text import canonical
from loopkit.views.page.answered import Faults
from loopkit.views.page.fields import FormField, Typed, form_fields, read_fields

PREFIX = "input."
MOST_STARTS = 1_000


async def show_start(call: Call) -> Response:
    return await _page(call, _machine(call))


async def start_run(call: Call) -> Response:
    loaded, typed = _machine(call), await read_form(call.request)
    inputs, faults = read_fields(_fields(loaded), typed, PREFIX)
    if faults:
        return await _page(call, loaded, typed, faults, status=422)
    try:
        run = await _run_of(call, typed.one("once"), inputs)
    except InvalidInput as error:
        faults = {f"{PREFIX}{one.missing}": one.message for one in error.faults if one.missing}
        message = "; ".join(one.message for one in error.faults if not one.missing)
        return await _page(call, loaded, typed, faults, message, 422)
    except (NotRunnable, JournalError) as error:
        return await _page(call, loaded, typed, message=str(error), status=status_of(error) or 500)
    return to_page(call, run)


async def _run_of(call: Call, once: str, inputs: dict[str, Any]) -> str:
    """The run that a form starts: the same run, however often the same form is sent."""
    machine, starts = call.path["machine"], call.site.starts
    key = once, digest_of(canonical([machine, inputs]))
    if not once or key not in starts:
        starts[key] = asyncio.create_task(call.host.start(machine, inputs))
        while len(starts) > MOST_STARTS:
            del starts[next(iter(starts))]
    try:
        return await starts[key]
    except Exception:
        starts.pop(key, None)
        raise


def _machine(call: Call) -> Loaded:
    name = call.path["machine"]
    loaded = call.host.machines.get(name)
    if loaded is None:
        raise BadRequest(f"there is no machine `{name}` here", 404)
    return loaded


def _fields(loaded: Loaded) -> Sequence[FormField]:
    return form_fields(parse_record(loaded.machine.input))


async def _page(
    call: Call,
    loaded: Loaded,
    typed: Typed | None = None,
    faults: Faults | None = None,
    message: str = "",
    status: int = 200,
) -> Response:
    names = {
        "machine": call.path["machine"],
        "description": loaded.machine.description,
        "fields": _fields(loaded),
        "typed": typed,
        "faults": faults or {},
        "told": message,
        "once": secrets.token_urlsafe(16) if typed is None else typed.one("once"),
    }
    return await page(call, "start.html", names, status)


STARTING: Sequence[Endpoint] = (
    Endpoint("GET", "/start/{machine}", "Show what a machine needs.", show_start),
    Endpoint("POST", "/start/{machine}", "Start a run.", start_run),
)
