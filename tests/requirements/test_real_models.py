"""Machines whose agents are models: what is really sent over HTTP, what it costs, who pays."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loopkit.agents.players import AgentChanges
from loopkit.agents.port import NotRunnable
from loopkit.cli import invoke
from loopkit.drive.breakers import Breakers
from loopkit.engine.events import Held, Intended, Replied
from loopkit.language.load import load
from tests.providers.hostile import HostileServer, json_answer, openai_answer
from tests.support import PLAN_REVIEW, Desk, scenario

PRICE = 0.000_01
"""USD a token, by the machines here."""


@pytest.fixture
def server() -> Iterator[HostileServer]:
    hostile = HostileServer()
    yield hostile
    hostile.stop()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "sk-very-secret-0123456789")


def machine(server: HostileServer, **parts: str) -> str:
    author = parts.get("author", "")
    return f"""
loopkit: 1
limits: {{{parts.get("limits", "revisions: 3, cost_usd: 1")}}}
agents:
  author:
    model: {parts.get("model", "openai/gpt-4o-mini")}
    base_url: {server.base_url}/v1
    api_key_env: TEST_KEY
    params: {{max_tokens: 200}}
    price: 10
    retry: {{attempts: 3, backoff: 1ms}}
    {author}
validators:
  form: {{min_chars: 10, message: Too short}}
states:
  draft:
    agent: author
    prompt: {parts.get("prompt", "Write a plan.")}
    output: plan
    next: judge
  judge:
    validate: plan
    by: [form]
    transitions:
      - {{guard: valid, target: done}}
      - {{guard: cap_reached, target: failed}}
      - {{revise: draft, feedback: "Revision {{{{ revision }}}}: {{{{ findings[0].message }}}}"}}
  done: {{final: success, result: plan}}
  failed: {{final: failure, result: plan}}
