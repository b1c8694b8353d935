"""Runs over real HTTP, recorded, come to the same events with the network off."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from loopkit.engine.events import Failed, Replied, Suspended
from loopkit.engine.findings import finding_id
from loopkit.testing import load_suite
from tests.providers.conftest import KEY, KEY_VARIABLE
from tests.providers.hostile import Answer, HostileServer
from tests.providers.openai_mock import OpenAIMock
from tests.recording import assert_same, replayed, taped, taped_same
from tests.support import Desk, Played

LOOP = """
loopkit: 1
input: {topic: str}
agents:
  writer:
    model: openai/gpt-4o-mini
    base_url: URL
    api_key_env: VARIABLE
    params: {max_tokens: 50}
    retry: {attempts: 3, backoff: 20ms, max_backoff: 3s}
  critic:
    model: openai/gpt-4o-mini
    base_url: URL
    api_key_env: VARIABLE
    params: {max_tokens: 50}
    retry: {attempts: 2, backoff: 20ms, max_backoff: 3s}
validators:
  quality: {judge: critic, rubric: [It names a drink.]}
states:
  write: {agent: writer, prompt: "Write about {{ input.topic }}.", output: text, next: check}
  check:
    validate: text
    by: [{max_chars: 40}, quality]
    transitions: [{guard: valid, target: ask}, {revise: write, max: 3}, {target: failed}]
  ask:
    human: "Is it good? {{ text }}"
    show: [text]
    choices: [yes_it_is, change]
    transitions:
      - {guard: choice == "yes_it_is", target: done, emit: approved}
      - {revise: write, max: 1, feedback: "{{ comment }}"}
      - {target: failed}
  done: {final: success, result: text}
  failed: {final: failure, result: text}
"""
SOUND = '{"verdict": "pass", "findings": []}'
NOT_SOUND = '{"verdict": "fail", "findings": [{"message": "Which drink?", "severity": "error"}]}'
WITHOUT_NETWORK = """
import sys
from pathlib import Path
from loopkit.testing import load_suite, run_case

def refused(event, _):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind", "socket.sendto"):
        raise AssertionError(f"the replay wants the network: {event}")

sys.addaudithook(refused)
suite = load_suite(Path(sys.argv[1]))
results = [run_case(suite, name) for name in suite.names]
assert all(result.passed for result in results), [result.text for result in results]
assert "litellm" not in sys.modules
print(len(results), "replayed")
"""


def finished(argv: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)


def loop(server: OpenAIMock | HostileServer, text: str = LOOP) -> str:
    return text.replace("URL", server.base_url).replace("VARIABLE", KEY_VARIABLE)


@pytest.fixture
def run_over_http(openai_server: OpenAIMock, durable: Desk, provider_key: str) -> Played:
    """A run with a rate limit, a cut-off, a judge that is asked again, and a person's answers."""
    openai_server.fail(429, retry_after=1)
    openai_server.say("Tea is a drink that is made of lea", finish="length")
    openai_server.say("Something warm.")
    openai_server.say(NOT_SOUND)
    openai_server.say("Tea is warm.")
    openai_server.say("I find it rather good.", SOUND)
    openai_server.say("Green tea is warm.")
    openai_server.say(SOUND)
    waiting = durable.play(loop(openai_server), inputs={"topic": "tea"})
    changed = durable.answer(waiting.state.run, "change", comment="Make it green tea.")
    done = durable.answer(changed.state.run, "yes_it_is")
    assert done.outcome == "done"
    return done


