"""The longest answer that is asked for where a run is limited: what is sent, reserved and told."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from loopkit.agents.model.agent import refusal_in
from loopkit.agents.model.pricing import (
    FORMAT_TOKENS,
    ROLE_TOKENS,
    TAKES_NO_CAP,
    _table,
    answer_caps,
    known_model,
    thinking_budget,
)
from loopkit.agents.players import AgentChanges
from loopkit.checks import check
from loopkit.drive.repair import Mend
from loopkit.engine.events import Failed, Intended, Replied, Suspended
from loopkit.language.agents.model import ModelAgent
from loopkit.language.load import load_text
from tests.providers.anthropic_mock import AnthropicMock
from tests.providers.conftest import KEY_VARIABLE
from tests.providers.hostile import HostileServer, openai_answer
from tests.providers.openai_mock import OpenAIMock
from tests.support import Desk, Played

pytestmark = pytest.mark.usefixtures("provider_key")

MACHINE = """
loopkit: 1
limits: {LIMITS}
agents:
  writer: {model: MODEL, base_url: "URL", api_key_env: VARIABLE, params: {PARAMS}}
states:
  write: {agent: writer, prompt: Write a line., output: line, next: judge}
  judge:
    validate: line
    by: RULES
    transitions: [{guard: valid, target: done}, {target: no_line}]
  done: {final: success, result: line}
  no_line: {final: failure}
