"""Call keys: whoever serves a call is told its key, which stays the same if it is made again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import loopkit
from loopkit.plugins import CALL
from tests.support import Desk
from tests.test_python_tools import answer, play

NOTES = json.dumps(["sh", "-c", "cat > seen; echo $LOOPKIT_CALL >> keys; cat keys"])
MACHINE = f"""
loopkit: 1
agents:
  coder: {{command: {NOTES}}}
  writer: {{model: some/model}}
validators:
  rules: [{{command: {NOTES}}}, {{python: "rules:check"}}]
states:
  write: {{agent: writer, prompt: Write., output: text, next: read}}
  read: {{validate: text, by: [{{min_chars: 1}}], next: code}}
  code: {{agent: coder, prompt: Code., output: plan, next: check}}
  check: {{validate: plan, by: [rules], next: build}}
  build: {{run: {NOTES}, stdin: "", next: done}}
  done: {{final: success, result: text}}
"""
RULES = """
from loopkit.plugins import CALL

def check(plan, context):
    with open("keys", "a") as file:
        print(CALL.get(), file=file)
    return []
"""


def test_programs_and_functions_are_told_the_key_of_their_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("machine.yaml").write_text(MACHINE, encoding="utf-8")
    Path("rules.py").write_text(RULES, encoding="utf-8")
    ended = loopkit.run("machine.yaml", agents={"writer": lambda *_: CALL.get()}, state=None)
    assert ended.outcome == "done", ended
    assert ended.result["text"] == f"{ended.run}:write:1:author:1@some/model"
    assert Path("keys").read_text(encoding="utf-8").splitlines() == [
        f"{ended.run}:{call}"
        for call in (
            "code:1:author:1",
            "check:1:rules:command[0]:1",
            "check:1:rules:python[1]",
            "build:1:run:1",
        )
    ]
    assert CALL.get() == ""


def test_a_tool_is_told_the_key_of_its_call(desk: Desk) -> None:
    told = answer(play(desk, "from loopkit.plugins import CALL\nreturn CALL.get()"))
    assert ":write:1:author:tool:1:1\n" in told
