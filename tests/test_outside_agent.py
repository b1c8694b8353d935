"""A coding agent is led through a machine: `next` and `submit`, with a host and by real MCP."""

# ruff: noqa: ASYNC110, ASYNC240 - the agent that is played writes files, and tests wait for some
from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import loopkit
from loopkit.agents.port import NotRunnable
from loopkit.language.load import load
from loopkit.serving.host import Host
from loopkit.serving.tools.arguments import NOBODY, Caller, CallRefused
from loopkit.serving.tools.machines import MOST_LISTED, MachineToolbox, has_outside_agents
from tests.http_site import serving
from tests.mcp_client import into
from tests.mcp_http import MACHINES, Mode, client_of
from tests.support import PLAN_REVIEW, plan
from tests.test_outside import GOOD, OUTSIDE_ARCHITECT, PLAIN, code_fix, outside
from tests.warm import command

Call = Callable[..., Awaitable[dict[str, Any]]]
PERSON = """
loopkit: 1
agents:
  writer: {outside: true}
states:
  draft: {agent: writer, prompt: "Write.", output: plan, next: ask}
  ask:
    human: Is it good?
    choices: [approve, reject]
    transitions: [{guard: choice == "approve", target: done}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure}
"""


def write(folder: Path, text: str, name: str = "machine.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def hidden(text: str) -> str:
    return text.replace("s3cr3t", "***")


@asynccontextmanager
async def served(
    folder: Path, *machines: Path, caller: Caller = NOBODY, **options: Any
) -> AsyncIterator[tuple[Host, Call]]:
    """A host of machines, and a function that calls a tool with arguments."""
    loaded = [load(path) for path in machines]
    async with Host(folder / ".loopkit", loaded) as host:
        box = MachineToolbox(host, hidden, stops_with_call=False, **options)

        async def call(tool: str, **arguments: Any) -> dict[str, Any]:
            answer = await box.call(tool, arguments, caller)
            assert isinstance(answer, dict)
            return answer

        yield host, call


def led(folder: Path, *machines: Path, by: Callable[[Host, Call], Awaitable[None]]) -> None:
    async def lead() -> None:
        async with served(folder, *machines) as (host, call):
            await by(host, call)

    asyncio.run(lead())


def submitted(request: Mapping[str, Any], artifact: Any = None) -> dict[str, Any]:
    given = {} if artifact is None else {"artifact": artifact}
    return {"run": request["run"], "request": request["id"], **given}


def test_an_agent_is_led_from_the_prompt_over_the_feedback_to_the_end(tmp_path: Path) -> None:
    async def lead(host: Host, call: Call) -> None:
        first = await call("machine")
        run, request = first["run"], first["request"]
        assert (first["status"], request["prompt"]) == ("waiting", "Write a plan.")
        told = "the run waits for what `request` asks for; `submit` takes it"
        assert first["message"] == told
        assert await call("next", run=run) == first
        assert (request["state"], request["attempt"], request["form"]) == ("draft", 1, "text")
        assert await call("next") == first  # the only run that wants something
        judged = await call("submit", **submitted(request, "No goals."))
        [verdict] = judged["verdicts"]
        assert (verdict["state"], verdict["verdict"], verdict["ok"]) == ("check", "fail", False)
        assert verdict["diagnostics"][0]["message"].startswith('no section "Goal"')
        again = judged["next"]["request"]
        assert again["attempt"] == 2
        assert 'no section "Goal"' in again["prompt"]
        done = await call("submit", **submitted(again, GOOD))
        assert done["verdicts"][0]["ok"]
        assert (done["next"]["status"], done["next"]["success"]) == ("finished", True)
        assert done["next"]["result"] == {"plan": GOOD}
        assert await call("next", run=run) == done["next"]

    led(tmp_path, write(tmp_path, PLAIN), by=lead)


def test_what_is_over_or_answered_otherwise_is_refused(tmp_path: Path) -> None:
    async def lead(host: Host, call: Call) -> None:
        run = await host.start("machine", {})
        request = (await call("next", run=run))["request"]
        second = (await call("submit", **submitted(request, "No goals.")))["next"]["request"]
        with pytest.raises(CallRefused, match="has delivered it"):
            await call("submit", **submitted(request, GOOD))
        # The same again, as of a client that has not heard the answer, changes nothing.
        same = await call("submit", **submitted(request, "No goals."))
        assert same["next"]["request"] == second
        await call("submit", **submitted(second, GOOD))
        with pytest.raises(CallRefused, match="has delivered it"):
            await call("submit", **submitted(second, GOOD + "More."))
        with pytest.raises(CallRefused, match="already finished"):
            await call("submit", run=run, request="draft:9:1", artifact=GOOD)
        with pytest.raises(CallRefused, match="no run wants anything now"):
            await call("next")

    led(tmp_path, write(tmp_path, PLAIN), by=lead)


def test_a_question_to_a_person_is_told_and_can_not_be_answered(tmp_path: Path) -> None:
    async def lead(host: Host, call: Call) -> None:
        run = await host.start("machine", {})
        request = (await call("next", run=run))["request"]
        told = (await call("submit", **submitted(request, "Tea.")))["next"]
        assert (told["status"], "request" in told) == ("waiting", False)
        question = {"run": run, "text": "Is it good?", "choices": ["approve", "reject"]}
        assert told["questions"] == [question]
        assert "a person has to answer, and not you" in told["message"]
        assert f"loopkit answer {run} approve" in told["message"]
        for artifact in ("approve", {"choice": "approve"}, None):
            given = {} if artifact is None else {"artifact": artifact}
            with pytest.raises(CallRefused, match="waits for an answer, not for an artifact"):
                await call("submit", run=run, request="ask:1", **given)
        assert (await call("next", run=run))["questions"] == [question]

    led(tmp_path, write(tmp_path, PERSON), by=lead)


def test_runs_of_other_machines_are_not_shown_and_take_nothing(tmp_path: Path) -> None:
    other = loopkit.run(write(tmp_path, PLAIN, "other.yaml"), state=tmp_path / ".loopkit")
    assert other.question is not None

    async def lead(_: Host, call: Call) -> None:
        for tool, more in (("next", {}), ("submit", {"request": "draft:1:1", "artifact": GOOD})):
            with pytest.raises(CallRefused, match="is of machine `other`, not served here"):
                await call(tool, run=other.run, **more)
        with pytest.raises(CallRefused, match="no run wants anything now"):
            await call("next")

    led(tmp_path, write(tmp_path, PLAIN), by=lead)


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("nxt", {}, "unknown tool `nxt`"),
        ("next", {"rn": "x"}, "unknown argument `rn`"),
        ("next", {"run": 7}, "`run` has to be a text"),
        ("next", {"run": "gone-000000"}, "gone-000000"),
        ("submit", {"run": "gone-000000"}, "`request` has to be a text"),
        ("submit", {"run": "gone-000000", "request": "x"}, "gone-000000"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tool: str, arguments: dict[str, Any], why: str, tmp_path: Path
) -> None:
    async def lead(_: Host, call: Call) -> None:
        with pytest.raises(CallRefused, match=why):
            await call(tool, **arguments)

    led(tmp_path, write(tmp_path, PLAIN), by=lead)


def test_several_runs_that_want_something_have_to_be_told_apart(tmp_path: Path) -> None:
    async def lead(host: Host, call: Call) -> None:
        runs = [await host.start("machine", {}) for _ in range(2)]
        for run in runs:
            await call("next", run=run)
        with pytest.raises(CallRefused, match="several runs want something"):
            await call("next")

    led(tmp_path, write(tmp_path, PLAIN), by=lead)


def test_a_run_that_can_not_be_read_hides_no_other_one_that_wants_something(
    tmp_path: Path,
) -> None:
    async def lead(host: Host, call: Call) -> None:
        broken, run = [(await call("machine"))["run"] for _ in range(2)]
        with closing(sqlite3.connect(tmp_path / ".loopkit" / "journal.db")) as journal, journal:
            (row,) = journal.execute("SELECT id FROM runs WHERE run = ?", [broken]).fetchone()
            journal.execute("UPDATE records SET data = '[]' WHERE run_id = ?", [row])
        assert (await call("next"))["run"] == run

    led(tmp_path, write(tmp_path, PLAIN), by=lead)


def test_runs_that_have_ended_since_hide_none_that_wants_something(tmp_path: Path) -> None:
    ended = "loopkit: 1\nstates: {done: {final: success}}\n"

    async def lead(_: Host, call: Call) -> None:
        run = (await call("machine"))["run"]
        await asyncio.gather(*(call("ended") for _ in range(MOST_LISTED)))
        assert (await call("next"))["run"] == run

    led(tmp_path, write(tmp_path, PLAIN), write(tmp_path, ended, "ended.yaml"), by=lead)


WORKING = """
loopkit: 1
agents:
  writer: {outside: true}
  worker: {command: [sh, -c, "touch begun; until test -e go; do sleep 0.01; done; echo Done."]}
states:
  draft: {agent: writer, prompt: "Write.", output: plan, next: work}
  work: {agent: worker, prompt: "{{ plan }}", output: built, next: more, on_error: {content: done}}
  more: {agent: worker, prompt: "{{ plan }}", output: built, next: done, on_error: {content: done}}
  done: {final: success, result: built}
"""


async def submit_and_leave(call: Call) -> str:
    """The id of a run that works on what was delivered to it."""
    request = (await call("machine"))["request"]
    submitting = asyncio.create_task(call("submit", **submitted(request, "Tea.")))
    async with asyncio.timeout(60):
        while not Path("begun").exists():
            await asyncio.sleep(0.02)
    submitting.cancel()
    await asyncio.gather(submitting, return_exceptions=True)
    return str(request["run"])


def test_next_goes_on_with_a_run_that_a_server_had_to_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path, WORKING)

    async def lead() -> None:
        async with served(tmp_path, path) as (host, call):
            run = await submit_and_leave(call)
            host.stop()
            Path("go").touch()
        async with served(tmp_path, path) as (_, call):
            assert (await call("status", run=run))["status"] == "suspended"
            assert (await call("next", run=run))["result"] == {"built": "Done.\n"}

    asyncio.run(lead())


