"""S0, errors, agents and reviewers: every line that needs no model."""

from __future__ import annotations

from typing import Any

import pytest

from tests.machines import loop
from tests.support import PASS, Desk, fails, scenario

GOOD = "Long enough to be taken for a plan."
CLASSES = """
loopkit: 1
limits: {revisions: 1}
agents: {author: {command: [none], retry: {attempts: 3, backoff: 1ms}}}
states:
  prepare: {render: Ready, next: draft}
  draft:
    agent: author
    prompt: "{{ prepare }}? Write."
    output: plan
    on_error: {transient: later, fatal: stop}
    next: judge
  judge:
    validate: plan
    by: [{min_chars: 20}]
    transitions:
      - {guard: valid, target: accepted}
      - {guard: cap_reached, target: exhausted}
      - {revise: draft}
  accepted: {final: success, result: plan}
  exhausted: {final: failure}
  later: {final: failure}
  stop: {final: failure}
"""


@pytest.mark.parametrize(
    ("faults", "outcome", "calls"),
    [
        (["rate_limit", "connection"], "accepted", 3),
        (["server_error"] * 4, "later", 3),
        (["authentication"], "stop", 1),
        (["quota"], "stop", 1),
        (["context_too_long"], "stop", 1),
        (["content_policy"], "stop", 1),
    ],
)
def test_a_transient_error_alone_is_tried_again_as_often_as_its_agent_says(
    desk: Desk, faults: list[str], outcome: str, calls: int
) -> None:
    """S0.44: the same call, and the loop does not notice; what is left has a route of its own."""
    said = [*({"fault": fault} for fault in faults), GOOD]
    played = desk.play(CLASSES, scenario(agents={"author": [said]}))
    assert played.outcome == outcome
    assert played.prompts("author") == ["Ready? Write."] * calls
    assert played.state.counters == {}


def test_a_retry_runs_the_failed_state_only(durable: Desk) -> None:
    """S0.45: nothing before it is done again, neither by a retry nor by a resume."""
    machine = (
        CLASSES.replace("{transient: later, fatal: stop}", "{fatal: stop}")
        .replace("  later: {final: failure}\n", "")
        .replace(
            "{render: Ready, next: draft}",
            "{run: [sh, -c, 'echo x >> ran; echo Ready'], next: draft}",
        )
    )
    calls: list[Any] = [[*[{"fault": "connection"}] * 3, GOOD]]
    stopped = durable.play(machine, scenario(agents={"author": calls}))
    assert stopped.state.suspended is not None
    assert stopped.state.suspended.reason == "transient"
    played = durable.resume(stopped.state.run)
    assert played.outcome == "accepted"
    assert played.route.count("prepare") == 1
    assert (durable.folder / "ran").read_text(encoding="utf-8") == "x\n"


MAPPED = """
loopkit: 1
agents:
  author:
    command: [sh, -c, 'SCRIPT']
    retry: {attempts: 2, backoff: 1ms}
    errors:
      - {exit: 75, class: transient}
      - {stderr: 'rate.?limit', class: transient}
      - {stdout: 'I cannot', class: content}
      - {exit: 3, stderr: disk, class: content}
states:
  draft:
    agent: author
    prompt: Write.
    on_error: {transient: transient, content: content, fatal: fatal}
    next: accepted
  accepted: {final: success}
  transient: {final: failure}
  content: {final: failure}
  fatal: {final: failure}
"""


@pytest.mark.parametrize(
    ("script", "outcome", "calls"),
    [
        ("exit 75", "transient", 2),
        ("echo Rate-limit: rate limit >&2; exit 1", "transient", 2),
        ("echo I cannot do that", "content", 1),
        ("echo no disk >&2; exit 3", "content", 1),
        ("exit 3", "fatal", 1),
        ("echo what >&2; exit 1", "fatal", 1),
        ("kill -9 $$", "fatal", 1),
        ("echo fine", "accepted", 1),
    ],
)
def test_exit_codes_and_output_are_mapped_to_classes(
    desk: Desk, script: str, outcome: str, calls: int
) -> None:
    """S0.47: a table of exit codes and patterns; what it does not know is fatal."""
    played = desk.play(MAPPED.replace("SCRIPT", script))
    assert played.outcome == outcome
    assert len(played.prompts("author")) == calls


TWO_AGENTS = loop(
    "[{judge: critic}]",
    {"valid": "accepted"},
    "{target: refused}",
    top="""
agents:
  author:
    model: some/model
    system: You plan.
    params: {max_tokens: 8000, temperature: 0.2}
    timeout: 90s
  critic:
    command: [critic, --allowed-tools, Read]
    timeout: 10s
    workspace: {path: reviews, create: true}
""",
)