"""


GOOD = openai_answer("A plan that is long enough.", prompt_tokens=20, completion_tokens=10)
SHORT = openai_answer("Short.", prompt_tokens=20, completion_tokens=5)


def sent(server: HostileServer, request: int) -> list[tuple[str, str]]:
    """The messages of the n-th request, as (role, text)."""
    messages = server.requests()[request].body["messages"]
    return [(message["role"], message["content"]) for message in messages]


def test_a_model_is_asked_with_its_key_its_options_and_its_system_prompt(
    desk: Desk, server: HostileServer
) -> None:
    server.queue(GOOD)
    played = desk.play(machine(server, author="system: Be brief."))
    [request] = server.requests()
    assert played.outcome == "done"
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer sk-very-secret-0123456789"
    assert request.body["model"] == "gpt-4o-mini"
    assert request.body["max_tokens"] == 200
    assert sent(server, 0) == [("system", "Be brief."), ("user", "Write a plan.")]


def test_tokens_and_cost_are_those_that_the_provider_counted(
    desk: Desk, server: HostileServer
) -> None:
    """S1.56: every call, the rejected one too, with its tokens, cost, model and duration."""
    server.queue(SHORT, GOOD)
    played = desk.play(machine(server))
    replies = played.of(Replied)
    assert [reply.usage.tokens for reply in replies] == [25, 30]
    assert played.state.usage.cost_usd == pytest.approx(55 * PRICE)
    assert played.state.usage.agent_calls == 2
    assert [intent.model for intent in played.of(Intended)] == ["openai/gpt-4o-mini"] * 2
    assert {reply.model for reply in replies} == {"some-model"}
    assert all(reply.usage.time_s > 0 for reply in replies)


def test_a_reply_without_a_count_is_charged_at_what_was_reserved(
    desk: Desk, server: HostileServer
) -> None:
    server.queue(openai_answer("A plan that is long enough."))
    played = desk.play(machine(server))
    [intent] = played.of(Intended)
    assert played.state.usage.cost_usd == intent.reserved.cost_usd
    assert played.state.usage.cost_usd > 200 * PRICE


def test_a_machine_with_a_cost_limit_needs_a_price_for_every_rung(
    desk: Desk, server: HostileServer
) -> None:
    text = machine(server, model="[openai/gpt-4o-mini, openai/ours]").replace("price: 10", "")
    with pytest.raises(NotRunnable, match="agent `author` asks `openai/ours`, whose price"):
        desk.play(text)
    assert server.requests() == []


def test_a_cost_limit_that_is_set_later_needs_prices_too(
    durable: Desk, server: HostileServer
) -> None:
    server.queue(json_answer({"error": {"message": "no"}}, 400))
    text = machine(server, model="openai/ours", limits="agent_calls: 9").replace("price: 10", "")
    stopped = durable.play(text)
    assert stopped.state.status == "suspended"
    with pytest.raises(NotRunnable, match="whose price is not known"):
        durable.resume(stopped.state.run, {"cost_usd": 1.0})
    server.queue(GOOD)
    assert durable.resume(stopped.state.run).outcome == "done"


def test_a_machine_with_a_token_limit_needs_a_longest_answer(
    desk: Desk, server: HostileServer
) -> None:
    text = machine(server, model="openai/ours", limits="tokens: 99999")
    endless = text.replace("params: {max_tokens: 200}", "")
    # Whom no longest answer may be sent to.
    with pytest.raises(NotRunnable, match="may answer at any length"):
        desk.play(endless.replace("openai/ours", "morph/ours"))
    server.queue(GOOD)
    assert desk.play(endless).outcome == "done"
    assert [request.body["max_tokens"] for request in server.requests()] == [16_384]


def test_a_prompt_for_a_server_of_ones_own_goes_to_no_stranger(
    desk: Desk, server: HostileServer
) -> None:
    text = machine(server, model="hosted_vllm/llama").replace(f"base_url: {server.base_url}/v1", "")
    with pytest.raises(NotRunnable, match="add its `base_url:`"):
        desk.play(text)


def test_a_rung_has_as_many_works_as_it_says(desk: Desk, server: HostileServer) -> None:
    server.queue(SHORT, SHORT, SHORT, SHORT, GOOD)
    text = machine(server, model="[openai/small, openai/large]", author="rung: 2")
    desk.play(text.replace("revisions: 3", "revisions: 4"))
    asked = [request.body["model"] for request in server.requests()]
    assert asked == ["small", "small", "large", "large", "large"]


def test_a_rung_by_stall_waits_for_as_many_rounds_without_progress(
    desk: Desk, server: HostileServer
) -> None:
    server.queue(SHORT, SHORT, SHORT, GOOD)
    text = machine(
        server,
        model="[openai/small, openai/large]",
        author="climb: stall\n    rung: 2",
    )
    desk.play(text)
    asked = [request.body["model"] for request in server.requests()]
    assert asked == ["small", "small", "small", "large"]


def test_a_state_that_is_entered_forwards_begins_on_the_first_rung(
    desk: Desk, server: HostileServer
) -> None:
    server.queue(SHORT, GOOD)
    text = machine(server, model="[openai/small, openai/large]")
    desk.play(text.replace("  draft:\n", "  start: {next: draft}\n  draft:\n"))
    assert [request.body["model"] for request in server.requests()] == ["small", "large"]


def test_a_ladder_by_stall_climbs_where_revising_made_no_progress(
    desk: Desk, server: HostileServer
) -> None:
    """X.5: the next rung as the answer to no progress."""
    other = openai_answer("Brief.", prompt_tokens=20, completion_tokens=5)
    server.queue(SHORT, other, other, GOOD)
    desk.play(machine(server, model="[openai/small, openai/large]", author="climb: stall"))
    asked = [request.body["model"] for request in server.requests()]
    assert asked == ["small", "small", "small", "large"]


def test_a_model_can_be_replaced_for_one_run(desk: Desk, server: HostileServer) -> None:
    loaded = load(desk.write("machine.yaml", machine(server, model="[openai/a, openai/b]")))
    other = (
        AgentChanges({"author": "openai/c"}, {"author": 3.0})
        .apply_to(loaded.machine)
        .agents["author"]
    )
    assert other.model == ("openai/c",)
    assert other.price == 3.0
    assert other.base_url == f"{server.base_url}/v1"


def test_a_replaced_model_of_another_provider_gets_neither_key_nor_address_nor_price(
    desk: Desk, server: HostileServer
) -> None:
    loaded = load(desk.write("machine.yaml", machine(server)))
    other = AgentChanges({"author": "groq/llama"}).apply_to(loaded.machine).agents["author"]
    assert (other.base_url, other.api_key_env, other.price) == (None, None, None)


@pytest.mark.parametrize("name", ["autor", "nobody"])
def test_a_model_for_an_unknown_agent_is_refused(
    desk: Desk, server: HostileServer, name: str
) -> None:
    loaded = load(desk.write("machine.yaml", machine(server)))
    with pytest.raises(NotRunnable, match=f"the machine has no agent `{name}`"):
        AgentChanges({name: "openai/c"}).apply_to(loaded.machine)


def test_a_scenario_that_plays_some_agents_lets_no_other_spend(
    desk: Desk, server: HostileServer
) -> None:
    text = (
        machine(server)
        .replace("validators:", "  critic: {model: openai/gpt-4o}\nvalidators:")
        .replace("by: [form]", "by: [form, {judge: critic, rubric: [It is good.]}]")
    )
    with pytest.raises(NotRunnable, match="but not `critic`"):
        desk.play(text, scenario(agents={"author": ["A plan that is long enough."]}))
    assert server.requests() == []


NEEDED = openai_answer(
    json.dumps({"title": "T", "steps": ["a"]}), prompt_tokens=20, completion_tokens=10
)


def test_an_answer_that_breaks_its_schema_is_revised_like_any_other_defect(
    desk: Desk, server: HostileServer
) -> None:
    """S3.13: not the end of a run, but a rejected attempt with path and message."""
    server.queue(openai_answer('{"title": 7}', prompt_tokens=1, completion_tokens=1), NEEDED)
    played = desk.play(machine(server, author="schema: {title: str, steps: [str]}"))
    assert played.outcome == "done"
    first = server.requests()[0].body["response_format"]["json_schema"]
    assert first["strict"] is True
    assert first["schema"]["required"] == ["title", "steps"]
    assert "title" in server.requests()[1].prompt
    assert "steps" in server.requests()[1].prompt
    assert played.result["plan"] == {"title": "T", "steps": ["a"]}


def test_data_in_a_fence_is_read_where_the_model_has_no_structured_output(
    desk: Desk, server: HostileServer
) -> None:
    server.queue(
        openai_answer('Here it is:\n```json\n{"title": "T", "steps": []}\n```', total_tokens=0)
    )
    played = desk.play(
        machine(server, model="openai/ours", author="schema: {title: str, steps: [str]}")
    )
    assert played.outcome == "done"
    body = server.requests()[0].body
    assert "response_format" not in body
    assert '"steps"' in body["messages"][0]["content"]


@pytest.mark.parametrize("echo", ["error", "reply"])
def test_a_key_that_a_provider_repeats_is_stored_and_shown_nowhere(
    durable: Desk,
    server: HostileServer,
    echo: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = "correct-horse-battery-staple"  # unlike any key that could be known by its form
    monkeypatch.setenv("TEST_KEY", secret)
    text = f"the key {secret} is not one of ours"
    answers: dict[str, Any] = {
        "error": json_answer({"error": {"message": text, "type": "invalid_request_error"}}, 400),
        "reply": openai_answer(text, prompt_tokens=1, completion_tokens=1),
    }
    server.queue(answers[echo])
    played = durable.play(machine(server))
    assert server.requests()
    said = "".join(event.to_json() for event in played.events)
    stored = b"".join(
        p.read_bytes() for p in (durable.folder / ".loopkit").rglob("*") if p.is_file()
    )
    out, err = capfd.readouterr()
    assert secret not in said + out + err
    assert secret.encode() not in stored
    assert "[TEST_KEY]" in said or "[key]" in said


def test_a_key_that_a_command_prints_is_not_kept(desk: Desk, server: HostileServer) -> None:
    server.queue(GOOD)
    printing = [sys.executable, "-c", "import os; print(os.environ['TEST_KEY']); exit(1)"]
    rule = f"{{command: {json.dumps(printing)}, env: [TEST_KEY]}}"
    played = desk.play(
        machine(server, limits="revisions: 0").replace("by: [form]", f"by: [{rule}]")
    )
    told = "".join(event.to_json() for event in played.events)
    assert "sk-very-secret" not in told
    assert "[TEST_KEY]" in told


def test_a_provider_that_fails_again_and_again_is_left_alone_by_all_runs(
    desk: Desk, server: HostileServer
) -> None:
    """S1.52: after five failures in a row nobody asks it, until the time is over."""
    broken = json_answer({"error": {"message": "down"}}, 500)
    server.queue(*[broken] * 9)
    text = machine(server, author="on_in_doubt: retry").replace("attempts: 3", "attempts: 9")
    played = desk.play(text.replace("backoff: 1ms", "backoff: 1ms, max_backoff: 2s"))
    assert len(server.requests()) == 5
    assert played.state.suspended is not None
    assert "failed 5 times in a row" in played.state.suspended.message
    assert played.state.suspended.resume_at is not None
    assert played.of(Held) == []


def test_the_next_run_of_the_process_does_not_ask_a_provider_that_is_down(
    desk: Desk, server: HostileServer
) -> None:
    broken = json_answer({"error": {"message": "down"}}, 500)
    server.queue(*[broken] * 9)
    text = machine(server).replace("backoff: 1ms", "backoff: 1ms, max_backoff: 2s")
    desk.play(text)
    desk.play(text)
    assert len(server.requests()) == 5
    third = desk.play(text)
    assert len(server.requests()) == 5
    assert third.of(Intended) == []
    assert third.state.usage.agent_calls == 0


def test_a_wait_for_a_provider_that_recovers_is_told_and_one_call_tries_it(
    desk: Desk, server: HostileServer
) -> None:
    broken = json_answer({"error": {"message": "down"}}, 500)
    server.queue(*[broken] * 5, GOOD)
    desk.breakers = Breakers(cooldown_s=1.2)
    played = desk.play(machine(server).replace("attempts: 3", "attempts: 9"))
    assert played.outcome == "done"
    assert len(played.of(Held)) == 1
    assert len(server.requests()) == 6


def test_what_a_provider_puts_into_its_cache_costs_the_rate_for_that(
    desk: Desk, server: HostileServer
) -> None:
    usage = {
        "input_tokens": 20,
        "cache_creation_input_tokens": 500,
        "cache_read_input_tokens": 300,
        "output_tokens": 10,
    }
    content = [{"type": "text", "text": "A plan that is long enough."}]
    reply = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
    server.queue(
        json_answer({**reply, "content": content, "stop_reason": "end_turn", "usage": usage})
    )
    text = machine(server, model="anthropic/claude-sonnet-4-5").replace("/v1", "")
    price = "price: {input: 10, output: 20, cached: 1, cache_write: 12.5}"
    played = desk.play(text.replace("price: 10", price))
    assert played.outcome == "done"
    spent = 20 * 10 + 300 * 1 + 500 * 12.5 + 10 * 20
    assert played.state.usage.cost_usd == pytest.approx(spent / 1_000_000)


def test_a_model_behind_a_gateway_needs_a_price_and_nothing_else(
    desk: Desk, server: HostileServer
) -> None:
    text = machine(server, model="litellm_proxy/ours")
    with pytest.raises(NotRunnable, match=r"`price:` to it, or `--price author=USD`"):
        desk.play(text.replace("price: 10", ""))
    server.queue(GOOD)
    played = desk.play(text)
    assert server.requests()[0].body["model"] == "ours"
    assert played.state.usage.cost_usd == pytest.approx(30 * PRICE)


def test_a_local_model_without_a_key_costs_nothing_under_any_limit(
    desk: Desk, server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OLLAMA_API_KEY", raising=False)
    message = {"role": "assistant", "content": "A plan that is long enough."}
    counts = {"prompt_eval_count": 20, "eval_count": 10}
    said = {"model": "any", "created_at": "2026-11-22T12:00:00Z", "message": message, "done": True}
    server.queue(json_answer({**said, **counts}))
    text = machine(server, model="ollama_chat/any", limits="cost_usd: 0.000001").replace("/v1", "")
    played = desk.play(text.replace("price: 10", "").replace("api_key_env: TEST_KEY", ""))
    assert server.requests()[0].path == "/api/chat"
    assert played.outcome == "done"
    assert played.state.usage.cost_usd == 0
    assert played.state.usage.tokens == 30


def test_a_model_without_its_key_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert invoke(["run", str(PLAN_REVIEW), "--set", "issue=x"]) == 2
    assert "- key ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN is not set" in capsys.readouterr().err
