"""Fallbacks over real HTTP: who is asked and when, with which key, options and words, and paid."""

from __future__ import annotations

from string import Template

import pytest

from loopkit.engine.events import Failed, Held, Intended, Replied
from tests.providers.conftest import KEY_VARIABLE
from tests.providers.hostile import HostileServer
from tests.providers.openai_mock import OpenAIMock
from tests.providers.server import ModelServer, Received
from tests.providers.test_machines import LINE
from tests.support import Desk, Played

pytestmark = pytest.mark.usefixtures("provider_key")

OWN_VARIABLE = "LOOPKIT_TEST_FALLBACK_KEY"
OWN_KEY = "sk-another-key-that-nobody-may-read"
MACHINE = (
    """
loopkit: 1
limits: {cost_usd: 1}
agents:
  writer:
    model: openai/gpt-4o-mini
    base_url: $URL
    api_key_env: $KEY
    system: Be brief.
    params: {max_tokens: 50}
    price: 10
    retry: {attempts: 3, backoff: 20ms, max_backoff: 2s}
    fallbacks:
      - model: $OTHER_MODEL
        base_url: $OTHER_URL
        api_key_env: $OWN
        price: {input: 1, output: 2}
        $MORE
"""
    + LINE
)


def machine(first: ModelServer, second: ModelServer, more: str = "") -> str:
    """A loop whose author is asked at one server, and instead of it at another."""
    return written(MACHINE, first, second, MORE=more)


def written(text: str, first: ModelServer, second: ModelServer, **more: str) -> str:
    return Template(text).substitute(
        MODEL=first.model, URL=first.base_url, KEY=KEY_VARIABLE,
        OTHER_MODEL=second.model, OTHER_URL=second.base_url, OWN=OWN_VARIABLE, **more,
    )  # fmt: skip


@pytest.fixture
def first(openai_server: OpenAIMock) -> ModelServer:
    return openai_server


@pytest.fixture
def second(anthropic_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> ModelServer:
    monkeypatch.setenv(OWN_VARIABLE, OWN_KEY)
    return anthropic_server


@pytest.fixture
def own(hostile: HostileServer, monkeypatch: pytest.MonkeyPatch) -> HostileServer:
    """A server that keeps the headers, with the key among them."""
    monkeypatch.setenv(OWN_VARIABLE, OWN_KEY)
    return hostile


def asked(played: Played) -> list[tuple[str, int]]:
    return [(intent.model, intent.fallback) for intent in played.of(Intended)]


def test_a_fallback_is_asked_after_the_tries_of_the_one_before(
    first: ModelServer, second: ModelServer, desk: Desk
) -> None:
    first.fail(500, times=3, retry_after=0)
    second.say("A short line")
    played = desk.play(machine(first, second))
    assert (played.outcome, played.result["line"]) == ("done", "A short line")
    assert len(first.requests()) == 3
    assert [request.prompt for request in second.requests()] == ["Write a line."]
    assert asked(played) == [(first.model, 0)] * 3 + [(second.model, 1)]
    assert [failed.unavailable for failed in played.of(Failed)] == [False] * 3
    assert played.of(Failed)[-1].retry_at is None


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (429, "You have no quota left.", "insufficient_quota"),
        (402, "Payment required.", ""),
        (404, "The model gpt-9 does not exist.", "model_not_found"),
        (400, "The provided model identifier is invalid.", ""),
        (400, "gpt-9 is not a valid model ID", ""),
        (403, "You don't have access to the model with the specified model ID.", ""),
        (403, "Not here.", "unsupported_country_region_territory"),
        (400, "User location is not supported for the API use.", ""),
        (503, "The service is unavailable in region us-east-1.", ""),
    ],
)
def test_a_fallback_is_asked_at_once_where_the_model_is_not_to_be_had(
    first: ModelServer, second: ModelServer, desk: Desk, status: int, message: str, code: str
) -> None:
    first.fail(status, message=message, code=code)
    second.say("A short line")
    played = desk.play(machine(first, second))
    assert played.outcome == "done"
    assert (len(first.requests()), len(second.requests())) == (1, 1)
    [failed] = played.of(Failed)
    assert (failed.unavailable, failed.retry_at) == (True, None)


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (401, "Incorrect API key, or it is not available in your region.", ""),
        (400, "temperature: too hot", ""),
        (400, "`temperature` is deprecated for this model.", ""),
        (400, "This is far too long.", "context_length_exceeded"),
        (403, "You may not.", ""),
    ],
)
def test_what_is_the_fault_of_the_request_or_the_key_is_not_sent_to_a_fallback(
    first: ModelServer, second: ModelServer, desk: Desk, status: int, message: str, code: str
) -> None:
    first.fail(status, message=message, code=code)
    played = desk.play(machine(first, second))
    assert played.state.suspended is not None
    assert played.state.suspended.reason == "fatal"
    assert (len(first.requests()), len(second.requests())) == (1, 0)


