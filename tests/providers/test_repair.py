"""Runs that a provider stopped are repaired, and the provider is asked for nothing twice."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from loopkit.cli import invoke as run
from tests.providers.conftest import KEY_VARIABLE
from tests.providers.openai_mock import OpenAIMock
from tests.providers.server import ModelServer

pytestmark = pytest.mark.usefixtures("own_folder", "provider_key")
LINE = re.compile(r"loopkit resume .*")
MACHINE = """
loopkit: 1
LIMITS
agents:
  writer:
    model: MODEL
    base_url: URL
    api_key_env: VARIABLE
    params: {max_tokens: 50}
    retry: {attempts: 1}
    SCHEMA
validators:
  size: {max_chars: 40}
  runs: {command: [sh, -c, "exit 7"]}
states:
  write: {agent: writer, prompt: Write a line., output: line, next: check}
  check:
    validate: line
    by: [size]
    transitions:
      - {guard: valid, target: edit}
      - {revise: write, max: 1}
      - {target: failed}
  edit: {agent: writer, prompt: "Better: {{ line }}", output: text, next: last}
  last:
    validate: text
    by: [RULES]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success, result: text}
  failed: {final: failure}
"""
LONG = "This line is much longer than any line may ever be."


def write(server: ModelServer, *, limits: str = "", schema: str = "", rules: str = "size") -> None:
    text = MACHINE.replace("LIMITS", limits).replace("SCHEMA", schema).replace("RULES", rules)
    text = text.replace("MODEL", server.model).replace("URL", server.base_url)
    Path("line.yaml").write_text(text.replace("VARIABLE", KEY_VARIABLE), encoding="utf-8")


def edit(old: str, new: str) -> None:
    text = Path("line.yaml").read_text(encoding="utf-8")
    assert old in text
    Path("line.yaml").write_text(text.replace(old, new), encoding="utf-8")


def stopped(code: int, capsys: Any) -> list[str]:
    """The commands that a run which stops names at its end."""
    assert run(["run", "line.yaml"]) == code
    return [found[0] for found in LINE.finditer(capsys.readouterr().err)]


def stopped_at_the_third_call(
    provider: ModelServer, capsys: Any, status: int, message: str
) -> list[str]:
    """The same of a run that has revised once and was refused its third call."""
    provider.say(LONG, "A short line")
    write(provider, limits="limits: {agent_calls: 2}")
    [raised] = stopped(3, capsys)
    provider.reset()
    provider.fail(status, message=message)
    assert pasted(raised) == 4
    provider.reset()
    return [found[0] for found in LINE.finditer(capsys.readouterr().err)]


def pasted(line: str) -> int:
    return run(shlex.split(line)[1:])


def test_a_model_that_is_not_there_is_replaced_by_one_that_is(
    provider: ModelServer, capsys: Any
) -> None:
    _, mended = stopped_at_the_third_call(provider, capsys, 404, "The model does not exist.")
    provider.say("A better line")
    name = provider.model
    edit(name, f"{name}-2")
    # The file has another model, and the command line a third one, which goes before it.
    assert pasted(f"{mended} --model writer={name}") == 0
    assert capsys.readouterr().out == "A better line\n"
    [asked] = provider.requests()
    assert asked.prompt == "Better: A short line"


def test_a_typo_in_a_model_is_mended_by_the_line_that_is_told(
    openai_server: OpenAIMock, capsys: Any
) -> None:
    openai_server.fail(404, message="The model does not exist.", code="model_not_found")
    write(openai_server)
    edit("gpt-4o-mini", "gpt-4o-mni")
    meant, *_ = stopped(4, capsys)
    openai_server.reset()
    openai_server.say("A short line", "A better line")
    assert pasted(meant) == 0
    assert [request.body["model"] for request in openai_server.requests()] == ["gpt-4o-mini"] * 2


def test_a_limit_that_was_reached_is_raised_by_the_line_that_is_told(
    provider: ModelServer, capsys: Any
) -> None:
    provider.say(LONG, "A short line")
    write(provider, limits="limits: {agent_calls: 2}")
    [raised] = stopped(3, capsys)
    provider.reset()
    provider.say("A better line")
    assert pasted(raised) == 0
    assert [request.prompt for request in provider.requests()] == ["Better: A short line"]


def test_an_exit_code_that_is_missing_costs_no_call(provider: ModelServer, capsys: Any) -> None:
    provider.say("A short line", "A better line")
    write(provider, rules="runs")
    mended = stopped(4, capsys)[-1]
    provider.reset()
    edit('"exit 7"]', '"exit 7"], fail_codes: [1, 7]')
    assert pasted(mended) == 1
    assert provider.requests() == []


def test_a_transition_above_those_that_were_taken_and_a_better_prompt(
    provider: ModelServer, capsys: Any
) -> None:
    _, mended = stopped_at_the_third_call(provider, capsys, 400, "temperature: too hot")
    provider.say("A best line")
    edit(
        "      - {guard: valid, t",
        "      - {guard: attempt > 7, target: failed}\n      - {guard: valid, t",
    )
    edit("Better:", "Best:")
    assert pasted(mended) == 0
    assert [request.prompt for request in provider.requests()] == ["Best: A short line"]


def test_a_cap_below_what_was_spent_is_refused_and_nobody_is_asked(
    provider: ModelServer, capsys: Any
) -> None:
    again, mended = stopped_at_the_third_call(provider, capsys, 400, "temperature: too hot")
    edit("max: 1", "max: 0")
    assert pasted(mended) == 2
    assert "(states.check.transitions.1.max)" in capsys.readouterr().err
    assert provider.requests() == []
    provider.say("A better line")
    assert pasted(again) == 0
