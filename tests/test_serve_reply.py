"""Deliveries over HTTP: what an agent outside owes, as text or data, or left in a workspace."""

# ruff: noqa: ASYNC240 - nothing else runs in these tests' event loops

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.http_site import ASKING, Served, served
from tests.test_outside import GOOD, MACHINE, PLAIN

pytestmark = pytest.mark.usefixtures("own_folder")
STATE = Path(".loopkit")
DATA = (MACHINE % ", schema: {goal: str, steps: [str]}").replace(
    "{section: Goal}", "{require: \"goal != ''\"}"
)


@asynccontextmanager
async def started(machine: str, **input_: Any) -> AsyncIterator[tuple[Served, str]]:
    """A server, and a run of a machine on it that waits for somebody."""
    path = Path("machine.yaml")
    path.write_text(machine, encoding="utf-8")
    async with served(STATE, path, may_answer=True) as site:
        [offered] = (await site.get("/api/machines"))["machines"]
        begun = await site.post("/api/runs", machine=offered["name"], input=input_)
        assert begun.status_code == 201, begun.text
        run = begun.json()["run"]
        await site.until(run, lambda told: bool(told["questions"]))
        yield site, run


async def wanted(site: Served, run: str, attempt: int = 1) -> dict[str, Any]:
    """The open request of a run, once it is that of this attempt."""

    def is_asked(told: dict[str, Any]) -> bool:
        asked = told["questions"]
        return bool(asked) and asked[0]["question"]["wanted"]["attempt"] == attempt

    told = await site.until(run, is_asked)
    return dict(told["questions"][0]["question"])


async def reply(site: Served, run: str, **body: Any) -> httpx.Response:
    return await site.post(f"/api/runs/{run}/reply", **body)


async def result(site: Served, run: str) -> dict[str, Any]:
    """What a run ends with, once its process has let go of it."""
    told = await site.until(
        run, lambda run: run["summary"]["outcome"] is not None and not run["summary"]["is_driven"]
    )
    assert told["summary"]["success"] is True
    return dict(told["result"])


async def test_a_text_is_judged_and_the_next_request_has_the_feedback() -> None:
    async with started(PLAIN) as (site, run):
        first = await wanted(site, run)
        assert (first["text"], first["wanted"]["form"]) == ("Write a plan.", "text")
        taken = await reply(site, run, artifact="No goals.", by="ann", question=first["question"])
        assert taken.json() == {"run": run, "driver": "this server", "is_new": True}
        assert 'no section "Goal"' in (await wanted(site, run, 2))["text"]
        assert (await reply(site, run, artifact=GOOD, by="bob")).status_code == 200
        assert await result(site, run) == {"plan": GOOD}
        events = (await site.get(f"/api/runs/{run}/events"))["events"]
        assert [e["by"] for e in events if e["type"] == "replied"] == ["ann", "bob"]


async def test_data_is_delivered_as_data_or_as_its_text() -> None:
    async with started(DATA) as (site, run):
        schema = (await wanted(site, run))["wanted"]["json_schema"]
        assert schema["required"] == ["goal", "steps"]
        await reply(site, run, artifact={"goal": "", "steps": ["a"]})
        await wanted(site, run, 2)
        await reply(site, run, artifact='{"goal": "Tea", "steps": ["ä"]}')
        assert await result(site, run) == {"plan": {"goal": "Tea", "steps": ["ä"]}}


