"""The pages of `loopkit serve` in a browser: they follow what happens, and nothing in them acts."""

# ruff: noqa: ASYNC110, ASYNC240 - nothing else runs in these tests' event loops

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import loopkit
from loopkit.serving.access import origins_of
from tests.http_site import ASKING, TOKEN, Served, folder_with, served
from tests.machines import loop
from tests.support import fails
from tests.support_browser import Browser, visit
from tests.warm import Process, ran_loopkit

STATE = Path(".loopkit")
LONG_MS = 100_000
"""How long a page may take on a busy machine to show what happened."""
SLOW = loop(
    "[short]",
    {"valid": "done", "cap_reached": "gave_up"},
    "{revise: write, max: 2}",
    top="""
name: slow
agents:
  writer:
    {command: [sh, -c, "cat; echo said; until test -e go; do sleep 0.02; done"], on_in_doubt: retry}
validators: {short: [{max_chars: 1}]}
limits: {total_revisions: 2}
""",
    draft='write: {agent: writer, prompt: "Write.{{ feedback }}", output: note}',
    ends="gave_up: {final: failure, result: note}",
    result="note",
)
LOOP = """
loopkit: 1
name: loop
input: {note: {type: str, default: ""}}
agents: {writer: {model: openai/gpt-5-mini}, critic: {model: openai/gpt-5-mini}}
validators: {good: {judge: critic, rubric: [Is it good?]}}
states:
  note: {agent: writer, prompt: "Write. {{ feedback }} {{ input.note }}", next: check}
  check: {validate: note, by: [good], transitions: [
    {guard: valid, target: ask}, {guard: cap_reached, target: ask}, {revise: note, max: ROUNDS}]}
  ask:
    human: "Good? {{ note }}"
    choices: [yes, no]
    show: [note, report]
    transitions: [{guard: choice == "yes", target: done}, {target: stopped}]
  done: {final: success, result: note}
  stopped: {final: failure}
"""
HOSTILE = (
    "</pre></details></script><script>document.title = 'bad'; alert(1)</script>"
    "<img src=https://evil.example/x onerror=alert(1)><svg onload=alert(1)></svg>"
    "<a href='javascript:alert(1)'>a</a><style>* { display: none }</style>"
    "<meta http-equiv=refresh content='0;url=https://evil.example'><base href=//evil.example>"
    "\x1b[31mred\x1b]8;;https://evil.example\x07link\x1b[0m \u202eesrever\u202c \u2028"
    "{{ 7*7 }} {% raw %} --> ]]> &lt;script&gt; %s \\"
)
ONCE = """
loopkit: 1
agents: {writer: {model: openai/gpt-5-mini}}
states:
  say: {agent: writer, prompt: "Say it.", output: note, next: look}
  look: {validate: note, by: [{min_chars: 3}],
         transitions: [{guard: valid, target: done}, {target: bad}]}
  done: {final: success, result: note}
  bad: {final: failure, result: note}
"""

_folder = folder_with(letter=ASKING, slow=SLOW)


@pytest.fixture
async def site() -> AsyncIterator[Served]:
    """A server on which runs of two machines can be started."""
    async with served(STATE, Path("letter.yaml"), Path("slow.yaml"), may_answer=True) as site:
        try:
            yield site
        finally:
            # Its end waits for the steps in hand.
            Path("go").touch()


def tags(html: str) -> list[str]:
    """Elements and words in their order."""
    return html.replace("><", "> <").split()


async def is_so(page: Any, that: str) -> None:
    """Wait until an expression holds in a page."""
    # A bare expression would be evaluated from a text each time, which the page's policy forbids.
    await page.wait_for_function(f"() => {that}", timeout=LONG_MS)


async def started(site: Served, machine: str, **input_: str) -> str:
    answer = await site.post("/api/runs", machine=machine, input=input_)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["run"])


async def test_a_run_is_watched_from_its_start_to_its_end_without_loading_the_page_again(
    site: Served, browser: Browser
) -> None:
    loop = asyncio.get_running_loop()

    async def watch(page: Any) -> list[str]:
        await page.evaluate("window.stays = true")
        asked = asyncio.run_coroutine_threadsafe(started(site, "slow"), loop)
        run = await asyncio.wrap_future(asked)
        await page.wait_for_selector(f"tr[id='run-{run}'] .status.busy")
        assert await page.evaluate("window.stays")
        await page.click(f"text={run}")
        await page.wait_for_selector("#steps .step >> text=works")
        await page.evaluate("window.stays = true")
        assert await page.text_content(".diagram .here .title") == "write"
        Path("go").touch()
        await page.wait_for_selector("#head .status.bad")
        assert await page.evaluate("window.stays")
        assert await page.title() == f"failed: {run} · loopkit"
        assert await page.text_content(".diagram .here .title") == "gave_up"
        await is_so(page, "source === null")
        shown = await page.inner_html("#steps")
        await page.reload()
        assert tags(await page.inner_html("#steps")) == tags(shown)
        return list(await page.locator("#steps h3").all_inner_texts())

    steps, wrong = await visit(browser, site.url, watch)
    assert steps == ["write", "judge"] * 3 + ["gave up"]
    assert wrong == []