"""
LONG, SHORT = "openai/gpt-4.1-mini", "openai/gpt-4o-mini"
CLAUDE = "anthropic/claude-sonnet-4-5"
COMPLETION = "max_completion_tokens"
ADDED = ROLE_TOKENS + FORMAT_TOKENS
OPINION = json.dumps({"verdict": "pass", "findings": []})


def text(url: str, limits: str = "cost_usd: 1", **parts: str) -> str:
    filled = {"LIMITS": limits, "MODEL": LONG, "URL": url, "VARIABLE": KEY_VARIABLE, "PARAMS": ""}
    filled |= {"RULES": "[{min_chars: 1}]", **parts}
    machine = MACHINE
    for name, value in filled.items():
        machine = machine.replace(name, value)
    return machine


def asked(desk: Desk, server: Any, limits: str = "cost_usd: 1", **parts: str) -> Played:
    return desk.play(text(server.base_url, limits, **parts))


def usd(model: str, tokens: int) -> float:
    """What an answer of so many tokens costs."""
    known = known_model(model)
    rates = known.highest(sent=100) if known else None
    assert rates is not None
    return rates.output * tokens


@pytest.mark.parametrize("limits", ["cost_usd: 1", "tokens: 90000"])
@pytest.mark.parametrize(
    ("model", "params", "cap"),
    [
        (LONG, "", 16_384),
        (SHORT, "", 16_384),
        ("openai/gpt-4", "", 4_096),
        (LONG, "temperature: 0", 16_384),
        (LONG, "max_tokens: 50", 50),
    ],
)
def test_a_cap_is_sent_where_a_limit_is_set(
    hostile: HostileServer, desk: Desk, limits: str, model: str, params: str, cap: int
) -> None:
    hostile.say("A line")
    played = asked(desk, hostile, limits, MODEL=model, PARAMS=params)
    [request] = hostile.requests()
    [intended] = played.of(Intended)
    assert played.outcome == "done"
    assert request.body["max_tokens"] == cap
    assert intended.cap == (None if "max_tokens" in params else cap)
    assert intended.reserved.tokens == cap + len("Write a line.") + ADDED


def test_a_cap_of_another_name_is_one_too(hostile: HostileServer, desk: Desk) -> None:
    hostile.say("A line")
    asked(desk, hostile, PARAMS="max_completion_tokens: 70")
    [request] = hostile.requests()
    assert request.body["max_completion_tokens"] == 70
    assert "max_tokens" not in request.body


def test_without_a_limit_none_is_sent(hostile: HostileServer, desk: Desk) -> None:
    hostile.say("A line")
    played = asked(desk, hostile, "agent_calls: 5")
    [request] = hostile.requests()
    assert not {"max_tokens", "max_completion_tokens"} & request.body.keys()
    assert [intended.cap for intended in played.of(Intended)] == [None]


def test_it_reaches_servers_that_nobody_here_wrote(
    openai_server: OpenAIMock, anthropic_server: AnthropicMock, desk: Desk
) -> None:
    openai_server.say("A line")
    asked(desk, openai_server)
    [request] = openai_server.requests()
    assert request.body["max_tokens"] == 16_384
    anthropic_server.say("A line")
    thinking = "thinking: {type: enabled, budget_tokens: 4000}"
    played = asked(desk, anthropic_server, MODEL=CLAUDE, PARAMS=thinking)
    [request] = anthropic_server.requests()
    assert request.body["max_tokens"] == 20_384
    assert [intended.cap for intended in played.of(Intended)] == [20_384]


def test_a_reasoning_model_gets_it_under_its_own_name(hostile: HostileServer, desk: Desk) -> None:
    hostile.say("A line")
    asked(desk, hostile, MODEL="openai/gpt-5-mini")
    [request] = hostile.requests()
    assert request.body["max_completion_tokens"] == 16_384


def test_the_first_call_of_a_dear_model_fits_into_a_dollar(
    anthropic_server: AnthropicMock, desk: Desk
) -> None:
    """All that it can answer, 64,000 tokens, would be reserved with 96 cents."""
    anthropic_server.say("A line")
    played = asked(desk, anthropic_server, "cost_usd: 0.50", MODEL=CLAUDE)
    assert played.outcome == "done"
    [intended] = played.of(Intended)
    assert intended.reserved.cost_usd == pytest.approx(usd(CLAUDE, 16_384), rel=0.01)


def test_an_answer_is_made_shorter_where_the_limit_leaves_no_more(
    hostile: HostileServer, desk: Desk
) -> None:
    hostile.say("A line")
    limit = usd(LONG, 3_000)
    played = asked(desk, hostile, f"cost_usd: {limit}")
    [intended], [request] = played.of(Intended), hostile.requests()
    assert request.body["max_tokens"] == intended.cap
    assert 2_900 < (intended.cap or 0) < 3_000
    one_more = (intended.reserved.cost_usd or 0.0) + usd(LONG, 1)
    assert (intended.reserved.cost_usd or 1) <= limit < one_more


def test_below_the_shortest_answer_the_limit_is_reached(hostile: HostileServer, desk: Desk) -> None:
    [suspended] = asked(desk, hostile, f"cost_usd: {usd(LONG, 1_024)}").of(Suspended)
    assert suspended.reason == "limit"
    assert "the next call can take up to $0.0263" in suspended.message
    assert hostile.requests() == []


def test_what_fits_is_the_same_for_a_check_and_for_a_run(
    hostile: HostileServer, desk: Desk
) -> None:
    least = 1_024 + len("Write a line.") + ADDED
    hostile.say("A line")
    for limit, caps in ((least - 1, []), (least, [1_024])):
        machine = text(hostile.base_url, f"tokens: {limit}")
        codes = {problem.code for problem in check(load_text(machine, "caps.yaml", Path()))}
        assert ("no-call-fits" not in codes) == bool(caps)
        played = asked(desk, hostile, f"tokens: {limit}")
        assert [intended.cap for intended in played.of(Intended)] == caps


def test_the_shortest_answer_is_one_behind_the_thoughts(
    anthropic_server: AnthropicMock, desk: Desk
) -> None:
    thinking = "thinking: {type: enabled, budget_tokens: 4000}"
    limits = "tokens: 5000"
    [suspended] = asked(desk, anthropic_server, limits, MODEL=CLAUDE, PARAMS=thinking).of(Suspended)
    assert suspended.reason == "limit"
    anthropic_server.say("A line")
    played = asked(desk, anthropic_server, "tokens: 5400", MODEL=CLAUDE, PARAMS=thinking)
    [request] = anthropic_server.requests()
    assert 5_024 <= request.body["max_tokens"] <= 5_400 - 29 - FORMAT_TOKENS
    assert played.outcome == "done"


def test_siblings_are_waited_for_before_an_answer_is_made_shorter(
    hostile: HostileServer, desk: Desk
) -> None:
    hostile.say("A line", *[OPINION] * 3)
    rules = "[{judge: writer, rubric: [It is a line.], samples: 3}]"
    played = asked(desk, hostile, f"cost_usd: {1.5 * usd(LONG, 16_384)}", RULES=rules)
    assert played.outcome == "done"
    assert [intended.cap for intended in played.of(Intended)] == [16_384] * 4
    hostile.say("A line", *[OPINION] * 3)
    tight = asked(desk, hostile, f"cost_usd: {usd(LONG, 6_000)}", RULES=rules)
    assert tight.outcome == "done"
    caps = [intended.cap or 0 for intended in tight.of(Intended)]
    # Each has all that is left to itself.
    assert all(3_000 < cap < 6_000 for cap in caps)


class TestAnAnswerThatIsCutOffAtOurCap:
    def test_is_a_limit_that_is_paid_and_not_the_fault_of_its_author(
        self, hostile: HostileServer, desk: Desk
    ) -> None:
        hostile.say("A li", finish="length")
        played = asked(desk, hostile)
        [suspended], [failed] = played.of(Suspended), played.of(Failed)
        assert suspended.reason == "limit"
        assert suspended.message == (
            "`max_tokens` reached: the answer was cut off at 16,384 tokens, the longest that is "
            "asked for where a limit is set and `params:` has no `max_tokens`"
        )
        assert suspended.remedy == (
            f"raise it: loopkit resume {played.state.run} --param writer.max_tokens=32768"
        )
        assert failed.usage.tokens == 30
        assert failed.usage.held_tokens == 0
        assert not played.reports

    def test_goes_on_with_a_longer_one(self, hostile: HostileServer, durable: Desk) -> None:
        hostile.say("A li", finish="length")
        stopped = asked(durable, hostile)
        hostile.say("A line")
        params = _told(stopped.of(Suspended)[0].remedy)
        played = durable.resume(stopped.state.run, mend=Mend(agents=AgentChanges(params=params)))
        assert played.outcome == "done"
        assert [r.body["max_tokens"] for r in hostile.requests()] == [16_384, 32_768]
        assert len(played.of(Replied)) == 1

    def test_is_raised_together_with_the_limit_that_made_it_short(
        self, hostile: HostileServer, desk: Desk
    ) -> None:
        hostile.say("A li", finish="length")
        [suspended] = asked(desk, hostile, f"cost_usd: {usd(LONG, 3_000)}").of(Suspended)
        assert "the longest that the limits of the run left room for" in suspended.message
        assert re.search(
            r"--param writer.max_tokens=16384 --max-cost 0\.\d\d$", suspended.remedy
        ), suspended.remedy

    def test_is_raised_no_further_than_the_model_can_answer(
        self, hostile: HostileServer, desk: Desk
    ) -> None:
        hostile.say("A li", finish="length")
        limits = f"cost_usd: {usd(SHORT, 12_000)}"
        [suspended] = asked(desk, hostile, limits, MODEL=SHORT).of(Suspended)
        assert "--param writer.max_tokens=16384 --max-cost" in suspended.remedy

    def test_goes_to_then(self, hostile: HostileServer, desk: Desk) -> None:
        hostile.say("A li", finish="length")
        played = asked(desk, hostile, "cost_usd: 1, then: no_line")
        assert played.outcome == "no_line"

    def test_of_a_judge_is_a_limit_too(self, hostile: HostileServer, desk: Desk) -> None:
        hostile.say("A line")
        hostile.say('{"verdict": "pa', finish="length")
        rules = "[{judge: writer, rubric: [It is a line.]}]"
        [suspended] = asked(desk, hostile, RULES=rules).of(Suspended)
        assert suspended.reason == "limit"
        assert "--param writer.max_tokens=32768" in suspended.remedy
        assert len(hostile.requests()) == 2

    def test_may_have_no_word_behind_its_thoughts(self, hostile: HostileServer, desk: Desk) -> None:
        hostile.say("", finish="length")
        [suspended] = asked(desk, hostile).of(Suspended)
        assert suspended.reason == "limit"
        assert "--param writer.max_tokens=32768" in suspended.remedy

    def test_that_nobody_counted_is_held(self, hostile: HostileServer, desk: Desk) -> None:
        hostile.queue(openai_answer("A li", finish_reason="length"))
        played = asked(desk, hostile)
        [intended], [failed] = played.of(Intended), played.of(Failed)
        assert failed.usage.held_usd == intended.reserved.cost_usd

    def test_is_the_authors_at_the_length_that_no_answer_of_the_model_exceeds(
        self, hostile: HostileServer, desk: Desk
    ) -> None:
        counted = {"prompt_tokens": 20, "completion_tokens": 16_384, "total_tokens": 16_404}
        hostile.queue(openai_answer("A li", finish_reason="length", **counted))
        played = asked(desk, hostile, MODEL=SHORT)
        assert [report.findings[0].code for report in played.reports] == ["cut-off"]

    def test_is_the_authors_where_its_params_say_so(
        self, hostile: HostileServer, desk: Desk
    ) -> None:
        hostile.say("A li", finish="length")
        played = asked(desk, hostile, PARAMS="max_tokens: 50")
        assert [report.findings[0].code for report in played.reports] == ["cut-off"]


REFUSALS = [
    ("max_tokens is too large: 16384. This model supports at most 4,096 completion tokens.", 4_096),
    ("max_tokens: 16384 > 8192, which is the most output tokens for claude-3-5-20241022", 8_192),
    ("input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000", 10_000),
    ("maximum context length is 8192 tokens, but 16404 were requested (20 in the prompt)", 8_172),
    ("context window of 8192 tokens: requested 16468 (20 text, 64 tools, 16384 output)", 8_108),
    ("You requested 16384 output tokens and the context length is 8192 tokens.", 8_142),
    ("the maximum value of `max_tokens` is `8192`, less than the `context_window`", 8_192),
    ("`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 20 `inputs` tokens", 8_173),
    (
        "has a maxOutputTokens value of 16384, not 1 (inclusive) to 8193 (exclusive)",
        8_192,
    ),
    ("The valid range of max_tokens is [1, 8192]", 8_192),
    ("max_tokens (16384) is not in the range 1-8192", 8_192),
    ("max_tokens=16384 cannot be greater than max_model_len=8192", 8_142),
    ("prompt and answer cannot exceed 4096 in total - received 16404, lower max_tokens", 4_076),
    ("Request too large, tokens per minute (TPM): Limit 6000, Requested 16404", 5_980),
    ("fewer max_tokens: you requested up to 16384 tokens, but can only afford 5000", 5_000),
    ("'max_tokens' is not supported with 'o9-2031-01-31'. Use 'max_completion_tokens'", COMPLETION),
    ("`max_tokens` is deprecated", COMPLETION),
    ("Use max_completion_tokens instead of max_tokens", COMPLETION),
    ("Unrecognized request argument supplied: max_completion_tokens", "max_tokens"),
    ("body.max_completion_tokens: Extra inputs are not permitted", "max_tokens"),
    ("the value of max_tokens is not valid", ""),
    ("maximum context length is 8192 tokens, but your messages have 20000 tokens", None),
    ("context length is 8192 tokens: requested 26384 (10000 messages, 16384 answer)", None),
    ("input length and `max_tokens` exceed context limit: 210000 + 16384 > 200000", None),
    ("The input (1200000) exceeds the maximum number of tokens allowed (1048576).", None),
    ("'temperature' does not support 0.2 with this model", None),
    ("Prompt contains 40000 tokens, too large for 32768 maximum context length", None),
]


@pytest.mark.parametrize(("said", "wanted"), REFUSALS, ids=[said[:40] for said, _ in REFUSALS])
def test_what_a_server_wants_instead_of_a_cap_is_read_from_its_refusal(
    said: str, wanted: int | str | None
) -> None:
    refusal = refusal_in(said, 16_384, 100)
    assert (refusal and (refusal.most or refusal.name)) == wanted


class TestACapThatIsRefused:
    def test_is_lowered_once_and_for_the_calls_after_it(
        self, hostile: HostileServer, desk: Desk
    ) -> None:
        hostile.fail(400, message="max_tokens must be in [1, 4096]")
        hostile.say("A line", OPINION)
        rules = "[{judge: writer, rubric: [It is a line.]}]"
        played = asked(desk, hostile, RULES=rules)
        assert played.outcome == "done"
        assert [r.body["max_tokens"] for r in hostile.requests()] == [16_384, 4_096, 4_096]
        assert not played.of(Failed)

    @pytest.mark.parametrize("model", [LONG, "openrouter/ours", "azure/ours", "openai/gpt-5-mini"])
    def test_goes_under_the_name_that_the_server_wants(
        self, hostile: HostileServer, desk: Desk, model: str
    ) -> None:
        sent = COMPLETION if "gpt-5" in model else "max_tokens"
        other = "max_tokens" if sent == COMPLETION else COMPLETION
        hostile.fail(400, message=f"Unsupported parameter: '{sent}'. Use '{other}' instead.")
        hostile.say("A line")
        params = "api_version: 2025-04-01-preview" if "azure" in model else ""
        played = asked(desk, hostile, "tokens: 90000", MODEL=model, PARAMS=params)
        assert played.outcome == "done"
        [first, second] = (request.body for request in hostile.requests())
        assert (first[sent], second[other]) == (16_384, 16_384)
        assert sent not in second

    @pytest.mark.parametrize(
        ("said", "calls"),
        [("max_tokens is at most 4096, not 16384", 2), ("max_tokens is not valid", 1)],
    )
    def test_is_not_blamed_on_the_machine_if_the_server_never_takes_it(
        self, hostile: HostileServer, desk: Desk, said: str, calls: int
    ) -> None:
        hostile.fail(400, times=calls, message=said, code="context_length_exceeded")
        [suspended] = asked(desk, hostile).of(Suspended)
        assert len(hostile.requests()) == calls
        assert suspended.reason == "fatal"
        assert "that loopkit asks for where a limit is set" in suspended.message
        assert "--param writer.max_tokens=N" in suspended.message

    def test_of_the_machine_s_own_is_the_machine_s(
        self, hostile: HostileServer, desk: Desk
    ) -> None:
        hostile.fail(400, message="max_tokens must be in [1, 40]")
        [suspended] = asked(desk, hostile, PARAMS="max_tokens: 50").of(Suspended)
        assert len(hostile.requests()) == 1
        assert suspended.message.endswith("check `model:` and `params:` of the agent")


def _told(remedy: str) -> dict[str, dict[str, Any]]:
    """The options that a line to go on with names."""
    words = shlex.split(remedy.partition("raise it: ")[2])
    name, _, value = words[words.index("--param") + 1].partition("=")
    agent, _, option = name.partition(".")
    return {agent: {option: int(value)}}


@pytest.mark.parametrize(
    ("params", "budget"),
    [
        ({}, 0),
        ({"thinking": {"type": "enabled", "budget_tokens": 4_000}}, 4_000),
        ({"thinking": {"type": "adaptive"}}, 0),
        ({"extra_body": {"thinking": {"budget_tokens": 300}}}, 300),
        ({"thinkingConfig": {"thinkingBudget": -1}}, 0),
        ({"thinkingConfig": {"thinkingBudget": 512}}, 512),
        ({"reasoning": {"max_tokens": 2_000}}, 2_000),
        ({"reasoning_effort": "high"}, 4_096),
        ({"reasoning_effort": {"effort": "low", "summary": "auto"}}, 1_024),
        ({"reasoning_effort": "none"}, 0),
    ],
)
def test_thoughts_come_on_top(params: dict[str, Any], budget: int) -> None:
    agent = ModelAgent(model=(CLAUDE,), params=params)
    assert thinking_budget(params) == budget
    caps = answer_caps(agent, CLAUDE)
    assert caps is not None
    assert (caps.usual, caps.least) == (budget + 16_384, budget + 1_024)


def test_a_long_prompt_leaves_less_of_the_window_to_the_answer() -> None:
    agent = ModelAgent(model=("openai/gpt-4",))
    caps = answer_caps(agent, "openai/gpt-4", 2_000 * 5 + 16)
    assert caps is not None
    assert caps.usual == 8_192 - (2_000 * 5 + 16) // 2
    caps = answer_caps(agent, "openai/gpt-4", 9_000 * 5 + 16)
    assert caps is not None
    assert (caps.usual, caps.least) == (1_024, 1_024)


def test_litellm_takes_the_cap_for_every_model_that_gets_one(litellm: Any) -> None:
    """Over its whole table; what it refuses is said not to take one, and nothing else is."""
    refused = set()
    for key, entry in _table().items():
        provider = str(entry.get("litellm_provider", ""))
        if entry.get("mode") not in ("chat", "completion", "responses") or "copilot" in provider:
            continue
        model = key.removeprefix(f"{provider}/")
        try:
            sent = litellm.utils.get_optional_params(
                model=model, custom_llm_provider=provider, max_tokens=16_384
            )
        except litellm.UnsupportedParamsError:
            refused.add(provider)
            continue
        except Exception:  # noqa: BLE001 - a provider that LiteLLM does not call by this name
            continue
        assert "16384" in json.dumps(sent, default=str), key
    # An older version takes it for some of them.
    assert {"v0", "morph"} <= refused <= set(TAKES_NO_CAP)