def test_every_agent_has_a_system_prompt_limits_and_a_folder_of_its_own(desk: Desk) -> None:
    """S0.49: per agent, not per run."""
    script = scenario(agents={"author": [GOOD], "critic": [PASS]})
    played = desk.play(TWO_AGENTS, script)
    [author], [critic] = played.asked("author"), played.asked("critic")
    assert [(m.role, m.content) for m in author.messages] == [
        ("system", "You plan."),
        ("user", "Write."),
    ]
    assert [message.role for message in critic.messages] == ["user"]
    assert (author.timeout_s, critic.timeout_s) == (90.0, 10.0)
    assert critic.folder == desk.folder / "reviews"
    assert author.folder == desk.folder


def silent(on_error: str = "", incomplete: str = "", ending: str = "") -> str:
    """A loop whose judge may say nothing that could be read."""
    return loop(
        "[{judge: critic, reask: 1}]",
        {"valid": "accepted", "cap_reached": "refused"},
        *([incomplete] if incomplete else []),
        "{revise: draft}",
        top="""
agents: {author: {command: [none]}, critic: {command: [none], retry: {attempts: 2, backoff: 1ms}}}
""",
        state=on_error,
        ends=ending,
    )


@pytest.mark.parametrize("said", ["", "Looks good to me!", "APPROVED", '{"verdict": "maybe"}'])
@pytest.mark.parametrize(
    ("on_error", "incomplete", "ending", "outcome"),
    [
        ("", "", "", None),
        ("on_error: broken", "", "broken: {final: failure}", "broken"),
        ("", "{guard: incomplete, target: accepted}", "", "accepted"),
        ("", "{guard: incomplete, target: refused}", "", "refused"),
    ],
    ids=["suspends", "error", "pass", "fail"],
)
def test_a_reviewer_without_a_verdict_is_asked_again_and_then_whatever_is_configured(
    desk: Desk, said: str, on_error: str, incomplete: str, ending: str, outcome: str | None
) -> None:
    """S0.51: `retry then error|fail|pass`; never a keyword guess, never approved by default."""
    script = scenario(agents={"author": [GOOD], "critic": [[said, said]]})
    played = desk.play(silent(on_error, incomplete, ending), script)
    assert len(played.prompts("critic")) == 2
    assert played.outcome == outcome
    assert played.state.counters == {}
    if outcome is None:
        assert played.state.suspended is not None
        assert "no verdict could be read" in played.state.suspended.message
    else:
        assert played.reports[0].answers[0].verdict == "unparsed"


COMMIT = loop(
    "[{min_chars: 20}]",
    {"valid": "commit"},
    "{target: refused}",
    ends="""
commit:
  run: [sh, -c, 'echo "$1" >> log; exit CODE', sh, "{{ plan }}"]
  transitions:
    - {guard: exit_code == 0, target: accepted}
    - {target: not_committed}
accepted: {final: success}
not_committed: {final: failure}
""",
)


@pytest.mark.parametrize(
    ("text", "code", "outcome", "log"),
    [
        (GOOD, 0, "accepted", f"{GOOD}\n"),
        (GOOD, 1, "not_committed", f"{GOOD}\n"),
        ("short", 0, "refused", None),
        ('$(touch evil) "; touch evil #', 0, "accepted", '$(touch evil) "; touch evil #\n'),
    ],
    ids=["accepted", "its-failure-halts", "not-accepted", "text-stays-one-argument"],
)
def test_a_command_runs_after_each_accepted_artifact(
    desk: Desk, text: str, code: int, outcome: str, log: str | None
) -> None:
    """S0.53: one commit, or any command, after acceptance; its failure halts."""
    played = desk.play(COMMIT.replace("CODE", str(code)), scenario(agents={"author": [text]}))
    assert played.outcome == outcome
    path = desk.folder / "log"
    assert (path.read_text(encoding="utf-8") if path.exists() else None) == log
    assert not (desk.folder / "evil").exists()


DELTA = loop(
    "[changes]",
    {"valid": "accepted", "cap_reached": "refused"},
    "{revise: draft}",
    top="""
agents: {author: {command: [none]}, critic: {command: [none]}}
validators:
  changes:
    judge: critic
    prompt: |
      {% if previous %}
      Before:
      {{ previous }}
      Asked for:
      {% for finding in history[-1].findings %}{{ finding.message }}{% endfor %}
      {% endif %}
      Now:
      {{ artifact }}
""",
)


def test_a_reviewer_can_be_shown_the_last_change_only(desk: Desk) -> None:
    """S0.54: the delta since the last author pass, not the whole history."""
    critic = [fails("No goal."), fails("No tests."), PASS]
    played = desk.play(
        DELTA, scenario(agents={"author": ["one", "two", "three"], "critic": critic})
    )
    # What was open stands behind it.
    asked = [prompt.partition("\nYou have judged")[0] for prompt in played.prompts("critic")]
    assert asked == [
        "Now:\none\n",
        "Before:\none\nAsked for:\nNo goal.\nNow:\ntwo\n",
        "Before:\ntwo\nAsked for:\nNo tests.\nNow:\nthree\n",
    ]
