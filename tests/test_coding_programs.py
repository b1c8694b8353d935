"""docs/coding-programs.md: what it shows is set up as it stands there, and works."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.support import ROOT, plan
from tests.warm import command

PAGE = (ROOT / "docs/coding-programs.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def server_named(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What Claude Code and Codex are told of a server that they start."""
    of_claude = [json.loads(block).get("mcpServers", {}) for block in blocks("json")]
    of_codex = [tomllib.loads(block)["mcp_servers"] for block in blocks("toml")]
    [claude] = [servers[name] for servers in of_claude if "command" in servers.get(name, {})]
    [codex] = [servers[name] for servers in of_codex if "command" in servers.get(name, {})]
    return claude, codex


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the machine, and a `loopkit` on its path."""
    (tmp_path / "machines").mkdir()
    shutil.copy(ROOT / "machines/plan_review.yaml", tmp_path / "machines")
    program = tmp_path / "bin/loopkit"
    program.parent.mkdir()
    line = shlex.join(command("-m", "loopkit"))
    program.write_text(f'#!/bin/sh\nexec {line} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return tmp_path


def environment(project: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{project / 'bin'}:{os.environ['PATH']}"}


def test_claude_code_and_codex_start_the_same_server_which_judges_a_plan(project: Path) -> None:
    claude, codex = server_named("plan")
    assert (claude["command"], claude["args"]) == (codex["command"], codex["args"])

    async def judged(draft: str) -> tuple[list[str], Any]:
        server = StdioServerParameters(**claude, cwd=project, env=environment(project))
        async with Client(stdio_client(server)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            return names, (await client.call_tool(names[0], {"draft": draft})).structured_content

    names, told = asyncio.run(judged(plan("title_only")))
    assert [f"mcp__plan__{name}" for name in names] == re.findall(r"`(mcp__plan__\w+)`", PAGE)
    assert not told["ok"]
    assert len(told["diagnostics"]) == 3


def test_claude_code_and_codex_start_the_same_server_of_machines(project: Path) -> None:
    claude, codex = server_named("machines")
    assert (claude["command"], claude["args"]) == (codex["command"], codex["args"])
    assert list(claude["env"]) == codex["env_vars"]
    keys = dict.fromkeys(codex["env_vars"], "a-key-of-nobody")

    async def listed() -> dict[str, Any]:
        server = StdioServerParameters(
            command=claude["command"], args=claude["args"], cwd=project,
            env={**environment(project), **keys},
        )  # fmt: skip
        async with Client(stdio_client(server)) as client:
            return {tool.name: tool for tool in (await client.list_tools()).tools}

    tools = asyncio.run(listed())
    assert [f"mcp__machines__{name}" for name in tools] == [
        *re.findall(r"`(mcp__machines__\w+)`", PAGE),
        "mcp__machines__status",
        "mcp__machines__resume",
    ]
    assert tools["plan_review"].input_schema["required"] == ["issue"]


TOLD = '{\n"session_id" : "a_1",\n"stop_hook_active" : false\n}\n'


def after(event: str, project: Path, told: str = TOLD) -> tuple[int, str]:
    """What the hook of the page for an event makes of what it is told: exit code and stderr."""
    [settings] = [json.loads(block)["hooks"] for block in blocks("json") if "PostToolUse" in block]
    scripts = [block for block in blocks("sh") if block.startswith("#!")]
    for name, script in zip(("plan.sh", "plan_at_stop.sh"), scripts, strict=True):
        path = project / ".claude/hooks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script, encoding="utf-8")
    [[hook]] = [group["hooks"] for group in settings[event]]
    (project / "elsewhere").mkdir(exist_ok=True)
    there = {"CLAUDE_PROJECT_DIR": str(project), "TMPDIR": str(project)}
    done = subprocess.run(
        ["sh", "-c", hook["command"]],
        cwd=project / "elsewhere", env={**environment(project), **there},
        input=told, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == ""
    return done.returncode, done.stderr


def write_plan(project: Path, name: str) -> None:
    (project / "docs").mkdir(exist_ok=True)
    (project / "docs/plan.md").write_text(plan(name), encoding="utf-8")


EVENTS = pytest.mark.parametrize("event", ["PostToolUse", "Stop"])


@EVENTS
def test_a_hook_tells_the_model_what_is_wrong(event: str, project: Path) -> None:
    assert after(event, project) == (0, "")
    write_plan(project, "good")
    assert after(event, project)[0] == 0
    write_plan(project, "title_only")
    code, said = after(event, project)
    assert (code, '"## Goal" section' in said) == (2, True)


BREAKS = {
    "an unreadable machine": ("machines/plan_review.yaml", "states: {"),
    "a validator that can't run": (
        "machines/plan_review.yaml",
        "loopkit: 1\nvalidators:\n  structure: [{command: [no-such-program]}]\n"
        "states:\n  told: {render: Tea., output: plan, next: check}\n"
        "  check: {validate: plan, by: [structure], next: done}\n  done: {final: success}\n",
    ),
    "no loopkit": ("bin/loopkit", "#!/bin/sh\nexit 127\n"),
    "a broken loopkit": ("bin/loopkit", "#!/bin/sh\necho 'Traceback (most' >&2\nexit 1\n"),
}


@EVENTS
@pytest.mark.parametrize(("file", "text"), BREAKS.values(), ids=BREAKS)
def test_a_hook_without_a_verdict_is_no_affair_of_the_model(
    event: str, file: str, text: str, project: Path
) -> None:
    write_plan(project, "title_only")
    (project / file).write_text(text, encoding="utf-8")
    code, said = after(event, project)
    assert (code, said.endswith("The plan was not judged.\n")) == (1, True)


def test_the_stop_hook_ends_after_three_rounds_of_each_message(project: Path) -> None:
    first = json.dumps({"session_id": "a-1", "stop_hook_active": False})
    again = json.dumps({"session_id": "a-1", "stop_hook_active": True}, separators=(",", ":"))
    write_plan(project, "title_only")
    assert [after("Stop", project, again)[0] for _ in range(5)] == [2, 2, 2, 1, 1]
    assert "still not valid after 3" in after("Stop", project, again)[1]
    # Another session has rounds of its own, and so has the next message in this one.
    assert after("Stop", project, again.replace("a-1", "b-2"))[0] == 2
    codes = [after("Stop", project, told)[0] for told in (first, again, again, again)]
    assert codes == [2, 2, 2, 1]


@pytest.mark.parametrize("damaged", ["1 2", "1\r\n", "08", "9" * 30, "a[$(exit 2)]", ""])
def test_the_stop_hook_ends_whatever_its_file_of_rounds_holds(project: Path, damaged: str) -> None:
    write_plan(project, "title_only")
    (project / "plan-rounds-a-1").write_text(damaged, encoding="utf-8", newline="")
    told = json.dumps({"session_id": "a-1", "stop_hook_active": True})
    codes = [after("Stop", project, told)[0] for _ in range(4)]
    assert (set(codes) <= {1, 2}, codes[-1]) == (True, 1)
    # With blanks around its colons, the next message is a new one as well.
    blank = told.replace(": true", " : false").replace('":', '" :')
    assert after("Stop", project, blank)[0] == 2


@pytest.mark.parametrize("told", ["", "{}", '{"session_id": "../x"}'])
def test_the_stop_hook_keeps_no_session_at_work_that_it_does_not_know(
    project: Path, told: str
) -> None:
    write_plan(project, "title_only")
    code, said = after("Stop", project, told)
    assert (code, '"## Goal" section' in said) == (1, True)


def called(project: Path, line: str) -> tuple[int, str, str]:
    """What a shell makes of a line of the page: exit code, stdout, stderr."""
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=project, env=environment(project), capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_a_program_is_led_through_the_machine_by_the_lines_of_the_page(project: Path) -> None:
    [machine] = [block for block in blocks("yaml") if "outside: true" in block]
    [lines] = [block for block in blocks("markdown") if "loopkit reply" in block]
    run_line, _, show, reply, _ = re.findall(
        r"`(loopkit [^`]+)`", lines.replace("`loopkit reply` ", "")
    )
    (project / "plan.yaml").write_text(machine, encoding="utf-8")
    (project / "issue.md").write_text("CSV exports break.", encoding="utf-8")
    code, _, told = called(project, run_line)
    assert code == 5
    run = re.findall(r"^run (\S+)$", told, re.MULTILINE)[0]
    show, reply = show.replace("RUN", run), reply.replace("RUN", run)
    assert "Plan this issue: CSV exports break." in called(project, show)[1]
    (project / "plan.md").write_text("# No tasks\n", encoding="utf-8")
    assert called(project, reply)[0] == 5
    assert "There is no task." in called(project, show)[1]
    (project / "plan.md").write_text("## Goal\n\nCSV.\n\n### Task 1: Quote\n", encoding="utf-8")
    assert called(project, reply)[0] == 5
    assert "Is this plan good?" in called(project, show)[1]
    code, _, told = called(project, reply)
    assert (code, "waits for an answer, not for an artifact" in told) == (2, True)
    assert called(project, f"loopkit answer {run} approve")[0] == 0