def test_next_waits_no_longer_for_a_run_that_works_than_clients_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path, WORKING)
    told: list[str] = []

    async def lead() -> None:
        patient = Caller(tell=into(told))
        async with served(tmp_path, path, caller=patient, led_within_s=0) as (host, call):
            run = await submit_and_leave(call)
            for _ in range(3):
                assert (await call("next", run=run))["status"] == "running"
            Path("go").touch()
            await host.wait_until_released(run)
            assert (await call("next", run=run))["status"] == "finished"

    asyncio.run(lead())


def test_what_a_child_wants_is_told_with_the_run_that_asks(tmp_path: Path) -> None:
    write(tmp_path, PLAIN, "child.yaml")
    parent = """
loopkit: 1
states:
  plan: {machine: child.yaml, input: {}, next: done}
  done: {final: success, result: plan}
"""
    path = write(tmp_path, parent)
    assert has_outside_agents(load(path).machine)

    async def lead(host: Host, call: Call) -> None:
        run = await host.start("machine", {})
        request = (await call("next", run=run))["request"]
        assert request["run"].startswith(f"{run}/")
        done = await call("submit", **submitted(request, GOOD))
        assert done["next"] == {**done["next"], "run": run, "status": "finished", "success": True}

    led(tmp_path, path, by=lead)