class TestARunOverHttp:
    def test_comes_to_the_same_events(self, run_over_http: Played, durable: Desk) -> None:
        failed = run_over_http.of(Failed)
        replies = run_over_http.of(Replied)
        assert (len(failed), len(replies)) == (1, 8)
        assert any(reply.cut_off for reply in replies)
        assert_same(taped(durable, run_over_http), run_over_http)

    def test_is_replayed_with_the_network_off_and_without_litellm(
        self, run_over_http: Played, durable: Desk
    ) -> None:
        made = taped(durable, run_over_http)
        replay = [sys.executable, "-c", WITHOUT_NETWORK, str(made.path)]
        # A network of its own, where that is permitted, has nothing in it at all.
        apart = ["unshare", "-rn"]
        is_permitted = shutil.which("unshare") and finished([*apart, "true"]).returncode == 0
        done = finished([*apart, *replay] if is_permitted else replay)
        assert (done.returncode, done.stdout) == (0, "1 replayed\n"), done.stderr

    def test_is_written_as_a_person_would_write_it(
        self, run_over_http: Played, durable: Desk
    ) -> None:
        made = taped(durable, run_over_http, "green tea")
        case = load_suite(made.path).case("green tea")
        assert case.input == {"topic": "tea"}
        assert "fault: rate_limit" in made.path.read_text()
        assert [answer.choice for answer in case.answers["ask"]] == ["change", "yes_it_is"]
        assert case.answers["ask"][0].comment == "Make it green tea."
        expect = case.expect
        assert expect is not None
        assert expect.outcome == "done"
        assert expect.path == tuple(run_over_http.route)
        assert expect.verdicts == {"check": ("fail", "fail", "pass", "pass")}
        assert expect.revisions == {"write": 3}
        assert expect.calls == {"writer": 5, "critic": 4}
        assert expect.events == ("approved",)
        told = [piece for item in expect.feedback or () for piece in item.contains]
        assert "Which drink?" in told
        assert "Make it green tea." in told

    def test_has_no_secret_in_it(
        self, openai_server: OpenAIMock, durable: Desk, provider_key: str
    ) -> None:
        openai_server.fail(
            400, message=f"bad key {KEY} at http://me:hush@host/v1 (Bearer abcdefgh12)"
        )
        played = durable.play(loop(openai_server), inputs={"topic": f"the key {KEY}"})
        made = taped(durable, played)
        text = made.path.read_text()
        for secret in (KEY, "hush", "abcdefgh12", openai_server.base_url):
            assert secret not in text
        assert f"[{KEY_VARIABLE}]" in text
        assert not made.failure

    def test_that_times_out_costs_what_it_did(
        self, hostile: HostileServer, durable: Desk, provider_key: str
    ) -> None:
        hostile.queue(Answer(hang=True))
        hostile.say("Tea is warm.", SOUND)
        slow = loop(hostile).replace("params:", "timeout: 2s\n    params:", 1)
        played = durable.play(slow, inputs={"topic": "tea"})
        assert_same(taped(durable, played), played)
        (failed,) = played.of(Failed)
        assert (failed.usage.cost_usd or 0) > 0


class TestAJudgeThatIsAskedAboutWhatWasOpen:
    ID = finding_id("quality", "judge", "", "Which drink?")

    @pytest.fixture
    def judged(self, openai_server: OpenAIMock, durable: Desk, provider_key: str) -> Played:
        """A run whose judge names the finding anew, is asked again, and calls it open then."""
        new = '{"message": "Drink which?", "severity": "error"}'
        reworded = f'{{"verdict": "fail", "findings": [{new}]}}'
        still = f'{{"verdict": "fail", "known": {{"{self.ID}": "open"}}, "findings": []}}'
        openai_server.say("a", NOT_SOUND, "b", reworded, still, "c", SOUND)
        return durable.play(loop(openai_server), inputs={"topic": "tea"})

    def test_gets_the_open_findings_and_is_heard_by_their_ids(
        self, judged: Played, openai_server: OpenAIMock
    ) -> None:
        """S2.28: by what the server received."""
        asked = [r for r in openai_server.requests() if "Review `text`" in str(r.body)]
        assert [self.ID in received.prompt for received in asked] == [False, True, True, True]
        assert '"message": "Which drink?"' in asked[1].prompt
        schemas = [r.body["response_format"]["json_schema"]["schema"] for r in asked[:2]]
        assert "known" not in schemas[0]["properties"]
        assert schemas[1]["properties"]["known"]["required"] == [self.ID]
        assert f'"known" does not say of "{self.ID}"' in asked[2].prompt
        statuses = [[f.status for f in report.findings] for report in judged.reports]
        assert statuses == [["new"], ["recurring"], []]
        assert [len(report.resolved) for report in judged.reports] == [0, 0, 1]

    def test_is_recorded_so_that_what_could_not_be_used_is_no_use_in_the_case(
        self, judged: Played, durable: Desk
    ) -> None:
        made = taped_same(durable, judged)
        assert made.path.read_text().count("recorded: true") == 1


