"""The pages of `loopkit serve`, read as a browser without JavaScript reads them."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from loopkit.drive.stored_runs import StoredRuns
from loopkit.journal.journal import Journal
from loopkit.journal.records import Record
from loopkit.language.datatypes.notation import parse_record
from loopkit.views.page.fields import form_fields, typed_of
from loopkit.views.page.run_page import RunPage
from loopkit.views.run_view import RunViews, Wanted
from tests.html_page import Element, parsed
from tests.http_site import ASKING, LETTERS, SLOW, TOKEN, Served, folder_with, served, watching

STATE = Path(".loopkit")
OUTSIDE = """
loopkit: 1
name: outside
agents: {coder: {outside: true}}
states:
  write: {agent: coder, prompt: "Write the <b>note</b>.", output: note, next: look}
  look: {validate: note, by: [{min_chars: 3}],
         transitions: [{guard: valid, target: done}, {revise: write, max: 2}]}
  done: {final: success, result: note}
"""
BROWSER = {"Accept": "text/html,application/xhtml+xml"}

_folder = folder_with(letter=ASKING, outside=OUTSIDE, letters=LETTERS)


@pytest.fixture
async def site() -> AsyncIterator[Served]:
    """A server on which runs of a machine can be started."""
    async with served(STATE, Path("letter.yaml"), may_answer=True) as site:
        yield site


async def started(site: Served, **input_: str) -> str:
    answer = await site.post("/api/runs", machine="letter", input=input_)
    assert answer.status_code == 201, answer.text
    run = str(answer.json()["run"])
    await site.until(run, lambda run: bool(run["questions"]))
    return run


async def ended(site: Served, choice: str = "send", **input_: str) -> str:
    """A run of which somebody has chosen the end."""
    run = await started(site, **input_)
    await site.post(f"/api/runs/{run}/answer", choice=choice)
    await site.until(run, lambda told: not told["summary"]["is_driven"])
    return run


async def page(site: Served, path: str, status: int = 200) -> Element:
    """A page of the site."""
    answer = await site.client.get(path, headers=BROWSER)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return parsed(answer.text)


async def test_the_page_of_a_run_shows_its_steps_its_question_and_its_diagram(site: Served) -> None:
    run = await started(site)
    shown = await page(site, f"/runs/{run}")
    steps = shown.find("ol", id="steps").all("li", class_="step")
    assert [step.find("h3").text for step in steps] == ["draft", "ask"]
    assert "Send it?" in shown.find("section", id="question").text
    picture = shown.find("svg", class_="diagram")
    assert [one["data-state"] for one in picture.all("g", class_="here")] == ["ask"]


async def test_everything_that_waits_is_on_a_page_oldest_first(site: Served) -> None:
    runs = [await started(site) for _ in range(2)]
    shown = (await page(site, "/waiting")).find("ol", id="people")
    assert [one.text for one in shown.all("a")] == runs


async def test_a_text_of_a_version_has_a_page_of_its_own(site: Served) -> None:
    run = await started(site, topic="cake")
    shown = await page(site, f"/runs/{run}/versions/letter/1")
    assert shown.find("pre").text == "About cake. <script>alert(1)</script>"


async def test_style_sheets_and_scripts_are_shown_to_everybody(
    site: Served,
) -> None:
    shown = await page(site, "/")
    links = [one["href"] for one in shown.all("link") if one["rel"] == "stylesheet"]
    links += [one["src"] for one in shown.all("script")]
    assert len(links) == 3
    async with httpx.AsyncClient(base_url=site.url, trust_env=False, verify=False) as stranger:
        for link in links:
            answer = await stranger.get(link)
            assert answer.status_code == 200
        assert (await stranger.get("/assets/../pyproject.toml")).status_code != 200
        assert (await stranger.get("/assets/report.html")).status_code == 404


async def test_a_browser_gets_errors_as_pages_and_a_program_as_data(site: Served) -> None:
    for path in ("/nowhere", "/runs/nothing", "/runs/nothing/calls/1", "/api/runs/nothing"):
        shown = await page(site, path, 404)
        assert shown.find("h1").text == "There is no such page"
        assert "nothing" in shown.find("main").text or path == "/nowhere"
        data = await site.client.get(path)
        assert (data.status_code, list(data.json())) == (404, ["error"])
    run = await started(site)
    for path in ("calls/999", "versions/letter/9", "versions/nobody/1"):
        await page(site, f"/runs/{run}/{path}", 404)
    answer = await site.client.get("/", headers={**BROWSER, "Host": "elsewhere.example"})
    assert answer.status_code == 421
    assert parsed(answer.text).find("h1").text == "This server has another name"
    assert not parsed(answer.text).all("nav")


async def test_who_is_not_signed_in_is_led_to_the_page_that_was_wanted(site: Served) -> None:
    wanted = "/runs/a%20b%3F/c?until=7&x=%26"
    async with httpx.AsyncClient(
        base_url=site.url, headers=BROWSER, trust_env=False, verify=False
    ) as browser:
        answer = await browser.get(wanted)
        assert answer.status_code == 303
        form = parsed((await browser.get(answer.headers["location"])).text).find("form")
        assert [one["value"] for one in form.all("input", name="to")] == [wanted]
        assert form.find("input", name="token")["type"] == "password"
        sent = {"token": "wrong", "to": wanted}
        origin = {"Origin": site.url}
        again = await browser.post("/login", data=sent, headers=origin)
        assert again.status_code == 401
        assert parsed(again.text).find("input", name="to")["value"] == wanted
        answer = await browser.post("/login", data={**sent, "token": TOKEN}, headers=origin)
        assert (answer.status_code, answer.headers["location"]) == (303, wanted)
        assert (await browser.get("/login", params={"to": wanted})).headers["location"] == wanted


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example",
        "\\\\evil.example", "/%0a\n/evil.example", "javascript:alert(1)", "evil", "", "/a\\b",
        " //evil.example", "/\x00/evil.example",
    ],
)  # fmt: skip
async def test_signing_in_leads_to_no_other_server(site: Served, elsewhere: str) -> None:
    async with httpx.AsyncClient(
        base_url=site.url, headers=BROWSER, trust_env=False, verify=False
    ) as browser:
        sent = {"token": TOKEN, "to": elsewhere}
        answer = await browser.post("/login", data=sent, headers={"Origin": site.url})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        shown = await browser.get("/login", params={"to": elsewhere})
        assert (shown.status_code, shown.headers["location"]) == (303, "/")


async def test_who_follows_a_link_of_another_site_can_go_on_without_the_token(
    site: Served,
) -> None:
    headers = {**BROWSER, "Sec-Fetch-Site": "cross-site"}
    async with httpx.AsyncClient(base_url=site.url, headers=headers, trust_env=False) as browser:
        shown = parsed((await browser.get("/login?to=/waiting")).text)
        assert [one["href"] for one in shown.find("main").all("a")] == ["/waiting"]


async def test_a_run_that_goes_on_is_shown_as_it_is_and_so_is_another_one_of_its_name(
    site: Served,
) -> None:
    run = await started(site, topic="cake")
    assert "About cake." in (await page(site, f"/runs/{run}")).text
    await site.post(f"/api/runs/{run}/answer", choice="again", comment="Shorter.")
    await site.until(run, lambda told: told["artifacts"]["letter"] == 2 and bool(told["questions"]))
    steps = (await page(site, f"/runs/{run}")).find("ol", id="steps")
    assert [step.find("h3").text for step in steps.all("li", "step")] == ["draft", "ask"] * 2
    await site.post(f"/api/runs/{run}/cancel", reason="No.")
    await site.until(run, lambda told: not told["summary"]["is_driven"])
    host = site.site.host
    assert host is not None
    await host.app.journal.remove(run)
    await page(site, f"/runs/{run}", 404)
    active = await host.app.start(host.machines["letter"], {"topic": "tea"}, run=run)
    await active.append()
    await host.app.drive(active)
    shown = await page(site, f"/runs/{run}")
    assert "About tea." in shown.text
    assert "About cake." not in shown.text


async def test_only_what_has_changed_is_sent_to_a_page_that_is_open(site: Served) -> None:
    run = await started(site)
    shown = await page(site, f"/runs/{run}")
    seq, status = shown.find("main")["data-seq"], shown.find("main")["data-status"]
    same = await site.client.get(f"/runs/{run}?since={seq}&known={status}", headers=BROWSER)
    assert same.status_code == 204
    other = await page(site, f"/runs/{run}?since={seq}&known=running")
    assert other.find("main")["data-status"] == "waiting"
    await site.post(f"/api/runs/{run}/answer", choice="again", comment="Shorter.")
    await site.until(run, lambda told: told["artifacts"]["letter"] == 2 and bool(told["questions"]))
    steps = (await page(site, f"/runs/{run}?since={seq}")).find("ol", id="steps")
    assert "data-partial" in steps.attributes
    names = [step.find("h3").text for step in steps.all("li", "step")]
    assert names == ["ask", "draft", "ask"]
    every = (await page(site, f"/runs/{run}")).find("ol", id="steps").all("li", "step")
    assert [one["id"] for one in every[1:]] == [one["id"] for one in steps.all("li", "step")]


class CountingJournal:
    """A journal that counts how often runs are read."""

    def __init__(self, journal: Journal) -> None:
        self.reads: list[str] = []
        self._journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def read(self, run: str, after: int = 0) -> list[Record]:
        self.reads.append(run)
        return await self._journal.read(run, after)


async def test_a_list_reads_no_run_again_that_is_over(site: Served) -> None:
    runs = [await ended(site), await ended(site), await started(site)]
    counting = CountingJournal(site.site.stored.journal)
    shown = RunViews(StoredRuns(cast("Journal", counting)), RunPage)
    for _ in range(3):
        listed, _ = await shown.looks(Wanted(status="finished"), None, 50)
        assert [one.row.run for one in listed] == runs[1::-1]
    assert [counting.reads.count(run) for run in runs[:2]] == [1, 1]


async def test_what_waits_is_read_once_however_many_runs_there_are(site: Served) -> None:
    runs = [await started(site) for _ in range(3)]
    counting = CountingJournal(site.site.stored.journal)
    shown = RunViews(StoredRuns(cast("Journal", counting)), RunPage)
    for _ in range(3):
        assert [one.run for one in await shown.waiting()] == runs[::-1]
        listed, _ = await shown.looks(Wanted(status="waiting"), None, 50)
        assert [one.row.run for one in listed] == runs[::-1]
    assert [counting.reads.count(run) for run in runs] == [1, 1, 1]
    await site.post(f"/api/runs/{runs[0]}/answer", choice="again", comment="Shorter.")
    await site.until(runs[0], lambda told: told["artifacts"]["letter"] == 2)
    await site.until(runs[0], lambda told: bool(told["questions"]))
    asked = {one.run: one.question.question for one in await shown.waiting()}
    assert asked == {run: f"ask:{2 if run == runs[0] else 1}" for run in runs}


async def test_the_page_of_a_run_in_which_nothing_happens_is_made_once(site: Served) -> None:
    run = await started(site)
    counting = CountingJournal(site.site.stored.journal)
    pages = RunViews(StoredRuns(cast("Journal", counting)), RunPage)
    first = await pages.view(run)
    assert (await pages.view(run)) is first
    assert counting.reads.count(run) == 2
    await site.post(f"/api/runs/{run}/answer", choice="send")
    await site.until(run, lambda told: told["summary"]["outcome"] is not None)
    assert (await pages.view(run)).state.finished is not None


@pytest.fixture
async def many() -> AsyncIterator[Served]:
    """A server on which runs of three machines can be started."""
    names = (Path(f"{name}.yaml") for name in ("letter", "outside", "letters"))
    async with served(STATE, *names, may_answer=True) as site:
        yield site


async def test_what_waits_for_somebody_outside_is_told_apart_from_what_waits_for_a_person(
    many: Served,
) -> None:
    for machine in ("outside", "letter"):
        run = (await many.post("/api/runs", machine=machine)).json()["run"]
        await many.until(run, lambda told: bool(told["questions"]))
    shown = await page(many, "/waiting")
    [person] = shown.find("ol", id="people").all("li")
    [outside] = shown.find("ol", id="outside").all("li")
    assert "Send it?" in person.text
    assert "Write the <b>note</b>." in outside.text
    assert outside.find("a")["href"].startswith("/runs/outside-")
    shown = await page(many, outside.find("a")["href"].partition("#")[0])
    assert "waits for somebody outside" in shown.find("ol", id="steps").text


async def test_a_run_leads_to_its_children_with_their_questions_and_these_lead_back(
    many: Served,
) -> None:
    run = (await many.post("/api/runs", machine="letters")).json()["run"]
    await many.until(run, lambda told: len(told["questions"]) == 2)
    shown = await page(many, f"/runs/{run}")
    asked = shown.find("section", id="stopped").find("ul").all("li")
    assert [one.text for one in asked] == ["each[tea] asks: Send it?", "each[cake] asks: Send it?"]
    listed = [one["href"] for one in shown.find("section", id="children").all("a")]
    assert listed == [one.find("a")["href"] for one in asked]
    for child in listed:
        below = await page(many, child)
        assert below.find("p", id="links").all("a")[0]["href"] == f"/runs/{run}"
        assert below.find("section", id="question")
    assert [one.text for one in (await page(many, "/")).find("table").all("a")] == [run]


async def test_runs_are_listed_by_machine_and_status_and_in_parts(many: Served) -> None:
    runs = [await started(many, topic=f"{i}") for i in range(52)]
    other = (await many.post("/api/runs", machine="outside")).json()["run"]
    await many.until(other, lambda told: bool(told["questions"]))
    await many.post(f"/api/runs/{runs[0]}/answer", choice="send")
    await many.until(runs[0], lambda told: not told["summary"]["is_driven"])

    async def listed(path: str) -> tuple[list[str], str]:
        shown = await page(many, path)
        tables, more = shown.all("table"), shown.all("a", rel="next")
        names = [one.text for one in tables[0].all("a")] if tables else []
        return names, more[0]["href"] if more else ""

    first, older = await listed("/")
    assert first == [other, *runs[:2:-1]]
    assert await listed(older) == (runs[2::-1], "")
    first, older = await listed("/?machine=letter&status=waiting")
    assert first == runs[:1:-1]
    assert (await listed(older))[0] == [runs[1]]
    shown = await page(many, "/?machine=letter&status=waiting")
    form = shown.find("form", id="filter")
    assert form.find("input", name="machine")["value"] == "letter"
    assert [one.text for one in form.all("option", selected="")] == ["waiting"]
    assert "There are no such runs." in (await page(many, "/?machine=%3Cb%3E")).text


def end_as_often(run: str, times: int) -> None:
    """Write a run down as many times more as it is, under other names."""
    with closing(sqlite3.connect(STATE / "journal.db")) as db, db:
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
        db.execute(
            numbers + "INSERT INTO runs (run, machine, definition, created_at) "
            "SELECT run || '-' || i, machine, definition, created_at FROM runs, n WHERE run = ?",
            [times, run],
        )
        db.execute(
            "INSERT INTO records (run_id, seq, epoch, at, type, data) "
            "SELECT copy.id, seq, epoch, at, type, replace(data, ?, copy.run) FROM records "
            "JOIN runs AS run ON run.id = run_id JOIN runs AS copy ON copy.run LIKE ? || '-%' "
            "WHERE run.run = ?",
            [run, run, run],
        )


async def test_what_waits_is_shown_however_many_runs_have_ended_since(site: Served) -> None:
    waits, over = await started(site), await ended(site)
    end_as_often(over, 1_001)
    [asked] = (await page(site, "/waiting")).find("ol", id="people").all("li")
    assert asked.find("a")["href"].startswith(f"/runs/{waits}#")
    rows = (await page(site, "/?status=waiting")).find("table").all("a")
    assert [one.text for one in rows] == [waits]
    rows = (await page(site, "/?status=finished")).find("table").all("a")
    assert rows[0].text == f"{over}-1001"


async def test_the_report_of_a_run_is_the_file_that_the_command_line_writes(site: Served) -> None:
    run = await started(site, topic="cake")
    shown = await page(site, f"/runs/{run}")
    [link] = [one for one in shown.all("a") if one.text == "report"]
    assert link["download"] == f"{run}.html"
    report = await page(site, link["href"])
    assert not report.all("link")
    assert "About cake." in report.text
    assert f"loopkit report {run}" in report.text


async def test_a_server_that_only_shows_offers_no_machine_to_start(site: Served) -> None:
    assert [one["href"] for one in (await page(site, "/")).all("a", "button")] == ["/start/letter"]
    async with served(STATE, Path("letter.yaml")) as other:
        assert not (await page(other, "/")).all("a", "button")


async def test_a_run_that_failed_says_so_in_words_and_not_by_its_colour(site: Served) -> None:
    runs = [await ended(site, choice) for choice in ("drop", "send")]
    rows = (await page(site, "/")).find("table").all("td", **{"data-label": "status"})
    assert [one.text for one in rows] == ["succeeded", "failed"]
    assert (await page(site, f"/runs/{runs[0]}")).find("header", id="head").find(
        "span", "status"
    ).text == "failed"


FOUND: dict[str, list[int]] = {
    "status=failed": [0],
    "status=succeeded": [1],
    "outcome=sent": [1],
    "machine=letter&status=waiting": [2],
    "machine=&status=finished": [1, 0],
    "machine=nobody": [],
    "text=CAKE": [2, 0],
    "text=send it": [2],
    "text=about tea": [1],
    "since=2020-01-01": [2, 1, 0],
    "since=2999-01-01": [],
    "until=2020-01-01": [],
    "since=2020-01-01&until=2999-12-31&text=cake&status=waiting": [2],
}


async def test_runs_are_found_by_what_became_of_them_their_texts_and_their_time(
    site: Served,
) -> None:
    runs = [await ended(site, "drop", topic="cake"), await ended(site, topic="tea")]
    runs.append(await started(site, topic="cake"))
    for query, found in FOUND.items():
        data = await site.get(f"/api/runs?{query}")
        assert [one["run"] for one in data["runs"]] == [runs[at] for at in found], query
        tables = (await page(site, f"/?{query}")).all("table")
        names = [one.text for table in tables for one in table.all("a")]
        assert names == [runs[at] for at in found], query
    refused = await site.client.get("/api/runs?since=yesterday")
    assert (refused.status_code, "such as `2026-11-30`" in refused.text) == (400, True)


async def test_a_run_is_started_again_with_the_input_that_another_had(site: Served) -> None:
    run = await started(site, topic="cake & <tea>")
    [again] = [one for one in (await page(site, f"/runs/{run}")).all("a") if "again" in one.text]
    form = (await page(site, again["href"])).find("form", id="answer")
    assert form.find("textarea").raw.strip() == "cake & <tea>"
    sent = {"once": form.find("input", name="once")["value"], "input.topic": "cake & <tea>"}
    answer = await site.client.post("/start/letter", data=sent, headers=BROWSER)
    other = answer.headers["location"].rpartition("/")[2]
    found = await site.until(other, lambda told: bool(told["questions"]))
    assert found["input"] == {"topic": "cake & <tea>"}
    await page(site, "/start/letter?from=nobody", 404)


async def test_an_input_of_another_machine_is_filled_in_as_far_as_it_goes() -> None:
    fields = form_fields(parse_record({"a": ["str"], "b": ["x|y"], "c": "int", "d": {"e": "str"}}))
    typed = typed_of(fields, {"a": "one", "b": "x", "c": [1], "d": None, "z": 1}, "input.")
    assert typed.pairs == {"input.a": ["one"], "input.b": ["x"], "input.c": ["[\n  1\n]"]}


async def test_two_runs_stand_side_by_side_with_what_differs(site: Served) -> None:
    runs = [await started(site, topic=topic) for topic in ("cake", "tea")]
    boxes = (await page(site, "/")).all("input", name="run")
    assert [one["value"] for one in boxes] == runs[::-1]
    shown = await page(site, f"/compare?run={runs[0]}&run={runs[1]}")
    assert [one.find("h2").text for one in shown.all("section", "card")] == runs
    changed = [one.text for one in shown.all("span", "added")]
    assert changed == ["+tea", "+About tea. <script>alert(1)</script>"]
    for query in (f"run={runs[0]}", f"run={runs[0]}&run=%00"):
        await page(site, f"/compare?{query}", 400)


async def test_figures_have_a_page_with_a_picture_that_needs_no_other_host(site: Served) -> None:
    await ended(site)
    shown = await page(site, "/stats")
    figures = {row.all("th")[0].text: row.all("td")[0].text for row in shown.all("tr")[:11]}
    assert (figures["succeeded"], figures["clean"]) == ("100.0%", "100.0%")
    assert len(shown.find("svg", "plot").all("circle", "point")) == 2
    assert "There are no such runs." in (await page(site, "/stats?machine=nobody")).text


async def test_a_batch_has_a_page_with_all_of_its_runs(site: Served) -> None:
    host = site.site.host
    assert host is not None
    for line in ("1", "2", "10"):
        active = await host.app.start(host.machines["letter"], {}, run=f"letter-0123abcd-{line}")
        await active.append()
        await host.app.drive(active)
    [link] = (await page(site, "/")).find("p", id="batches").all("a")
    shown = await page(site, link["href"])
    assert len(shown.find("table").all("a")) == 3
    assert shown.find("dl", "figures").text.startswith("runs3 waiting3")
    run = await page(site, "/runs/letter-0123abcd-2")
    assert link["href"] in [one["href"] for one in run.all("a")]
    await page(site, "/batches/letter-99999999", 404)


async def test_a_call_in_flight_is_shown_at_the_top_of_its_run(own_folder: Path) -> None:
    (own_folder / "slow.yaml").write_text(SLOW, encoding="utf-8")
    async with served(STATE, Path("slow.yaml"), may_answer=True) as site:
        run = (await site.post("/api/runs", machine="slow")).json()["run"]
        async with watching(site.client, f"/api/runs/{run}/events") as stream:
            async for one in stream:
                if one.data.get("type") == "intended":
                    break
        head = (await page(site, f"/runs/{run}")).find("header", id="head")
        assert "write asks writer" in head.find("p", "flight").text
        (own_folder / "go").touch()
        await site.until(run, lambda told: told["summary"]["outcome"] is not None)
        assert not (await page(site, f"/runs/{run}")).all("p", "flight")