@pytest.mark.parametrize(
    ("machine", "path", "texts", "words"),
    [
        (
            PLAIN,
            "reply",
            ({"artifact": "No goals."}, {"artifact": GOOD}, {"artifact": "Too late."}),
            ("request", "delivered it", "delivered it", "done"),
        ),
        (
            ASKING,
            "answer",
            ({"choice": "again", "comment": "Shorter."}, {"choice": "send"}, {"choice": "drop"}),
            ("question", "answered it with `again`", "answered it with `send`", "sent"),
        ),
    ],
    ids=["delivery", "answer"],
)
async def test_the_same_counts_once_and_another_one_is_told_who_was_first(
    machine: str, path: str, texts: Sequence[dict[str, str]], words: Sequence[str]
) -> None:
    first, last, other = texts
    noun, did_first, did_last, outcome = words
    async with started(machine) as (site, run):

        async def give(**body: str) -> tuple[int, Any]:
            answer = await site.post(f"/api/runs/{run}/{path}", **body)
            told = answer.json()
            return answer.status_code, told["error"]["message"] if "error" in told else told

        [asked] = (await site.get(f"/api/runs/{run}"))["questions"]
        question = asked["question"]["question"]
        body = {**first, "by": "ann", "question": question}
        assert (await give(**body))[1]["is_new"] is True
        told = await site.until(
            run,
            lambda run: (
                bool(run["questions"]) and run["questions"][0]["question"]["question"] != question
            ),
        )
        open_ = told["questions"][0]["question"]["question"]
        status, told = await give(**body)
        assert (status, told["is_new"]) == (200, False)
        assert (await site.get(f"/api/runs/{run}"))["questions"][0]["question"]["question"] == open_
        refused = f"{noun} `{question}` is no longer open; `{open_}` is (ann has {did_first})"
        assert await give(**other, by="bob", question=question) == (409, refused)
        # Without the question nobody knows which of the two is meant.
        status, told = await give(**first, by="ann")
        assert (status, "name it as `question`" in told) == (409, True)
        assert (await give(**last, by="cy"))[0] == 200
        await result(site, run)
        status, told = await give(**last, by="cy")
        assert (status, told["is_new"], told["driver"]) == (200, False, "nobody")
        status, told = await give(**other)
        assert (status, f"has already finished: {outcome}" in told) == (409, True)
        status, told = await give(**other, question=open_)
        assert (status, f"cy has {did_last}" in told) == (409, True)


async def test_a_delivery_with_a_secret_is_known_again_and_the_secret_is_stored_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = "sk-9f81c2d37ab04e56"
    monkeypatch.setenv("DESK_API_KEY", secret)
    async with started(PLAIN) as (site, run):
        first = (await wanted(site, run))["question"]
        body = {"artifact": f"No goals, but {secret}.", "by": "ann", "question": first}
        assert (await reply(site, run, **body)).json()["is_new"] is True
        await wanted(site, run, 2)
        same = await reply(site, run, **body)
        assert (same.status_code, same.json().get("is_new")) == (200, False), same.text
        twice = await reply(site, run, artifact=body["artifact"], by="ann")
        assert "had this delivery already" in twice.json()["error"]["message"]
        page = f"/runs/{run}/deliver"
        form = {"question": first, "artifact": body["artifact"], "by": "ann"}
        headers = {"Origin": site.url, "Accept": "text/html"}
        assert (await site.client.post(page, data=form, headers=headers)).status_code == 303
        assert (await reply(site, run, artifact=GOOD)).status_code == 200
        await result(site, run)
    kept = [path for path in STATE.rglob("*") if path.is_file()]
    assert kept
    assert [path for path in kept if secret.encode() in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("body", "status", "cause"),
    [
        ({}, 422, "deliver that, and not the workspace as it is"),
        ({"artifact": "x" * 1_500_001}, 422, "deliver less"),
        ({"artifact": GOOD, "question": "draft:9:1"}, 409, "is no longer open"),
        ({"artifact": GOOD, "by": "timeout"}, 422, "nobody's name"),
        ({"artifact": GOOD, "by": "a\nb"}, 422, "`by` has to be a name"),
        ({"artifact": GOOD, "text": GOOD}, 422, "text"),
    ],
)
async def test_what_can_not_be_the_artifact_is_refused_and_changes_nothing(
    body: dict[str, Any], status: int, cause: str
) -> None:
    async with started(PLAIN) as (site, run):
        refused = await reply(site, run, **body)
        assert refused.status_code == status
        assert cause in refused.json()["error"]["message"]
        assert (await reply(site, run, artifact=GOOD)).status_code == 200
        assert await result(site, run) == {"plan": GOOD}