@pytest.mark.parametrize(
    ("message", "asked_times"),
    [
        ("Requests per minute are used up. Try again in 0.1s.", (2, 0)),
        ("Requests per day are used up. Try again in 0.1s.", (2, 0)),
        ("Requests per day are used up. Try again in 8h.", (1, 1)),
        ("Requests per day are used up.", (1, 1)),
    ],
)
def test_a_limit_is_waited_for_unless_it_is_one_for_longer_than_anybody_waits(
    own: HostileServer, first: ModelServer, desk: Desk, message: str, asked_times: tuple[int, int]
) -> None:
    own.fail(429, message=message)
    own.say("A short line")
    first.say("A short line")
    assert desk.play(machine(own, first)).outcome == "done"
    assert (len(own.requests()), len(first.requests())) == asked_times


@pytest.mark.parametrize("status", [429, 503])
def test_a_wait_beyond_the_longest_is_not_waited_for_where_there_is_a_fallback(
    first: ModelServer, second: ModelServer, desk: Desk, status: int
) -> None:
    first.fail(status, retry_after=3600)
    second.say("A short line")
    assert desk.play(machine(first, second)).outcome == "done"
    assert len(first.requests()) == 1


def test_a_fallback_has_its_own_key_options_words_and_price(
    own: HostileServer, first: ModelServer, desk: Desk
) -> None:
    first.fail(404)
    own.say("A short line")
    more = "params: {max_tokens: 70, temperature: 0.5}\n        system: Be very brief."
    played = desk.play(machine(first, own, more))
    [request] = own.requests()
    assert request.headers["authorization"] == f"Bearer {OWN_KEY}"
    assert (request.body["max_tokens"], request.body["temperature"]) == (70, 0.5)
    assert request.texts == ["Be very brief.", "Write a line."]
    assert [text for sent in first.requests() for text in sent.texts] == [
        "Be brief.", "Write a line.",
    ]  # fmt: skip
    [replied] = played.of(Replied)
    assert replied.usage.cost_usd == pytest.approx((20 * 1 + 10 * 2) / 1e6)
    second_call = played.of(Intended)[1].reserved
    assert second_call.cost_usd == pytest.approx((second_call.tokens - 70) / 1e6 + 70 * 2 / 1e6)


def test_what_a_fallback_does_not_say_is_as_the_agent_has_it(
    own: HostileServer, first: ModelServer, desk: Desk
) -> None:
    first.fail(404)
    own.say("A short line")
    desk.play(machine(first, own))
    [request] = own.requests()
    assert request.body["max_tokens"] == 50
    assert request.texts[0] == "Be brief."


def test_a_fallback_at_the_same_provider_needs_no_more_than_its_name(
    own: HostileServer, desk: Desk
) -> None:
    own.fail(404)
    own.say("A short line")
    text = machine(own, own)
    text = (
        text[: text.index("      - model:")]
        + "      - openai/gpt-4o\n"
        + text[text.index("states") :]
    )
    played = desk.play(text.replace(KEY_VARIABLE, OWN_VARIABLE))
    assert [request.body["model"] for request in own.requests()] == ["gpt-4o-mini", "gpt-4o"]
    assert {request.headers["authorization"] for request in own.requests()} == {f"Bearer {OWN_KEY}"}
    # The list price, and not that of the agent's own model.
    reserved = played.of(Intended)[1].reserved
    assert reserved.cost_usd != pytest.approx(reserved.tokens * 10 / 1e6)


