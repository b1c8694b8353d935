"""Whole machines over real HTTP: who pays for a failure, how often it is asked, what it costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from loopkit.agents.port import NotRunnable
from loopkit.engine.events import Failed, Finished, Intended, Replied, Suspended
from tests.providers.conftest import KEY_VARIABLE
from tests.providers.hostile import Answer, HostileServer, json_answer
from tests.providers.openai_mock import OpenAIMock
from tests.providers.server import ModelServer
from tests.support import Desk, Played

pytestmark = pytest.mark.usefixtures("provider_key")

LINE = """states:
  write: {agent: writer, prompt: Write a line., output: line, next: check}
  check:
    validate: line
    by: [{max_chars: 20}]
    transitions:
      - {guard: valid, target: done}
      - {revise: write}
      - {target: failed}
  done: {final: success, result: line}
  failed: {final: failure, result: line}
"""
MACHINE = (
    """
loopkit: 1
agents:
  writer:
    model: MODEL
    base_url: URL
    api_key_env: VARIABLE
    params: {max_tokens: 50}
    timeout: 20s
    retry: {attempts: 3, backoff: 20ms, max_backoff: 2s}
"""
    + LINE
)


def machine(server: ModelServer | str, model: str = OpenAIMock.model, **replaced: str) -> str:
    """A loop whose author is asked at a server."""
    url, model = (server, model) if isinstance(server, str) else (server.base_url, server.model)
    text = MACHINE.replace("MODEL", model).replace("URL", url).replace("VARIABLE", KEY_VARIABLE)
    for old, new in replaced.items():
        assert f"{old}: " in text
        text = "\n".join(
            f"{line.partition(old)[0]}{old}: {new}" if line.strip().startswith(f"{old}:") else line
            for line in text.splitlines()
        )
    return text


def suspension(played: Played) -> Suspended:
    assert not played.of(Finished)
    return played.of(Suspended)[-1]


def attempts_of_the_author(played: Played) -> int:
    return len({intended.visit for intended in played.of(Intended)})


class TestARunThatGoesOn:
    def test_a_reply_that_fails_is_revised_with_what_was_found(
        self, provider: ModelServer, desk: Desk
    ) -> None:
        provider.say("This line is much longer than it may be.", "A short line")
        played = desk.play(machine(provider))
        assert played.result["line"] == "A short line"
        assert played.outcome == "done"
        first, second = provider.requests()
        assert first.prompt.startswith("Write a line.")
        assert "at most 20" in second.prompt

    def test_a_rate_limit_is_waited_for_and_costs_the_author_nothing(
        self, provider: ModelServer, desk: Desk
    ) -> None:
        provider.fail(429, retry_after=1)
        provider.say("A short line")
        started = time.monotonic()
        played = desk.play(machine(provider))
        assert time.monotonic() - started >= 1.0
        assert (played.outcome, attempts_of_the_author(played)) == ("done", 1)
        assert len(provider.requests()) == 2
        (failed,) = played.of(Failed)
        assert (failed.error_class, failed.usage.cost_usd, failed.usage.tokens) == (
            "transient", 0.0, 0,
        )  # fmt: skip
        assert failed.usage.agent_calls == 1

    def test_a_cut_off_reply_is_a_finding_that_the_author_pays_for(
        self, provider: ModelServer, desk: Desk
    ) -> None:
        provider.say("A short", finish="length")
        provider.say("A short line")
        played = desk.play(machine(provider))
        assert (played.outcome, attempts_of_the_author(played)) == ("done", 2)
        assert len(provider.requests()) == 2
        assert [report.verdict for report in played.reports] == ["fail", "pass"]
        assert played.reports[0].findings[0].code == "cut-off"
        assert not played.of(Failed)

    def test_a_reply_without_choices_is_a_finding_that_the_author_pays_for(
        self, hostile: HostileServer, desk: Desk
    ) -> None:
        hostile.queue(json_answer({"id": "1", "model": "m", "choices": []}))
        hostile.say("A short line")
        played = desk.play(machine(hostile))
        assert (played.outcome, attempts_of_the_author(played)) == ("done", 2)
        assert len(hostile.requests()) == 2

    @pytest.mark.parametrize(
        "answer",
        [Answer(b'{"choices": [{'), Answer(lost=b""), Answer(b"{}", 504)],
        ids=["broken JSON", "a lost connection", "a gateway's timeout"],
    )
    def test_what_may_have_been_billed_stays_charged_at_its_reservation(
        self, hostile: HostileServer, desk: Desk, answer: Answer
    ) -> None:
        hostile.queue(answer)
        hostile.say("A short line")
        played = desk.play(machine(hostile))
        assert (played.outcome, attempts_of_the_author(played)) == ("done", 1)
        assert len(hostile.requests()) == 2
        (failed,), (intended, _) = played.of(Failed), played.of(Intended)
        assert failed.usage.cost_usd == intended.reserved.cost_usd
        assert (failed.usage.cost_usd or 0) > 0
        assert failed.usage.tokens == intended.reserved.tokens

    def test_a_hang_ends_at_the_deadline_and_stays_charged(
        self, hostile: HostileServer, desk: Desk
    ) -> None:
        """S3.16: the call is given up as transient, tried again, and costs no attempt."""
        hostile.queue(Answer(hang=True))
        hostile.say("A short line")
        played = desk.play(machine(hostile, timeout="2s"))
        assert (played.outcome, attempts_of_the_author(played)) == ("done", 1)
        assert len(hostile.requests()) == 2
        (failed,), (intended, _) = played.of(Failed), played.of(Intended)
        assert (failed.error_class, failed.message) == ("transient", "no answer within 2 s")
        assert failed.usage.cost_usd == intended.reserved.cost_usd
        assert 2 <= failed.usage.time_s < 100

    def test_what_was_answered_costs_what_the_provider_counted(
        self, hostile: HostileServer, desk: Desk
    ) -> None:
        hostile.say("A short line")
        (replied,) = desk.play(machine(hostile)).of(Replied)
        # gpt-4o-mini: 0.15 USD for a million tokens in, 0.60 for a million out.
        assert replied.usage.tokens == 30
        assert replied.usage.cost_usd == pytest.approx((20 * 0.15 + 10 * 0.60) / 1e6)

    def test_the_server_finds_no_fault_in_the_client(
        self, openai_server: OpenAIMock, desk: Desk
    ) -> None:
        openai_server.fail(429, retry_after=0.3)
        openai_server.fail(500, retry_after=0.2)
        openai_server.say("This line is much longer than it may be.")
        openai_server.say("A short line")
        assert desk.play(machine(openai_server)).outcome == "done"
        verdict = openai_server.verdict()
        assert (verdict["passed"], verdict["findings"]) == (True, [])
        assert (verdict["attempts"], verdict["calls"]) == (4, 2)


@dataclass(frozen=True)
class Stop:
    """What a server does, and how the run is suspended by it."""

    queue: Callable[[ModelServer], None]
    reason: str
    requests: int
    message: str


STOPS = {
    "a provider that is down": Stop(
        lambda s: s.fail(500, times=3, retry_after=0), "transient", 3,
        "the provider failed (500): it went wrong (3 tries)",
    ),
    "a refused key": Stop(lambda s: s.fail(401), "fatal", 1, "the API key was refused (401)"),
}  # fmt: skip


class TestARunThatIsSuspended:
    @pytest.mark.parametrize("name", STOPS)
    def test_what_the_author_can_not_mend_suspends_the_run(
        self, provider: ModelServer, desk: Desk, name: str
    ) -> None:
        stop = STOPS[name]
        stop.queue(provider)
        played = desk.play(machine(provider))
        suspended = suspension(played)
        assert (suspended.reason, suspended.state) == (stop.reason, "write")
        assert stop.message in suspended.message
        assert len(provider.requests()) == stop.requests
        assert [failed.usage.cost_usd for failed in played.of(Failed)] == [0.0] * stop.requests
        assert attempts_of_the_author(played) == 1

    def test_a_withheld_reply_suspends_the_run_and_is_paid(
        self, provider: ModelServer, desk: Desk
    ) -> None:
        withheld = "refusal" if provider.model.startswith("anthropic/") else "content_filter"
        provider.say("I", finish=withheld)
        played = desk.play(machine(provider))
        assert suspension(played).reason == "fatal"
        assert len(provider.requests()) == 1
        (failed,) = played.of(Failed)
        assert (failed.usage.cost_usd or 0) > 0

    def test_a_used_up_quota_suspends_until_the_provider_says(
        self, openai_server: OpenAIMock, desk: Desk
    ) -> None:
        openai_server.fail(429, code="insufficient_quota", retry_after=3600)
        suspended = suspension(desk.play(machine(openai_server)))
        assert suspended.reason == "fatal"
        assert suspended.resume_at == pytest.approx(time.time() + 3600, abs=30)
        assert len(openai_server.requests()) == 1

    def test_a_server_that_is_not_there_is_tried_and_costs_nothing(self, desk: Desk) -> None:
        played = desk.play(machine("http://127.0.0.1:1/v1"))
        suspended = suspension(played)
        assert suspended.reason == "transient"
        assert "nothing answers at http://127.0.0.1:1: is the server running?" in suspended.message
        assert [failed.usage.cost_usd for failed in played.of(Failed)] == [0.0] * 3

    def test_without_a_key_nothing_is_sent(
        self, provider: ModelServer, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv(KEY_VARIABLE)
        with pytest.raises(NotRunnable, match=KEY_VARIABLE):
            desk.play(machine(provider))
        assert provider.requests() == []

    def test_resuming_asks_again(self, provider: ModelServer, durable: Desk) -> None:
        provider.fail(401)
        played = durable.play(machine(provider))
        assert suspension(played).reason == "fatal"
        provider.say("A short line")
        assert durable.resume(played.state.run).outcome == "done"
        assert len(provider.requests()) == 2