def test_who_submits_for_one_of_several_children_is_told_what_that_one_wants_next(
    tmp_path: Path,
) -> None:
    write(tmp_path, PLAIN, "child.yaml")
    several = """
loopkit: 1
input: {names: [str]}
states:
  plans: {each: input.names, max_items: 3, as: name, key: name, machine: child.yaml, input: {},
    parallel: 3, next: done}
  done: {final: success}
"""
    path = write(tmp_path, several)

    async def lead(host: Host, call: Call) -> None:
        run = (await call("machine", names=["a", "b", "c"]))["run"]
        children = [asked.state.run for asked in await host.app.questions(run)]
        assert len(children) == 3
        for child in children[:0:-1]:
            request = {"run": child, "id": "draft:1:1"}
            told = (await call("submit", **submitted(request, "No goals.")))["next"]["request"]
            assert (told["run"], told["attempt"]) == (child, 2)
            assert (await call("next", run=child))["request"] == told
        assert (await call("next", run=run))["request"]["attempt"] == 1

    led(tmp_path, path, by=lead)


def test_the_names_of_the_tools_are_taken_where_an_agent_is_outside(tmp_path: Path) -> None:
    async def offer(*machines: Path) -> Sequence[str]:
        async with Host(tmp_path / ".loopkit", [load(path) for path in machines]) as host:
            return [tool.name for tool in MachineToolbox(host, str, stops_with_call=False).offered]

    rendering = "loopkit: 1\nname: submit\nstates:\n  done: {final: success}\n"
    plain = write(tmp_path, rendering, "plain.yaml")
    assert asyncio.run(offer(plain)) == ["submit", "status", "resume"]
    with pytest.raises(NotRunnable, match="a machine is named `submit`, like a tool that"):
        asyncio.run(offer(plain, write(tmp_path, PLAIN)))


def test_secrets_of_the_environment_are_in_no_answer(tmp_path: Path) -> None:
    async def lead(host: Host, call: Call) -> None:
        run = await host.start("machine", {})
        assert (await call("next", run=run))["request"]["prompt"] == "The word is ***."
        with pytest.raises(CallRefused, match=r"unknown tool `\*\*\*`"):
            await call("s3cr3t")

    led(tmp_path, write(tmp_path, PLAIN.replace("Write a plan.", "The word is s3cr3t.")), by=lead)