async def test_a_page_says_that_the_process_was_killed_that_drove_its_run(
    site: Served, browser: Browser
) -> None:
    driver = Process(["-m", "loopkit", "run", "slow.yaml", "--output", "quiet"])

    async def watch(page: Any) -> str:
        await page.wait_for_selector("table .status.busy")
        await page.click("table a")
        await page.wait_for_selector("#steps .step >> text=works")
        driver.send_signal(signal.SIGKILL)
        await page.wait_for_selector("#stopped >> text=The process that drove the run is gone.")
        return str(await page.inner_text("#head .status"))

    status, wrong = await visit(browser, site.url, watch)
    driver.wait()
    assert (status, wrong) == ("interrupted", [])


class Cable:
    """A way to a server that can be cut and mended."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self._server: asyncio.Server | None = None

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, there = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers |= {writer, there}
        with suppress(ConnectionError):
            await asyncio.gather(_pass_on(reader, there), _pass_on(back, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def test_a_page_that_loses_its_server_says_so_and_comes_back_by_itself(
    site: Served, browser: Browser
) -> None:
    cable = Cable(int(site.url.rpartition(":")[2]))
    await cable.mend()
    site.site.access.origins |= origins_of("127.0.0.1", cable.port)
    loop = asyncio.get_running_loop()
    run = await started(site, "slow")

    async def here(work: Awaitable[Any]) -> None:
        async def wait() -> None:
            await work

        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(wait(), loop))

    async def watch(page: Any) -> list[str]:
        await page.goto(f"{url}/runs/{run}")
        await is_so(page, "source?.readyState === EventSource.OPEN")
        await here(cable.cut())
        await page.wait_for_selector("#link >> text=The connection to the server is lost.")
        Path("go").touch()
        await here(site.until(run, lambda told: told["summary"]["outcome"] is not None))
        assert await page.inner_text("#head .status") == "running"
        await here(cable.mend())
        await page.wait_for_selector("#head .status.bad")
        await page.wait_for_selector("#link", state="hidden")
        return list(await page.locator("#steps h3").all_inner_texts())

    url = f"http://127.0.0.1:{cable.port}"
    steps, _ = await visit(browser, url, watch)
    assert steps == ["write", "judge"] * 3 + ["gave up"]
    await cable.cut()


async def test_a_page_that_was_signed_out_leads_to_signing_in_and_goes_on_after_it(
    site: Served, browser: Browser
) -> None:
    run = await started(site, "slow")

    async def watch(page: Any) -> str:
        await page.goto(f"{site.url}/runs/{run}")
        await is_so(page, "source?.readyState === EventSource.OPEN")
        sessions = dict(site.site.access._sessions)
        site.site.access._sessions.clear()
        # Its stream is open still: it asks for the page, and is refused.
        await page.wait_for_selector("#link a >> text=Sign in")
        await page.evaluate("leave(); follow()")
        await is_so(page, "source === null")
        site.site.access._sessions |= sessions
        await is_so(page, "source?.readyState === EventSource.OPEN")
        await page.wait_for_selector("#link", state="hidden")
        site.site.access._sessions.clear()
        await page.wait_for_selector("#link a >> text=Sign in")
        await page.click("#link a")
        await page.fill("input[name=token]", TOKEN)
        await page.click("main button")
        await page.wait_for_selector("#head h1")
        return str(await page.inner_text("#head h1"))

    shown, _ = await visit(browser, site.url, watch)
    assert shown == run


async def test_typed_text_focus_and_opened_parts_stay_while_a_page_follows(
    site: Served, browser: Browser
) -> None:
    loop = asyncio.get_running_loop()

    def start(machine: str) -> Awaitable[str]:
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(started(site, machine), loop))

    async def watch(page: Any) -> None:
        await page.fill("input[name=machine]", "let")
        await page.select_option("select[name=status]", "waiting")
        await page.focus("input[name=machine]")
        await page.evaluate("document.activeElement.setSelectionRange(1, 2)")
        await start("letter")
        await page.wait_for_selector("table .status.odd")
        typed = "[document.activeElement.value, document.activeElement.selectionStart]"
        assert await page.evaluate(typed) == ["let", 1]
        assert await page.input_value("select[name=status]") == "waiting"
        run = await start("slow")
        await page.set_viewport_size({"width": 900, "height": 300})
        await page.goto(f"{site.url}/runs/{run}")
        await page.click(".call summary")
        await page.wait_for_selector(".call .loaded >> text=Write.")
        await page.evaluate("document.querySelector('.call').scrollIntoView()")
        await page.evaluate("document.querySelector('.call summary').focus()")
        top = "document.querySelector('.call').getBoundingClientRect().top"
        was_at = await page.evaluate(top)
        assert await page.evaluate("scrollY") > 0
        assert await page.locator(".call >> text=waits for the answer").count() == 1
        Path("go").touch()
        await page.wait_for_selector("#head .status.bad")
        first = page.locator(".call").first
        assert await first.evaluate("(one) => one.open")
        # What was open while it waited for its reply has it now.
        await first.locator(".loaded >> text=said").wait_for()
        assert await page.evaluate("document.activeElement.closest('.call').id") == (
            await first.get_attribute("id")
        )
        assert abs(await page.evaluate(top) - was_at) < 3

    _, wrong = await visit(browser, site.url, watch)
    assert wrong == []


async def test_a_page_that_nobody_sees_takes_no_connection(site: Served, browser: Browser) -> None:
    run = await started(site, "slow")
    hide = """(is_hidden) => {
        Object.defineProperty(document, "hidden", {value: is_hidden, configurable: true});
        document.dispatchEvent(new Event("visibilitychange"));
    }"""

    async def following(count: int) -> None:
        async with asyncio.timeout(LONG_MS / 1000):
            while site.site.follower.followers != count:
                await asyncio.sleep(0.02)

    async def watch(page: Any) -> None:
        await page.goto(f"{site.url}/runs/{run}")
        await following(1)
        await page.evaluate(hide, True)
        await following(0)
        Path("go").touch()
        await page.evaluate(hide, False)
        await page.wait_for_selector("#head .status.bad")

    _, wrong = await visit(browser, site.url, watch)
    assert wrong == []


async def played(
    rounds: int, texts: list[str], message: Callable[[int], str], **inputs: str
) -> None:
    """A run whose critic rejects every text but the last, up to its question."""
    Path("loop.yaml").write_text(LOOP.replace("ROUNDS", str(rounds)), encoding="utf-8")
    for i, text in enumerate(texts):
        Path(f"text{i}").write_bytes(text.encode())
    verdicts = [fails(message(i)) for i in range(rounds - 1)]
    verdicts.append({"data": {"verdict": "pass", "findings": []}})
    written = [{"reply": {"file": f"text{i}"}} for i in range(len(texts))]
    agents = {"writer": written, "critic": verdicts}
    Path("loop.scenario.yaml").write_text(json.dumps({"scenario": 1, "agents": agents}))
    given = [part for name, value in inputs.items() for part in ("--set", f"{name}={value}")]
    command = ["run", "loop.yaml", "--script", "loop.scenario.yaml", "--output", "quiet", *given]
    done = await asyncio.to_thread(ran_loopkit, *command)
    assert done.returncode == 5, done.stderr


async def test_a_run_of_500_steps_is_shown_whole_and_a_longer_one_in_parts(
    browser: Browser,
) -> None:
    await played(260, [f"Text {i}" for i in range(260)], lambda i: f"No {i % 9}")

    async def look(page: Any) -> tuple[int, str, list[str]]:
        await page.click("table a")
        await page.wait_for_url("**/runs/*")
        steps = await page.locator("#steps .step").count()
        assert (await page.text_content(".diagram .here .title")) == "ask"
        earlier = await page.inner_text("#earlier")
        await page.click("#earlier a")
        await page.wait_for_load_state()
        names = await page.locator("#steps h3").all_inner_texts()
        assert await page.evaluate("source") is None
        return steps, earlier, names

    async with served(STATE) as site:
        (steps, earlier, names), wrong = await visit(browser, site.url, look)
    assert (steps, earlier) == (500, "21 earlier steps")
    assert names == (["note", "check"] * 11)[:21]
    assert wrong == []


async def test_hostile_texts_of_any_size_are_only_text(browser: Browser) -> None:
    huge = HOSTILE + "<script>alert(2)</script>" * 56_000 + HOSTILE
    await played(3, [HOSTILE, f"{HOSTILE} 2", HOSTILE], lambda i: f"{i} {HOSTILE}", note=HOSTILE)
    Path("once.yaml").write_text(ONCE, encoding="utf-8")
    broken = f"{huge} \x00"
    agents = {"writer": lambda *_: broken}
    await loopkit.arun(loopkit.load("once.yaml"), agents=agents, state=STATE)

    async def look(page: Any) -> None:
        await page.click("table tr:nth-child(2) a")
        await page.wait_for_selector("#question")
        await page.evaluate(
            "document.querySelectorAll('details').forEach((one) => one.open = true)"
        )
        await is_so(page, "!document.querySelector('.loaded:not([data-loaded])')")
        await page.locator("#steps .call .texts, #steps .call pre").first.wait_for()
        text = await page.inner_text("main")
        assert text.count("<script>document.title") > 8
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "esrever" in text
        own = "[...document.querySelectorAll('script, style, base, iframe, object, [onerror]')]"
        assert await page.evaluate(f"{own}.map((one) => one.src)") == [
            await page.evaluate("document.querySelector('head script').src")
        ]
        assert await page.locator("main img, main svg:not(.diagram):not(.bar)").count() == 0
        assert await page.is_visible("#head h1")
        for link in ("call", "version"):
            for one in await page.locator(f".{link}").all():
                alone = await page.context.new_page()
                address = await one.get_attribute("data-load")
                await alone.goto(page.url.partition("/runs")[0] + str(address))
                assert "<script>" in await alone.inner_text("#texts")
                assert await alone.evaluate("document.documentElement.scrollWidth <= innerWidth")
                await alone.close()
        await page.goto(f"{site.url}/")
        await page.click("table tr:nth-child(1) a")
        assert "\ud800" not in await page.inner_text("main")
        assert "<script>document.title" in await page.inner_text("#result")
        await page.goto(f"{site.url}/waiting")
        assert await page.title() == "Waiting · loopkit"

    async with served(STATE) as site:
        _, wrong = await visit(browser, site.url, look)
    assert wrong == []


async def test_pages_fit_narrow_screens_and_follow_the_system_in_light_and_dark(
    site: Served, browser: Browser
) -> None:
    await played(14, ["w" * 500 + " word" * 90 for _ in range(14)], lambda i: f"{i}" + "y" * 400)
    run = await started(site, "letter", topic="x" * 300)
    await site.until(run, lambda told: bool(told["questions"]))
    [long] = (await site.get("/api/runs?machine=loop"))["runs"]
    paths = ["/", "/waiting", f"/runs/{run}", f"/runs/{long['run']}", "/stats", "/nowhere"]
    paths += [f"/runs/{run}/versions/letter/1", "/login"]
    paths += [f"/compare?run={run}&run={long['run']}"]

    async def look(page: Any) -> dict[str, list[Any]]:
        await page.set_viewport_size({"width": 360, "height": 700})
        seen: dict[str, list[Any]] = {}
        for path in paths:
            for scheme in ("light", "dark"):
                await page.emulate_media(color_scheme=scheme)
                await page.goto(site.url + path)
                ground = "getComputedStyle(document.body).backgroundColor"
                wide = "document.documentElement.scrollWidth"
                seen.setdefault(path, []).extend(
                    [await page.evaluate(ground), await page.evaluate(wide)]
                )
        return seen

    seen, _ = await visit(browser, site.url, look)
    for path, (light, wide, dark, also_wide) in seen.items():
        assert (wide, also_wide) == (360, 360), path
        assert light != dark, path


async def test_everything_is_reached_and_opened_by_keyboard(site: Served, browser: Browser) -> None:
    run = await started(site, "slow")

    async def look(page: Any) -> None:
        await page.goto(f"{site.url}/")
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.textContent") == "Skip to the content"
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.id") == "main"
        for _ in range(30):
            await page.keyboard.press("Tab")
            if await page.evaluate("document.activeElement.textContent") == run:
                break
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert await page.evaluate(outline) == "solid"
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".call summary")
        for _ in range(30):
            await page.keyboard.press("Tab")
            if await page.evaluate("document.activeElement.matches('.call summary')"):
                break
        await page.keyboard.press("Space")
        await page.wait_for_selector(".call .loaded >> text=Write.")

    _, wrong = await visit(browser, site.url, look)
    assert wrong == []


async def test_times_are_those_of_the_reader_and_in_utc_without_javascript(
    site: Served, browser: Browser
) -> None:
    run = await started(site, "slow")
    [told] = (await site.get("/api/runs"))["runs"]
    began = datetime.fromtimestamp(int(told["created_at"]), UTC)

    async def look(page: Any) -> tuple[str, str | None]:
        await page.goto(f"{site.url}/runs/{run}")
        first = page.locator("#head time").first
        return await first.inner_text(), await first.get_attribute("title")

    there = {"timezone_id": "Asia/Tokyo", "locale": "de-DE"}
    (local, title), wrong = await visit(browser, site.url, look, **there)
    (utc, _), wrong_in_utc = await visit(browser, site.url, look, java_script_enabled=False)
    assert utc == title == began.strftime("%Y-%m-%d %H:%M:%S UTC")
    # The day is named where it is not today, which may change between the two.
    assert local.endswith((began + timedelta(hours=9)).strftime("%H:%M:%S"))
    assert wrong + wrong_in_utc == []
