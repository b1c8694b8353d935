"""People answer runs in a real browser: by mouse, by keyboard alone, and without JavaScript."""

# ruff: noqa: ASYNC240 - nothing else runs in these tests' event loops

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.http_site import ASKING, TOKEN, Served, served
from tests.support import PLAN_REVIEW, plan
from tests.support_browser import Browser, visit
from tests.test_outside import ARCHITECT, outside
from tests.test_outside_agent import CRITIC
from tests.test_viewer_answers import EDITED, FORM

pytestmark = pytest.mark.usefixtures("own_folder")
STATE = Path(".loopkit")
PLANNER = "  architect:\n    command: [sh, -c, 'cat > prompt; cat plan.md']\n"
KEPT = "    session: keep                       # one conversation over all revisions of the plan\n"
GIVEN = {"stamps": 2, "insured": True, "kind": "card", "to": []}


def serving(*machines: str) -> AbstractAsyncContextManager[Served]:
    """A server on which runs of these machines can be started."""
    for number, machine in enumerate(machines):
        Path(f"machine{number}.yaml").write_text(machine, encoding="utf-8")
    paths = [Path(f"machine{number}.yaml") for number in range(len(machines))]
    return served(STATE, *paths, may_answer=True)


async def wrong_in(
    browser: Browser, site: Served, work: Callable[[Any], Coroutine[Any, Any, None]], **options: Any
) -> list[str]:
    """Lets somebody who has signed in do some work in a browser; what went wrong meanwhile."""
    _, wrong = await visit(browser, site.url, work, **options)
    # A page that was refused has a status that says so, which browsers take for an error.
    return [told for told in wrong if "Failed to load resource" not in told]


async def api(page: Any, method: str, path: str, **body: Any) -> Any:
    """What another program asks of the server meanwhile."""
    origin = page.url.split("/", 3)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    parts = {"data": json.dumps(body)} if method == "POST" else {}
    answer = await page.request.fetch(
        f"{origin[0]}//{origin[2]}/api/{path}", method=method, headers=headers, **parts
    )
    assert answer.ok, await answer.text()
    return await answer.json()


async def asked(page: Any, machine: str, **inputs: Any) -> str:
    """A run that was started by another program, and asks; its page is open."""
    run = str((await api(page, "POST", "runs", machine=machine, input=inputs))["run"])
    await page.goto(f"{page.url.split('/', 3)[0]}//{page.url.split('/', 3)[2]}/runs/{run}")
    await page.wait_for_selector("#answer")
    return run


async def result(site: Served, run: str) -> dict[str, Any]:
    return await site.until(run, lambda told: told["summary"]["outcome"] is not None)


async def done_with(
    browser: Browser, machine: str, work: Callable[[Any], Coroutine[Any, Any, None]]
) -> dict[str, Any]:
    """What is told of the only run of a server, which somebody has led to its end in a browser."""
    async with serving(machine) as site:
        assert await wrong_in(browser, site, work) == []
        [run] = (await site.get("/api/runs"))["runs"]
        return await result(site, run["run"])


async def answer_as_ann(page: Any, choice: str) -> None:
    """Answer the question that ends the run."""
    await page.check(f"#question input[value={choice}]")
    await page.fill("#question [name=by]", "ann")
    await page.click("#question button")
    await page.wait_for_selector("#head .status.good")


async def test_plan_review_is_led_from_its_start_to_the_approval(
    browser: Browser, tmp_path: Path
) -> None:
    changes = [(ARCHITECT, PLANNER), (KEPT, ""), CRITIC, ("limits: {cost_usd: 2.00}", "")]
    machine = outside(PLAN_REVIEW, tmp_path, *changes)
    Path("plan.md").write_text(plan("good"), encoding="utf-8")
    runs: list[str] = []

    async def approve(page: Any) -> None:
        await page.click("text=plan_review")
        await page.fill("[name='input.issue']", "CSV exports break.\nSince Monday.")
        await page.click("main button")
        await page.wait_for_selector("#answer")
        runs.append(page.url.partition("/runs/")[2].partition("?")[0].partition("#")[0])
        assert "\nTask 1" in await page.inner_text("#question")
        await page.check("input[value=revise]")
        await page.fill("[name=comment]", "Name the files.")
        await page.fill("[name=by]", "Ann")
        await page.click("#answer button")
        await page.wait_for_selector("#question >> text=Changed since version 1")
        assert "Name the files." in Path("prompt").read_text(encoding="utf-8")
        assert await page.input_value("[name=by]") == "Ann"
        assert await page.input_value("[name=comment]") == ""
        await page.check("input[value=approve]")
        await page.click("#answer button")
        await page.wait_for_selector("#head .status.good")
        assert await page.locator("#answer").count() == 0

    async with served(STATE, machine, may_answer=True) as site:
        assert await wrong_in(browser, site, approve) == []
        told = await result(site, runs[0])
    assert (told["summary"]["outcome"], told["answers"]["approval"]["by"]) == ("accepted", "Ann")
    assert told["input"]["issue"] == "CSV exports break.\nSince Monday."