# By the client of the `mcp` package

CONNECTIONS = [("stdio", "auto"), ("stdio", "legacy"), ("http", "auto"), ("http", "legacy")]


@asynccontextmanager
async def client_over(transport: str, mode: Mode, *machines: str) -> AsyncIterator[Client]:
    """A real client of `loopkit mcp machines` in a process of its own, in this folder."""
    if transport == "http":
        with serving(*machines, command=MACHINES) as server:
            async with client_of(server.url, mode) as client:
                yield client
        return
    program, *arguments = command("-m", "loopkit", "mcp", "machines", *machines)
    parameters = StdioServerParameters(command=program, args=arguments, cwd=Path.cwd())
    async with Client(stdio_client(parameters), mode=mode) as client:
        yield client


def by_mcp(
    transport: str, mode: Mode, machine: Path, by: Callable[[Call], Awaitable[None]]
) -> None:
    """A real client calls the tools of a server in a process of its own."""

    async def lead() -> None:
        async with client_over(transport, mode, machine.name) as client:

            async def call(tool: str, **arguments: Any) -> dict[str, Any]:
                answer = await client.call_tool(tool, arguments)
                if answer.is_error:
                    raise CallRefused(getattr(answer.content[0], "text", ""))
                data: dict[str, Any] = answer.structured_content or {}
                return data

            listed = [tool.name for tool in (await client.list_tools()).tools]
            assert listed[1:] == ["status", "resume", "next", "submit"]
            assert "call `submit`" in (client.instructions or "")
            await by(call)

    asyncio.run(lead())


CRITIC = (
    """  critic:
    model: openai/gpt-5-mini
    system: You review implementation plans before anybody builds on them.
    params: {max_tokens: 6000}          # what it thinks counts too
""",
    f"""  critic:
    command: [echo, {json.dumps('{"verdict": "pass", "findings": []}')}]
    price_per_run: 0
""",
)


@pytest.mark.parametrize(("transport", "mode"), CONNECTIONS)
def test_a_real_client_plays_the_architect_of_plan_review_to_acceptance(
    transport: str, mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = outside(PLAN_REVIEW, tmp_path, OUTSIDE_ARCHITECT, CRITIC)
    runs: list[str] = []

    async def lead(call: Call) -> None:
        begun = await call("plan_review", issue="CSV exports break.")
        runs.append(begun["run"])
        first = begun["request"]
        assert (await call("next"))["request"] == first
        assert "CSV exports break." in first["prompt"]
        judged = await call("submit", **submitted(first, plan("title_only")))
        assert judged["verdicts"][0]["verdict"] == "fail"
        second = judged["next"]["request"]
        assert second["prompt"].startswith("The plan has these issues (revision 1 of 2):")
        with pytest.raises(CallRefused, match="is no longer open"):
            await call("submit", **submitted(first, plan("good")))
        told = await call("submit", **submitted(second, plan("good")))
        assert [one["verdict"] for one in told["verdicts"]] == ["pass"]
        assert "approve" in told["next"]["questions"][0]["choices"]
        with pytest.raises(CallRefused, match="waits for an answer"):
            await call("submit", run=begun["run"], request="approval:1", artifact="approve")

    by_mcp(transport, mode, path, lead)
    done = loopkit.answer(runs[0], "approve", state=tmp_path / ".loopkit")
    assert done.outcome == "accepted"


@pytest.mark.parametrize(("transport", "mode"), CONNECTIONS)
def test_a_real_client_plays_the_coder_of_the_code_fix_loop_to_acceptance(
    transport: str, mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = code_fix(tmp_path)

    async def lead(call: Call) -> None:
        first = (await call("code_fix"))["request"]
        assert (first["form"], first["path"]) == ("folder", "src")
        code = Path(first["workspace"], "src/calc.py")
        code.write_text("def add(a, b):\n    return a * b\n", encoding="utf-8")
        with pytest.raises(CallRefused, match="put it there"):
            await call("submit", **submitted(first, "It is repaired, believe me."))
        judged = await call("submit", **submitted(first))
        assert not judged["verdicts"][0]["ok"]
        second = judged["next"]["request"]
        assert "test_calc.py" in second["prompt"]
        code.write_text("def add(a, b):\n    return a + b\n", encoding="utf-8")
        done = await call("submit", **submitted(second))
        assert (done["next"]["status"], done["next"]["outcome"]) == ("finished", "fixed")
        # The same again, as of a client that has not heard the answer, changes nothing.
        assert await call("submit", **submitted(second)) == done

    by_mcp(transport, mode, path, lead)
    assert "a + b" in (tmp_path / "src/calc.py").read_text(encoding="utf-8")
