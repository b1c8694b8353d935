"""What a plan says that a run may cost, beside what servers make it pay at their worst."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from loopkit.agents.model.pricing import FORMAT_TOKENS, ROLE_TOKENS
from loopkit.engine.events import Intended
from loopkit.language.load import load
from loopkit.views.plan.plan_as_text import plan_text
from loopkit.views.plan.planned import Plan, plan_of
from tests.providers.conftest import KEY_VARIABLE
from tests.providers.hostile import Answer, HostileServer, openai_answer
from tests.providers.server import Received
from tests.support import Desk, Played

pytestmark = pytest.mark.usefixtures("provider_key")

MACHINE = """
loopkit: 1
input: {task: str}
limits: {revisions: 1, LIMIT}
agents:
  writer:
    {model: MODEL, base_url: "URL", api_key_env: VARIABLE, retry: {attempts: 2, backoff: 1ms}, MORE}
states:
  write: {agent: writer, prompt: "{{ input.task }}", output: line, next: judge}
  judge:
    validate: line
    by: [{judge: writer, rubric: [It is a line.], reask: 1}]
    transitions: [{guard: valid, target: done}, {revise: write}, {target: no_line}]
  done: {final: success, result: line}
  no_line: {final: failure}
"""
LOST = Answer(lost=b"HTTP/1.1 200 OK\r\n", reset=True)
CALLS = [
    *("lost", "A line"),
    *("lost", "no opinion", "lost", "both", "lost", "fail"),
    *("lost", "Another line"),
    *("lost", "no opinion", "lost", "both", "lost", "pass"),
]
"""The most that the machine can make: every call is lost once, and each judge is asked again, and
about a contradiction."""


@dataclass
class DearServer(HostileServer):
    """Counts as many tokens as it can: all that were asked for, and each byte of the prompt."""

    window: int
    says: list[str] = field(default_factory=lambda: list(CALLS))

    def __post_init__(self) -> None:
        super().__init__()

    def take(self, request: Received) -> Answer:
        said = self.says.pop(0)
        if said == "lost":
            return LOST
        if said in ("fail", "both", "pass"):
            told = {"message": "Too short.", "severity": "error"}
            findings = [] if said == "pass" else [told]
            verdict = "fail" if said == "fail" else "pass"
            said = json.dumps({"verdict": verdict, "findings": findings})
        texts = [message["content"].encode() for message in request.body["messages"]]
        sent = min(self.window, FORMAT_TOKENS + sum(len(text) + ROLE_TOKENS for text in texts))
        answered = request.body["max_tokens"]
        counted = {"prompt_tokens": sent, "completion_tokens": answered}
        return openai_answer(said, **counted, total_tokens=sent + answered)


def played_and_planned(
    desk: Desk, limit: str, model: str, more: str, task: str = "Write a line."
) -> tuple[Played, Plan]:
    server = DearServer(window=8_192)
    text = MACHINE.replace("LIMIT", limit).replace("MODEL", model).replace("MORE", more)
    text = text.replace("URL", server.base_url).replace("VARIABLE", KEY_VARIABLE)
    try:
        played = desk.play(text, inputs={"task": task})
    finally:
        server.stop()
    assert played.outcome == "done"
    plan = plan_of(load(desk.folder / "machine.yaml").machine, {"task": task})
    assert plan.bounds.calls.worst.total == len(played.of(Intended)) == len(CALLS)
    return played, plan


@pytest.mark.parametrize(
    ("limit", "model", "options", "cap"),
    [
        ("cost_usd: 90", "openai/gpt-4.1-mini", "", 16_384),
        ("tokens: 9000000", "openai/gpt-4.1-mini", "", 16_384),
        ("cost_usd: 90", "openai/gpt-4.1-mini", "max_tokens: 90", 90),
        ("cost_usd: 90", "openai/gpt-4", "", 4_096),
        ("cost_usd: 90", "openai/ours", "reasoning_effort: high", 20_480),
    ],
)
def test_a_run_whose_answers_are_as_long_as_they_may_be_costs_what_was_planned(
    desk: Desk, limit: str, model: str, options: str, cap: int
) -> None:
    more = f"price: {{input: 0, output: 10}}, params: {{{options}}}"
    played, plan = played_and_planned(desk, limit, model, more)
    assert played.state.usage.cost_usd == pytest.approx(len(CALLS) * cap * 1e-5)
    assert plan.bounds.cost.worst.total == pytest.approx(played.state.usage.cost_usd)


def test_no_call_of_a_run_costs_more_than_was_planned_with_a_whole_window_in(desk: Desk) -> None:
    played, plan = played_and_planned(
        desk,
        "cost_usd: 90",
        "openai/gpt-4",
        "params: {}",
        task="x" * (8_192 - FORMAT_TOKENS - ROLE_TOKENS),
    )
    reserved = [intended.reserved.cost_usd or 0 for intended in played.of(Intended)]
    assert max(reserved) == plan.asked[0].call_usd == pytest.approx(8_192 * 3e-5 + 4_096 * 6e-5)
    total = plan.bounds.cost.worst.total
    assert total is not None
    assert 0.5 * total < (played.state.usage.cost_usd or 0) <= total


def test_a_cap_that_shortens_answers_is_told(desk: Desk) -> None:
    def notes(limit: str, model: str, options: str = "") -> str:
        text = MACHINE.replace("LIMIT", limit).replace("MODEL", model).replace("URL", "http://x")
        text = text.replace("VARIABLE", KEY_VARIABLE).replace("MORE", f"params: {{{options}}}")
        plan = plan_of(load(desk.write("machine.yaml", text)).machine, {})
        return " ".join(plan_text(plan, {}).split())

    long, told = "openai/gpt-4.1-mini", "is asked for 16,384 tokens at most, because"
    assert f"`{long}` {told} the run has a limit." in notes("cost_usd: 9", long)
    assert told not in notes("agent_calls: 9", long)
    assert told not in notes("cost_usd: 9", long, "max_tokens: 90")
    assert "is asked for" not in notes("cost_usd: 9", "openai/gpt-4")
