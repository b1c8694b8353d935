"""Work with stored runs: the journal is opened for it, and closed behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from loopkit.app import App, state_folder
from loopkit.cli.exit_codes import report_errors

Result = TypeVar("Result")


def with_app(work: Callable[[App], Awaitable[Result]]) -> Result:
    """What the work comes to; raises Stop for what a user can cause."""

    async def use_app() -> Result:
        async with App.open(state_folder()) as app:
            return await work(app)

    with report_errors():
        return asyncio.run(use_app())
