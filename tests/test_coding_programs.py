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


@pytest.mark.parametrize(
    ("written", "code", "said"),
    [(None, 0, ""), ("good", 0, ""), ("title_only", 2, '"## Goal" section')],
)
def test_the_hook_tells_the_model_what_is_wrong(
    project: Path, written: str | None, code: int, said: str
) -> None:
    script = project / ".claude/hooks/plan.sh"
    script.parent.mkdir(parents=True)
    script.write_text(blocks("sh")[0], encoding="utf-8")
    if written is not None:
        (project / "docs").mkdir()
        (project / "docs/plan.md").write_text(plan(written), encoding="utf-8")
    [settings] = [block for block in blocks("json") if "PostToolUse" in block]
    [[hook]] = [group["hooks"] for group in json.loads(settings)["hooks"]["PostToolUse"]]
    done = subprocess.run(
        ["sh", "-c", hook["command"]],
        cwd=project, env={**environment(project), "CLAUDE_PROJECT_DIR": str(project)},
        input="{}", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code
    assert said in done.stderr
    assert done.stdout == ""


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