LIMITED = """
loopkit: 1
limits: {LIMITS}
agents:
  writer: {model: openai/gpt-4.1-mini, base_url: "URL", api_key_env: VARIABLE}
states:
  write: {agent: writer, prompt: Write a line., output: line, next: check}
  check:
    validate: line
    by: [{judge: writer, rubric: [It is a line.]}]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success, result: line}
  failed: {final: failure}
"""


@pytest.mark.usefixtures("provider_key")
@pytest.mark.parametrize(
    ("limits", "said", "ends"),
    [
        ("cost_usd: 1", [("A line", "stop"), (SOUND, "stop")], "done"),
        ("cost_usd: 1", [("A li", "length")], "limit"),
        ("cost_usd: 0.006", [("A li", "length")], "limit"),
        ("cost_usd: 1", [("A line", "stop"), ('{"verdict": "pa', "length")], "limit"),
        ("tokens: 90000, then: failed", [("A li", "length")], "failed"),
    ],
)
def test_a_run_with_capped_answers_plays_the_same(
    hostile: HostileServer, desk: Desk, limits: str, said: list[tuple[str, str]], ends: str
) -> None:
    for text, finish in said:
        hostile.say(text, finish=finish)
    played = desk.play(loop(hostile, LIMITED.replace("LIMITS", limits)))
    stopped = played.state.suspended
    assert ends == (stopped.reason if stopped else played.outcome)
    made = taped_same(desk, played)
    remedies = [event.remedy for event in replayed(made) if isinstance(event, Suspended)]
    # Nobody plays how long the answer could have been; the usual cap is meant.
    assert all("--param writer.max_tokens=32768" in remedy for remedy in remedies)


ONCE = """
loopkit: 1
agents: {writer: {AGENT, retry: {attempts: 2, backoff: 10ms}}}
states:
  write: {agent: writer, prompt: Write., on_error: {content: bad, transient: bad}, next: done}
  done: {final: success, result: write}
  bad: {final: failure}
"""
COHERE = f"model: cohere/command-r, api_key_env: {KEY_VARIABLE}"
OPENAI = f"model: openai/gpt-4o-mini, base_url: URL, api_key_env: {KEY_VARIABLE}"


@pytest.mark.parametrize(
    ("agent", "url", "calls"),
    [
        (OPENAI, "http://127.0.0.1:9/v1", 0),
        (OPENAI, "localhost:11434", 0),
        (f"{COHERE}, params: {{logit_bias: {{}}}}", "", 0),
        ("command: [./a-program-that-nobody-has]", "", 0),
        (OPENAI, "of the server", 1),
    ],
    ids=["no server", "no address", "no such parameter", "no program", "refused"],
)
@pytest.mark.usefixtures("provider_key")
def test_only_what_was_sent_is_a_call_and_is_recorded_as_one(
    durable: Desk, hostile: HostileServer, agent: str, url: str, calls: int
) -> None:
    hostile.fail(401)
    url = url.replace("of the server", hostile.base_url)
    played = durable.play(ONCE.replace("AGENT", agent).replace("URL", f"'{url}'"))
    assert played.of(Failed)
    assert played.state.usage.agent_calls == len(hostile.requests()) == calls
    made = taped_same(durable, played)
    expect = load_suite(made.path).case(made.case).expect
    assert expect is not None
    assert (expect.calls or {}).get("writer", 0) == calls