async def test_the_browser_keeps_back_what_does_not_fit_and_the_server_says_why(
    browser: Browser,
) -> None:
    async def try_it(page: Any) -> None:
        run = await asked(page, "form")
        await page.fill("[name='form.stamps']", "10")
        await page.fill("[name=comment]", "  Typed\n\n twice ")
        await page.click("#answer button")
        assert "/answer" not in page.url
        await page.evaluate("document.getElementById('answer').noValidate = true")
        await page.click("#answer button")
        await page.wait_for_selector("#answer [role=alert]")
        # The message has the focus, and its links lead to the fields.
        assert await page.evaluate("document.activeElement.getAttribute('role')") == "alert"
        await page.click("#answer [role=alert] a >> nth=0")
        assert page.url.endswith("#f-form.stamps")
        assert await page.input_value("[name='form.stamps']") == "10"
        assert await page.input_value("[name=comment]") == "  Typed\n\n twice "
        assert await page.get_attribute("[name='form.stamps']", "aria-invalid") == "true"
        seen: list[str] = []
        page.on("request", lambda asked: seen.append(asked.url.partition("?")[0]))
        # The page goes on following the run, and nothing of this is lost.
        await api(page, "POST", f"runs/{run}/answer", choice="send", form=GIVEN, by="bob")
        await page.wait_for_selector("#head .status.good")
        assert await page.input_value("#over [name=comment]") == "  Typed\n\n twice "
        told = await page.inner_text("#over [role=alert] >> nth=0")
        assert told.startswith("Answered meanwhile: send by bob.")
        assert not [one for one in seen if one.endswith("/answer")]

    async with serving(FORM) as site:
        assert await wrong_in(browser, site, try_it) == []


async def test_an_edit_changes_what_was_edited_and_nothing_else(browser: Browser) -> None:
    text = "\r\n  First  \r\n\r\nSecond\u202e\r\nmixed\nends \t\r\n\r\n"

    async def edit(page: Any) -> None:
        await asked(page, "edited", text=text)
        await page.click("summary >> text=Edit letter")
        await page.click("[name=edit]")
        await page.keyboard.press("Control+Home")
        for _ in range(3):
            await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Home")
        await page.keyboard.type("The ")
        await page.keyboard.press("Control+End")
        await page.keyboard.type("Last.")
        await answer_as_ann(page, "done")

    told = await done_with(browser, EDITED, edit)
    changed = "\r\n  First  \r\n\r\nThe Second\r\nmixed\nends \t\r\n\r\nLast."
    assert told["result"]["letter"] == changed
    assert told["artifacts"] == {"letter": 2}


async def test_what_is_typed_stays_while_somebody_else_answers(browser: Browser) -> None:
    async def answer(page: Any) -> None:
        run = await asked(page, "letter")
        await page.fill("#answer [name=comment]", "My own words.")
        await page.focus("#answer [name=comment]")
        # Something happens, and the question is the same.
        seq = await page.get_attribute("#main", "data-seq")
        await api(page, "POST", f"runs/{run}/resume")
        await page.wait_for_selector(f"#main:not([data-seq='{seq}'])")
        assert await page.input_value("#answer [name=comment]") == "My own words."
        await api(page, "POST", f"runs/{run}/answer", choice="again", comment="No.", by="bob")
        await page.wait_for_selector("#over [role=alert] >> text=Answered meanwhile: again by bob.")
        assert await page.input_value("#over [name=comment]") == "My own words."
        assert await page.evaluate("document.activeElement.name") == "comment"
        assert await page.is_disabled("#over button")
        # Beside it is the question that is open now, and it can be answered.
        await page.wait_for_selector("#question #answer")
        assert await page.input_value("#question [name=comment]") == ""
        assert "again by bob" in await page.inner_text("#steps")
        await answer_as_ann(page, "send")

    async with serving(ASKING) as site:
        assert await wrong_in(browser, site, answer) == []


