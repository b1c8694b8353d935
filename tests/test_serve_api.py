"""The API of `loopkit serve`: what is told of runs, and what can be done to them."""

# ruff: noqa: ASYNC110, ASYNC240 - nothing else runs in these tests' event loops

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from loopkit.cli import invoke
from tests.http_site import ASKING, LETTERS, Served, all_of, folder_with, served
from tests.support import PLAN_REVIEW, ROOT, CommandLine
from tests.warm import Process

STATE = Path(".loopkit")
BUSY = """
  work:
    run:
      - sh
      - -c
      - n=0; until test "$1" = tea -o -e go -o $n = 3000; do n=$((n+1)); sleep 0.01; done
      - sh
      - "{{ input.topic }}"
    next: draft
    on_error: {content: dropped}
"""
"""Works until the file `go` is there, but not for ever."""
PRINT = """
  print:
    agent: printer
    prompt: Print it.
    output: paper
    next: sent
    on_error: {content: dropped}
"""
PRINTED = (
    ASKING.replace("states:", "agents: {printer: {command: [sh, -c, COMMAND]}}\nstates:")
    .replace("target: sent}", "target: print}")
    .replace("  sent:", f"{PRINT}  sent:")
)
"""After the answer somebody works, as COMMAND says."""

_folder = folder_with(letter=ASKING, letters=LETTERS)


@pytest.fixture
async def site() -> AsyncIterator[Served]:
    """A server on which runs of two machines can be started."""
    async with served(STATE, Path("letter.yaml"), Path("letters.yaml"), may_answer=True) as site:
        yield site


def is_asking(run: dict[str, Any]) -> bool:
    return bool(run["questions"])


def is_over(run: dict[str, Any]) -> bool:
    return run["summary"]["outcome"] is not None and not run["summary"]["is_driven"]


async def started(site: Served, **input_: str) -> str:
    answer = await site.post("/api/runs", machine="letter", input=input_)
    assert answer.status_code == 201, answer.text
    run = str(answer.json()["run"])
    await site.until(run, is_asking)
    return run


