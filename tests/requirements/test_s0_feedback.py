"""S0, feedback: every line that needs no model."""

from __future__ import annotations

from typing import Any

import pytest

from tests.machines import loop
from tests.support import (
    PASS,
    Desk,
    asked_anew,
    fails,
    previous,
    scenario,
)

PREVIOUS = previous("plan 1")
LOOP = loop(
    "[quality]",
    {"valid": "accepted", "cap_reached": "exhausted"},
    "{revise: draft, feedback: revise_plan}",
    top="""
limits: {revisions: 5}
agents: {author: {command: [none], session: SESSION}, critic: {command: [none]}}
validators: {quality: {judge: critic}}
feedback:
  revise_plan: |
    ## Plan Revision Required (attempt {{ attempt + 1 }})

    Your previous plan had these structural issues:
    {% for finding in findings %}
    - {{ finding.message }}
    {% endfor %}

    Please revise the plan file to address all issues above.
""",
    draft="draft: {agent: author, prompt: PROMPT, output: plan}",
)


def prompts(
    desk: Desk, critic: list[Any], *, session: str = "fresh", prompt: str = "Write a plan."
) -> list[str]:
    """What the author was sent in each attempt."""
    machine = LOOP.replace("SESSION", session).replace("PROMPT", f'"{prompt}"')
    texts = [f"plan {number}" for number in range(1, len(critic) + 1)]
    played = desk.play(machine, scenario(agents={"author": texts, "critic": critic}))
    assert played.outcome == "accepted"
    return played.prompts("author")


REVISION = """\
## Plan Revision Required (attempt 2)

Your previous plan had these structural issues:
- No "### Task N:" headers found.
- The goal is missing.

Please revise the plan file to address all issues above."""


@pytest.mark.parametrize(
    ("prompt", "second"),
    [
        ("Write.", f"Write.\n\n{PREVIOUS}\n\n{REVISION}"),
        ("Write. Before: <{{ previous }}>", f"Write. Before: <plan 1>\n\n{REVISION}"),
        ("Write. <{{ feedback }}>", f"Write. <{REVISION}>\n\n{PREVIOUS}"),
        ("<{{ feedback }}|{{ previous }}>", f"<{REVISION}|plan 1>"),
    ],
    ids=["names-neither", "names-previous", "names-feedback", "names-both"],
)
def test_a_fresh_author_gets_the_previous_artifact_and_the_feedback_once(
    desk: Desk, prompt: str, second: str
) -> None:
    """S0.36, S0.37: where the prompt names one of them, only the other is added."""
    issues = fails('No "### Task N:" headers found.', "The goal is missing.")
    assert prompts(desk, [issues, PASS], prompt=prompt)[1] == second


def test_attempt_revision_and_cap_are_numbers_in_the_prompt(desk: Desk) -> None:
    """S0.37: attempt n of N, where the prompt states it."""
    prompt = "{{ attempt }} {{ revision }} {{ max_revisions }}|{{ feedback }}{{ previous }}"
    told = prompts(desk, [fails("a"), fails("b"), PASS], prompt=prompt)
    assert [text.partition("|")[0] for text in told] == ["1 0 0", "2 1 5", "3 2 5"]


