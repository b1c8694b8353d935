"""The pages of `loopkit serve`, read as a browser without JavaScript reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.html_page import Element, parsed
from tests.http_site import ASKING, Served, served

STATE = Path(".loopkit")
BROWSER = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("letter.yaml").write_text(ASKING, encoding="utf-8")


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


async def page(site: Served, path: str, status: int = 200) -> Element:
    """A page of the site."""
    answer = await site.client.get(path, headers=BROWSER)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return parsed(answer.text)


async def test_the_first_page_lists_runs_newest_first_and_links_to_each(site: Served) -> None:
    runs = [await started(site) for _ in range(3)]
    rows = (await page(site, "/")).find("table").all("tr")[1:]
    assert [row.find("a").text for row in rows] == runs[::-1]
    assert [row.find("a")["href"] for row in rows] == [f"/runs/{run}" for run in runs[::-1]]
    assert {row.all("td")[1].text for row in rows} == {"waiting"}


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


async def test_style_sheets_and_scripts_come_with_addresses_that_change_with_them(
    site: Served,
) -> None:
    shown = await page(site, "/")
    links = [one["href"] for one in shown.all("link") if one["rel"] == "stylesheet"]
    links += [one["src"] for one in shown.all("script")]
    assert len(links) == 3
    async with httpx.AsyncClient(base_url=site.url, trust_env=False) as stranger:
        for link in links:
            answer = await stranger.get(link)
            assert answer.status_code == 200
            assert "immutable" in answer.headers["cache-control"]
            plain = await stranger.get(link.partition("?")[0])
            assert (plain.text, plain.headers["cache-control"]) == (answer.text, "no-cache")
        assert (await stranger.get("/assets/../pyproject.toml")).status_code != 200
        assert (await stranger.get("/assets/report.html")).status_code == 404