async def test_a_run_is_started_answered_and_read_from_its_first_event_to_its_result(
    site: Served,
) -> None:
    run = await started(site, topic="cake")
    [asked] = (await site.get("/api/questions"))["questions"]
    assert (asked["run"], asked["question"]["text"]) == (run, "Send it?")
    assert [choice["name"] for choice in asked["question"]["choices"]] == ["send", "again", "drop"]
    answer = await site.post(
        f"/api/runs/{run}/answer", choice="again", comment="Shorter.", by="ann",
        question=asked["question"]["question"],
    )  # fmt: skip
    assert answer.json() == {"run": run, "driver": "this server", "is_new": True}
    told = await site.until(run, lambda run: len(run["route"]) == 3 and is_asking(run))
    assert told["answers"]["ask"]["by"] == "ann"
    await site.post(f"/api/runs/{run}/answer", choice="send", form={"stamps": 2}, by="ann")
    told = await site.until(run, is_over)
    assert (told["summary"]["outcome"], told["summary"]["success"]) == ("sent", True)
    assert told["result"] == {"letter": "About cake. <script>alert(1)</script>"}
    assert told["artifacts"] == {"letter": 2}
    assert told["answers"]["ask"]["form"] == {"stamps": 2}
    events = (await site.get(f"/api/runs/{run}/events"))["events"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["type"] == "finished"
    later = await site.get(f"/api/runs/{run}/events?after=3&limit=2")
    assert later == {"events": events[3:5], "next": 5}
    assert (await site.get("/api/questions"))["questions"] == []


async def test_what_is_told_of_events_is_what_the_command_line_prints(
    site: Served, cli: CommandLine
) -> None:
    run = await started(site)
    told = (await site.get(f"/api/runs/{run}/events"))["events"]
    printed = await asyncio.to_thread(cli, 0, "runs", "logs", "--jsonl", run)
    assert [json.loads(line) for line in printed.out.splitlines()] == told


async def test_runs_are_listed_in_pages_and_with_what_they_used(site: Served) -> None:
    runs = [await started(site) for _ in range(3)]
    await site.post(f"/api/runs/{runs[1]}/answer", choice="send")
    await site.until(runs[1], is_over)
    refused = await site.client.get("/api/runs?status=finnished")
    assert refused.status_code == 400
    told = refused.json()["error"]["message"]
    assert told == "there is no status `finnished`; did you mean `finished`?"
    page = await site.get("/api/runs?limit=2")
    [last] = (await site.get(f"/api/runs?limit=2&before={page['next']}"))["runs"]
    assert last["run"] == runs[0]
    [finished] = (await site.get("/api/runs?status=finished"))["runs"]
    assert finished["usage"]["cost_usd"] == 0.0
    assert finished["updated_at"] >= finished["created_at"] > 1e9


async def test_children_are_told_with_their_parent_and_answered_by_their_own_ids(
    site: Served,
) -> None:
    root = (await site.post("/api/runs", machine="letters")).json()["run"]
    told = await site.until(root, lambda run: len(run["questions"]) == len(run["children"]) == 2)
    children = told["children"]
    assert [(child["state"], child["summary"]["status"]) for child in children] == [
        ("each", "waiting"), ("each", "waiting"),
    ]  # fmt: skip
    assert [run["run"] for run in (await site.get("/api/runs"))["runs"]] == [root]
    for asked in told["questions"]:
        child = asked["run"]
        assert (await site.get(f"/api/runs/{child}"))["parent"] == root
        answer = await site.post(f"/api/runs/{child}/answer", choice="send")
        assert answer.status_code == 200, answer.text
    told = await site.until(root, is_over)
    assert told["summary"]["outcome"] == "done"
    events = await all_of(site.client, f"/api/runs/{root}/events")
    assert {event.data["run"] for event in events if not event.name} == {
        root, *(child["summary"]["run"] for child in children),
    }  # fmt: skip


async def test_what_a_child_asks_is_listed_and_answered_while_its_siblings_work() -> None:
    Path("busy.yaml").write_text(
        ASKING.replace("name: letter", "name: busy").replace("  draft: {", BUSY + "  draft: {"),
        encoding="utf-8",
    )
    Path("letters.yaml").write_text(
        LETTERS.replace("machine: letter.yaml", "parallel: 2, machine: busy.yaml"),
        encoding="utf-8",
    )
    async with served(STATE, Path("letters.yaml"), may_answer=True) as site:
        root = (await site.post("/api/runs", machine="letters")).json()["run"]
        async with asyncio.timeout(60):
            while not (asked := (await site.get("/api/questions"))["questions"]):
                await asyncio.sleep(0.02)
        assert [one["place"] for one in asked] == ["each[tea]"]
        assert (await site.get(f"/api/runs/{root}"))["summary"]["status"] == "running"
        answer = await site.post(f"/api/runs/{asked[0]['run']}/answer", choice="send")
        assert (answer.status_code, answer.json()["driver"]) == (200, "this server")
        Path("go").touch()
        told = await site.until(
            root,
            lambda run: (
                bool(run["questions"])
                and len(
                    [child for child in run["children"] if child["summary"]["outcome"] == "sent"]
                )
                == 1
            ),
        )
        [last] = (await site.get("/api/questions"))["questions"]
        assert last["place"] == "each[cake]"
        assert last["run"] == told["questions"][0]["run"]


async def test_the_same_answer_again_resumes_no_run_that_has_stopped_for_another_reason() -> None:
    works = PRINTED.replace("COMMAND", '"test -e paper || exit 3; echo printed"')
    Path("letter.yaml").write_text(works, encoding="utf-8")
    async with served(STATE, Path("letter.yaml"), may_answer=True) as site:
        run = await started(site)
        asked = (await site.get(f"/api/runs/{run}"))["questions"][0]["question"]["question"]
        given = {"choice": "send", "by": "ann", "question": asked}
        assert (await site.post(f"/api/runs/{run}/answer", **given)).json()["is_new"] is True
        before = await site.until(
            run,
            lambda run: run["summary"]["status"] == "suspended" and not run["summary"]["is_driven"],
        )
        Path("paper").touch()
        same = await site.post(f"/api/runs/{run}/answer", **given)
        assert same.json() == {"run": run, "driver": "nobody", "is_new": False}
        assert await site.get(f"/api/runs/{run}") == before
        other = await site.post(f"/api/runs/{run}/answer", **{**given, "choice": "drop"})
        assert other.status_code == 409
        assert "ann has answered it with `send`" in other.json()["error"]["message"]
        assert (await site.post(f"/api/runs/{run}/resume")).status_code == 200
        await site.until(run, is_over)
        assert (await site.post(f"/api/runs/{run}/answer", **given)).json()["is_new"] is False


async def test_an_answer_about_a_call_in_doubt_counts_once_as_well() -> None:
    waits = "touch begun; for n in $(seq 3000); do test -e paper && break; sleep 0.01; done"
    works = PRINTED.replace("COMMAND", f"'{waits}; echo printed'")
    Path("letter.yaml").write_text(works, encoding="utf-8")
    process = Process(["-m", "loopkit", "run", "letter.yaml", "--output", "quiet"])
    assert process.wait(60) == 5
    async with served(STATE) as site:
        run = (await site.get("/api/runs"))["runs"][0]["run"]
    process = Process(["-m", "loopkit", "answer", run, "send", "--output", "quiet"])
    async with asyncio.timeout(60):
        while not Path("begun").exists():
            await asyncio.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    async with served(STATE, may_answer=True) as site:
        assert (await site.post(f"/api/runs/{run}/resume")).status_code == 200
        told = await site.until(run, is_asking)
        asked = told["questions"][0]["question"]["question"]
        Path("paper").touch()
        for is_new in (True, False):
            answer = await site.post(f"/api/runs/{run}/answer", choice="retry", question=asked)
            assert answer.json()["is_new"] is is_new
            await site.until(run, is_over)
        other = await site.post(f"/api/runs/{run}/answer", choice="fail", question=asked)
        assert other.status_code == 409
        assert "answered it with `retry`" in other.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ({"choice": "never"}, "never"),
        ({"choice": "again"}, "comment"),
        ({"choice": "send", "form": {"stamps": "many"}}, "stamps"),
        ({"choice": "send", "form": {"colour": "red"}}, "colour"),
        ({"choice": "send", "edit": "Mine."}, "edit"),
        ({"choice": "send", "limits": {"total_revisions": 9}}, "limits.total_revisions"),
        ({"choice": "send", "origins": {"4e1c": ["draft"]}}, "origins"),
        ({"choice": "send", "by": "script"}, "nobody's name"),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_as_at_the_command_line(
    site: Served, body: dict[str, Any], cause: str
) -> None:
    run = await started(site)
    answer = await site.post(f"/api/runs/{run}/answer", **body)
    assert answer.status_code == 422
    assert cause in answer.json()["error"]["message"]
    assert is_asking(await site.get(f"/api/runs/{run}"))


async def test_a_run_is_cancelled_and_what_is_over_takes_nothing_more(site: Served) -> None:
    run = await started(site)
    # No journal keeps a zero character.
    answer = await site.post(f"/api/runs/{run}/cancel", reason="The issue\0 is closed.")
    assert answer.json().get("message") == f"run {run} is cancelled", answer.text
    assert (await site.get(f"/api/runs/{run}"))["summary"]["status"] == "cancelled"
    for what in ("cancel", "resume"):
        refused = await site.post(f"/api/runs/{run}/{what}")
        assert refused.status_code == 409
        assert "cancelled" in refused.json()["error"]["message"]


async def test_only_machines_that_were_named_can_be_started(site: Served) -> None:
    Path("other.yaml").write_text(ASKING.replace("letter", "other"), encoding="utf-8")
    for machine in ("other", "other.yaml", "../letter.yaml", ASKING, ""):
        refused = await site.post("/api/runs", machine=machine)
        assert refused.status_code == 404
    offered = await site.get("/api/machines")
    assert [machine["name"] for machine in offered["machines"]] == ["letter", "letters"]
    assert offered["machines"][0]["input"]["properties"]["topic"]["type"] == "string"
    assert (await site.get("/api/runs"))["runs"] == []


async def test_a_bad_input_comes_back_with_every_problem_and_its_place() -> None:
    machine = ASKING.replace(
        "{topic: {type: str, default: tea}}", "{topic: str, year: {type: int, default: 0}}"
    )
    Path("letter.yaml").write_text(machine, encoding="utf-8")
    async with served(STATE, Path("letter.yaml"), may_answer=True) as site:
        given = {"year": "soon", "yaer": 1}
        refused = await site.post("/api/runs", machine="letter", input=given)
        assert refused.status_code == 422
        problems = refused.json()["error"]["problems"]
        assert {"message": "input `topic` is missing", "path": "input.topic"} in problems
        assert any("year" in problem["message"] for problem in problems)
        paths = [problem["path"] for problem in problems]
        assert paths == ["input.topic", "input.yaer", "input.year"]


async def test_artifacts_come_as_texts_that_no_browser_executes(site: Served) -> None:
    run = await started(site)
    [version] = (await site.get(f"/api/runs/{run}/artifacts"))["versions"]
    assert (version["artifact"], version["number"], version["author"]) == ("letter", 1, "draft")
    answer = await site.client.get(f"/api/runs/{run}/artifacts/letter/1")
    assert answer.text == "About tea. <script>alert(1)</script>"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    for missing in ("letter/2", "letter/x", "memo/1", "letter/1/..%2f..", "../letter/1"):
        missed = await site.client.get(f"/api/runs/{run}/artifacts/{missing}")
        assert missed.status_code == 404


async def test_the_document_of_the_api_is_openapi_and_names_what_is_served(site: Served) -> None:
    made = await site.get("/api/openapi.json")
    schema = json.loads((ROOT / "tests/data/openapi_3_1.schema.json").read_text())
    Draft202012Validator(schema).validate(made)
    app: Any = site.server.config.app  # uvicorn takes applications of any kind
    served_paths = {
        (route.path.replace("{run:path}", "{run}"), method)
        for route in app._app.routes
        for method in route.methods - {"HEAD"}
        if re.match("/(api/|metrics$|healthz$)", route.path) and route.path != "/api/openapi.json"
    }
    named = {(path, method.upper()) for path, ways in made["paths"].items() for method in ways}
    assert named == served_paths


async def test_what_is_given_fits_its_schema_in_the_document(site: Served) -> None:
    run = await started(site)
    made = await site.get("/api/openapi.json")
    registry = Registry().with_resource("api", Resource(made, DRAFT202012))
    for path in ("runs", "questions", "machines", f"runs/{run}", f"runs/{run}/events",
                 f"runs/{run}/artifacts"):  # fmt: skip
        name = f"/api/{path}".replace(run, "{run}")
        content = made["paths"][name]["get"]["responses"]["200"]["content"]
        ref = content["application/json"]["schema"]["$ref"]
        Draft202012Validator({"$ref": f"api{ref}"}, registry=registry).validate(
            await site.get(f"/api/{path}")
        )


def test_a_run_of_plan_review_is_told_with_the_report_on_each_version() -> None:
    scenario = ROOT / "machines/plan_review.scenario.yaml"
    run = ["run", str(PLAN_REVIEW), "--script", str(scenario), "--output", "quiet"]
    case = ["--case", "revised twice, then approved", "--set", "issue=Slow."]
    assert invoke([*run, *case]) == 0
    asyncio.run(_see_plan_review())


async def _see_plan_review() -> None:
    async with served(STATE) as site:
        [listed] = (await site.get("/api/runs"))["runs"]
        told = await site.get(f"/api/runs/{listed['run']}")
        assert (listed["outcome"], told["report"]["verdict"]) == ("accepted", "pass")
        versions = (await site.get(f"/api/runs/{listed['run']}/artifacts"))["versions"]
        plans = [version for version in versions if version["artifact"] == "plan"]
        assert [version["report"]["verdict"] for version in plans] == ["fail", "fail", "pass"]
        assert plans[0]["report"]["findings"]