async def test_who_is_too_late_reads_who_was_first_until_they_leave(browser: Browser) -> None:
    async def answer(page: Any) -> None:
        run = await asked(page, "letter")
        await page.evaluate("leave(); delete main.dataset.stream")  # as if the stream were late
        await page.fill("[name=comment]", "My own words.")
        await page.check("input[value=again]")
        await page.fill("[name=by]", "ann")
        await api(page, "POST", f"runs/{run}/answer", choice="again", comment="No.", by="bob")
        await api(page, "GET", f"runs/{run}")
        await page.click("#answer button")
        await page.wait_for_selector("#late")
        late = await page.inner_text("#late")
        assert "bob" in late
        assert "My own words." in late
        # What happens meanwhile changes the page, but not this.
        asked_now = "[name=question]:not([value='ask:1'])"
        await page.wait_for_selector(f"#question {asked_now}", state="attached")
        await api(page, "POST", f"runs/{run}/answer", choice="drop", by="bob")
        await page.wait_for_selector("#head .status.bad")
        assert await page.inner_text("#late") == late

    async with serving(ASKING) as site:
        assert await wrong_in(browser, site, answer) == []


async def tab_to(page: Any, selector: str) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(200):
        await page.keyboard.press("Tab")
        if await page.evaluate("wanted => document.activeElement.matches(wanted)", selector):
            return
    pytest.fail(f"the keyboard never came to {selector}")


async def test_a_run_is_started_and_answered_by_keyboard_alone(browser: Browser) -> None:
    async def answer(page: Any) -> None:
        await tab_to(page, "a[href='/start/letter']")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("[name='input.topic']")
        await tab_to(page, "[name='input.topic']")
        await page.keyboard.press("Control+A")
        await page.keyboard.type("cake")
        await tab_to(page, "#answer button")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#question #answer")
        await tab_to(page, "[name='form.stamps']")
        await page.keyboard.press("ArrowUp")
        await tab_to(page, "input[name=choice]")
        await page.keyboard.press("Space")
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("ArrowUp")
        await tab_to(page, "[name=by]")
        await page.keyboard.type("Ann")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#head .status.good")

    told = await done_with(browser, ASKING, answer)
    assert told["input"] == {"topic": "cake"}
    answer_ = told["answers"]["ask"]
    assert (answer_["choice"], answer_["form"], answer_["by"]) == ("send", {"stamps": 2}, "Ann")


async def test_everything_works_without_javascript(browser: Browser) -> None:
    async def loaded(page: Any, selector: str) -> None:
        """Load the page again until it shows what happened."""
        while not await page.locator(selector).count():
            await page.reload()

    async def answer(page: Any) -> None:
        await page.context.clear_cookies()
        await page.reload()
        await page.fill("input[name=token]", TOKEN)
        await page.click("main button")
        await page.click("text=letter >> nth=0")
        await page.click("main button")
        await loaded(page, "#answer")
        # Choices whose input is not closed can be picked, and a refusal comes back filled in.
        await page.check("input[value=again]")
        await page.fill("[name=by]", "Ann")
        await page.click("#answer button")
        assert "needs a comment" in await page.inner_text("#answer [role=alert]")
        assert await page.is_checked("input[value=again]")
        await page.fill("[name=comment]", "Shorter.")
        await page.click("#answer button")
        await loaded(page, "[name=question][value='ask:2']")
        await page.click("#cancel")
        await page.fill("[name=reason]", "Enough.")
        await page.click("main button")
        assert "Enough." in await page.inner_text("#stopped")

    async with serving(ASKING) as site:
        assert await wrong_in(browser, site, answer, java_script_enabled=False) == []
        [run] = (await site.get("/api/runs"))["runs"]
    assert run["status"] == "cancelled"