def test_a_key_is_not_sent_to_another_address_or_provider(
    own: HostileServer, first: ModelServer, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-providers-own-0123456789")
    first.fail(404)
    own.say("A short line")
    text = machine(first, own).replace(f"        api_key_env: {OWN_VARIABLE}\n", "")
    assert desk.play(text).outcome == "done"
    [request] = own.requests()
    assert request.headers["authorization"] == "Bearer sk-the-providers-own-0123456789"


def test_a_revision_asks_the_agent_itself_first_again(
    first: ModelServer, second: ModelServer, desk: Desk
) -> None:
    first.fail(404)
    second.say("This line is much longer than it may be.")
    first.say("A short line")
    played = desk.play(machine(first, second))
    assert played.outcome == "done"
    assert asked(played) == [(first.model, 0), (second.model, 1), (first.model, 0)]


JUDGED = """
loopkit: 1
agents:
  critic:
    model: $MODEL
    base_url: $URL
    api_key_env: $KEY
    params: {max_tokens: 50}
    retry: {attempts: 2, backoff: 20ms}
    structured: text
    fallbacks:
      - {model: $OTHER_MODEL, base_url: $OTHER_URL, api_key_env: $OWN, structured: text}
states:
  write: {render: A line., output: line, next: check}
  check:
    validate: line
    by: [{judge: critic, rubric: [It is short.], reask: 2}]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success, result: line}
  failed: {final: failure, result: line}
"""


def test_later_calls_of_the_task_go_on_with_the_one_that_answered(
    first: ModelServer, second: ModelServer, desk: Desk
) -> None:
    first.fail(429, code="insufficient_quota")
    second.say("I like it.")
    second.fail(500, retry_after=0)
    second.say('{"verdict": "pass", "findings": []}')
    played = desk.play(written(JUDGED, first, second))
    assert played.outcome == "done"
    assert len(first.requests()) == 1
    assert [intent.fallback for intent in played.of(Intended)] == [0, 1, 1, 1]
    last: Received = second.requests()[-1]
    assert "I like it." in last.texts


def test_where_all_are_asked_in_vain_each_says_why_and_the_first_wait_counts(
    first: ModelServer, own: HostileServer, durable: Desk
) -> None:
    first.fail(429, code="insufficient_quota", message="No money.", retry_after=3600)
    own.fail(402, message="No money either.", retry_after=60)
    stopped = durable.play(machine(first, own))
    suspended = stopped.state.suspended
    assert suspended is not None
    assert "quota or credit is used up (429): No money" in suspended.message
    assert f"fallback `{own.model}`: the account's quota or credit" in suspended.message
    at = stopped.stored[-1].at
    assert suspended.resume_at == pytest.approx(at + 60, abs=5)
    first.say("A short line")
    played = durable.resume(stopped.state.run)
    assert played.outcome == "done"
    assert asked(played) == [(first.model, 0), (own.model, 1), (first.model, 0)]


def test_a_stopped_run_goes_on_with_the_fallbacks_that_it_is_given(
    own: HostileServer, second: ModelServer, durable: Desk
) -> None:
    """And what was paid before is not asked for again."""
    with_fallbacks = machine(own, second)
    head, _, tail = with_fallbacks.partition("    fallbacks:\n")
    text = head + tail[tail.index("states:") :]
    own.say("This line is much longer than it may be.")
    own.fail(404)
    stopped = durable.play(text)
    assert stopped.state.status == "suspended"
    own.fail(404)
    second.say("A short line")
    played = durable.repair(stopped.state.run, with_fallbacks)
    assert played.outcome == "done"
    assert (len(own.requests()), len(second.requests())) == (3, 1)
    assert [number for _, number in asked(played)] == [0, 0, 0, 1]


def test_a_fallback_whose_call_does_not_fit_into_a_limit_is_not_asked(
    own: HostileServer, first: ModelServer, desk: Desk
) -> None:
    first.fail(404)
    played = desk.play(machine(first, own, "params: {max_tokens: 600000}"))
    assert played.state.suspended is not None
    assert played.state.suspended.reason == "limit"
    assert own.requests() == []


def test_a_fallback_has_tries_and_a_timeout_of_its_own(
    own: HostileServer, first: ModelServer, desk: Desk
) -> None:
    first.fail(404)
    own.fail(500, times=2, retry_after=0)
    played = desk.play(
        machine(first, own, "retry: {attempts: 2, backoff: 1ms}\n        timeout: 9s")
    )
    assert played.state.suspended is not None
    assert "(2 tries)" in played.state.suspended.message
    assert len(own.requests()) == 2
    assert [intent.deadline_s for intent in played.of(Intended)] == [600.0, 9.0, 9.0]


def test_the_failures_of_one_model_do_not_hold_off_a_fallback_at_the_same_provider(
    own: HostileServer, desk: Desk
) -> None:
    own.fail(500, times=5)
    own.say("A short line")
    text = machine(own, own).replace("attempts: 3", "attempts: 5")
    played = desk.play(text.replace(KEY_VARIABLE, OWN_VARIABLE))
    assert played.outcome == "done"
    assert len(own.requests()) == 6
    assert played.of(Held) == []
