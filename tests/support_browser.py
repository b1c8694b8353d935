"""A browser for the tests: one for all that need it, in a thread and an event loop of its own.

Playwright drives the Chromium that the system has, such as Debian's; it downloads none. Chromium's
headless shell, which has no windows, takes half the time of a whole one.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Coroutine
from threading import Thread
from typing import Any, TypeVar

import pytest

from tests.http_site import TOKEN

T = TypeVar("T")
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
REQUIRED = os.environ.get("LOOPKIT_REQUIRE_BROWSER") == "1"
"""Whether a test that needs a browser fails where there is none; without this it is skipped."""
ANSWER_SECONDS = 300
STEP_MS = 120_000
"""How long a busy machine may take for its start, and for each step on a page."""


class Browser:
    """What a test lets run in the browser; whatever that opens is closed with it."""

    def __init__(self, program: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="browser", daemon=True)
        self._thread.start()
        self._playwright, self._chromium = self._done(_started(program))

    def run(self, work: Callable[[Any], Coroutine[Any, Any, T]], **options: Any) -> T:
        """What comes of some work with an empty page, which knows nothing of other tests' pages.

        The options are those of a context, such as `java_script_enabled`.
        """
        return self._done(self._on_a_page(work, options))

    def close(self) -> None:
        self._done(self._chromium.close())
        self._done(self._playwright.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _done(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER_SECONDS)

    async def _on_a_page(
        self, work: Callable[[Any], Coroutine[Any, Any, T]], options: dict[str, Any]
    ) -> T:
        context = await self._chromium.new_context(**options)
        context.set_default_timeout(STEP_MS)
        try:
            return await work(await context.new_page())
        finally:
            await context.close()


async def visit(
    browser: Browser,
    url: str,
    work: Callable[[Any], Coroutine[Any, Any, T]],
    **options: Any,
) -> tuple[T, list[str]]:
    """What comes of some work with a page that has signed in, and everything that went wrong."""
    wrong: list[str] = []

    async def on_page(page: Any) -> T:
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
        page.on(
            "request",
            lambda asked: asked.url.startswith((url, "data:")) or wrong.append(f"asks {asked.url}"),
        )
        signing_in = {"form": {"token": TOKEN}, "headers": {"Origin": url}, "max_redirects": 0}
        assert (await page.request.post(f"{url}/login", **signing_in)).status == 303
        await page.goto(f"{url}/")
        return await work(page)

    return await asyncio.to_thread(browser.run, on_page, **options), wrong


async def _started(program: str) -> tuple[Any, Any]:
    """Playwright and its Chromium, which has no sandbox where root starts it."""
    # Here, so that only the worker with these tests imports it.
    from playwright.async_api import async_playwright  # noqa: PLC0415

    playwright = await async_playwright().start()
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    return playwright, await playwright.chromium.launch(
        executable_path=program, args=flags, timeout=STEP_MS
    )


def browser_program() -> str:
    """The browser of the system; skips the test, or lets it fail, where there is none."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is not None:
        return found
    if REQUIRED:
        pytest.fail("Chromium is not installed, and LOOPKIT_REQUIRE_BROWSER is set")
    pytest.skip("Chromium is not installed; set LOOPKIT_REQUIRE_BROWSER=1 to fail instead")