CODER = r"""
n=$(($(cat turn 2>/dev/null || echo 0) + 1)); echo $n > turn
echo "{\"type\": \"result\", \"result\": \"turn $n: $*\", \"session_id\": \"s-$n\"}"
"""
RESUMED = """
loopkit: 1
limits: {revisions: 3}
agents:
  author:
    command: [sh, coder.sh]
    stdin: "{{ prompt }}"
    reply: stream_json
    session: SESSION
    resume: [--resume, "{{ session }}"]
states:
  draft: {agent: author, prompt: Write., output: plan, next: judge}
  judge:
    validate: plan
    by: [{matches: turn 4, message: Go on.}]
    transitions:
      - {guard: valid, target: other}
      - {revise: draft}
      - {target: other}
  other: {agent: author, prompt: Something else., output: notes, on_error: {content: done}, next: done}
  done: {final: success, result: plan}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("session", "passed"),
    [
        ("keep", [None, "s-1", "s-2", "s-3", None]),
        ("{keep: 1}", [None, "s-1", "s-2", "s-3", None]),
        ("fresh", [None, None, None, None, None]),
    ],
)
def test_a_kept_session_passes_on_the_id_of_the_turn_before(
    desk: Desk, session: str, passed: list[str | None]
) -> None:
    """S0.38: `resume` passes the previous session id, and only to the state that began it."""
    desk.write("coder.sh", CODER)
    played = desk.play(RESUMED.replace("SESSION", session))
    assert [request.session for request in played.asked("author")] == passed
    # The program got what the request says, and a kept one is told what is new alone.
    resumed = f"--resume {passed[3]}" if passed[3] else ""
    assert played.result == {"plan": f"turn 4: {resumed}"}
    first, second = played.prompts("author")[:2]
    assert first == "Write."
    assert second == asked_anew("Write.", "Go on.") or session != "fresh"
    assert second.startswith("Earlier answers" if session == "fresh" else "Revision 1 of 3")
    assert "\n- Go on." in second


SPOKEN = """
loopkit: 1
limits: {revisions: 4}
agents: {author: {model: some/model, session: SESSION}}
states:
  draft: {agent: author, prompt: Write., output: plan, next: judge}
  judge:
    validate: plan
    by: [{matches: plan 5, message: Go on.}]
    transitions: [{guard: valid, target: done}, {revise: draft}, {target: done}]
  done: {final: success, result: plan}
"""


@pytest.mark.parametrize(
    ("session", "turns"),
    [
        ("keep", [[], [1], [1, 2], [1, 2, 3], [1, 2, 3, 4]]),
        ("{keep: 2}", [[], [1], [1, 2], [1, 2, 3], [1, 3, 4]]),
        ("{keep: 1}", [[], [1], [1, 2], [1, 3], [1, 4]]),
        ("fresh", [[], [], [], [], []]),
    ],
)
def test_a_session_is_as_long_as_its_agent_says(
    durable: Desk, session: str, turns: list[list[int]]
) -> None:
    """S0.38: all turns, the one with the task and the last few, or none."""
    script = scenario(agents={"author": [f"plan {number}" for number in range(1, 6)]})
    asked = durable.play(SPOKEN.replace("SESSION", session), script).asked("author")
    for number, (request, kept) in enumerate(zip(asked, turns, strict=True), 1):
        answers = [m.content for m in request.messages if m.role == "assistant"]
        assert answers == [f"plan {earlier}" for earlier in kept]
        assert [m.role for m in request.messages] == ["user", "assistant"] * len(kept) + ["user"]
        newest = request.messages[-1].content
        is_whole = number == 1 or session == "fresh"
        assert newest.endswith("Write.") == is_whole != newest.startswith("Revision ")
        assert request.messages[0].content.endswith("Write.")


def test_feedback_names_at_most_twenty_findings_the_worst_first(desk: Desk) -> None:
    """S0.40: errors before warnings, and no more of them than the cap."""
    findings = [
        {"message": f"Defect {number}.", "severity": "error" if number > 4 else "warning"}
        for number in range(1, 31)
    ]
    critic = [{"data": {"verdict": "fail", "findings": findings}}, PASS]
    machine = LOOP.replace("SESSION", "fresh").replace("PROMPT", "Write.")
    played = desk.play(machine, scenario(agents={"author": ["a", "b"], "critic": critic}))
    told = played.prompts("author")[1]
    listed = [line for line in told.splitlines() if line.startswith("- ")]
    assert listed == [f"- Defect {number}." for number in range(5, 25)]
    # The report keeps all of them.
    sorted_ = [f"Defect {number}." for number in (*range(5, 31), *range(1, 5))]
    assert [finding.message for finding in played.reports[0].findings] == sorted_
