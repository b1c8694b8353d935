"""What an author remembers: fresh and kept sessions, in the messages of each call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopkit.engine.events import Decided, Failed
from loopkit.views.plan.planned import fresh_session_lines
from tests.machines import loop
from tests.support import (
    PASS,
    Desk,
    Played,
    console_lines,
    fails,
    listed,
    previous,
    scenario,
)

MACHINE = loop(
    "[{judge: critic, reask: 1}]",
    {"valid": "accepted", "cap_reached": "refused"},
    '{revise: draft, feedback: "{{ findings[0].message }}"}',
    top="""
limits: {revisions: 4}
agents:
  author:
    model: some/model
    system: You plan.
    session: SESSION
    retry: {attempts: 2, backoff: 1ms}
  critic: {model: some/model}
""",
)
ROUNDS = scenario(agents={"author": ["p1", "p2", "p3", "p4"], "critic": [*map(fails, "ABC"), PASS]})


def conversations(played: Played, agent: str = "author") -> list[list[str]]:
    """The contents of all messages of each request."""
    return [[message.content for message in request.messages] for request in played.asked(agent)]


def test_a_kept_session_is_one_conversation(desk: Desk) -> None:
    played = desk.play(MACHINE.replace("SESSION", "keep"), ROUNDS)
    assert conversations(played)[3] == ["You plan.", "Write.", "p1", "A", "p2", "B", "p3", "C"]
    assert [message.role for message in played.asked("author")[3].messages] == [
        "system", "user", "assistant", "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip


def test_a_failed_try_leaves_no_turn_in_a_kept_session(desk: Desk) -> None:
    script = scenario(
        agents={"author": ["p1", [{"fault": "timeout"}, "p2"]], "critic": [fails("A"), PASS]}
    )
    played = desk.play(MACHINE.replace("SESSION", "keep"), script)
    assert conversations(played)[1:] == [["You plan.", "Write.", "p1", "A"]] * 2


def test_a_kept_session_goes_on_after_a_restart(durable: Desk) -> None:
    stopped = durable.play(MACHINE.replace("SESSION", "keep"), ROUNDS, limits={"agent_calls": 4})
    played = durable.resume(stopped.state.run, limits={"agent_calls": 20})
    assert conversations(played)[-1] == ["You plan.", "Write.", "p1", "A", "p2", "B", "p3", "C"]


def test_a_judge_remembers_nothing_but_its_own_misread_answer(desk: Desk) -> None:
    script = scenario(agents={"author": ["p1", "p2"], "critic": [["What?", fails("A")], PASS]})
    asked = conversations(desk.play(MACHINE.replace("SESSION", "keep"), script), "critic")
    assert [len(messages) for messages in asked] == [1, 3, 1]
    assert asked[1][1] == "What?"
    assert asked[1][2].startswith("Your answer could not be used: ")


def test_two_states_of_one_agent_have_a_session_each(desk: Desk) -> None:
    outline = (
        "outline: {agent: author, prompt: Outline., on_error: {content: refused}, next: draft}"
    )
    machine = MACHINE.replace("SESSION", "keep").replace("states:", f"states:\n  {outline}")
    script = scenario(agents={"author": ["o1", "p1", "p2"], "critic": [fails("A"), PASS]})
    assert conversations(desk.play(machine, script)) == [
        ["You plan.", "Outline."],
        ["You plan.", "Write."],
        ["You plan.", "Write.", "p1", "A"],
    ]


PROGRAM = loop(
    "[{min_chars: 20, message: Too short.}]",
    {"valid": "accepted", "cap_reached": "refused"},
    "{revise: draft}",
    top="""
agents:
  author: {command: [sh, -c, 'cat > "sent_$(ls | grep -c sent_)"; echo short'], session: keep}
""",
)


def test_a_program_that_names_no_session_gets_everything_each_time(desk: Desk) -> None:
    """What was said before is known to nobody; the feedback alone would mean nothing."""
    desk.play(PROGRAM)
    sent = [(desk.folder / f"sent_{n}").read_text(encoding="utf-8") for n in range(3)]
    assert sent[0] == "Write."
    assert all(text.startswith(f"Write.\n\n{previous('short')}\n\n") for text in sent[1:])
    assert [listed(text) for text in sent[1:]] == ["- Too short.", "- Too short. (not fixed yet)"]


LOST = [{"fault": "context_too_long"}, {"fault": "session_lost"}]
WHOLE = ["You plan.", f"Write.\n\n{previous('p2')}\n\nB"]


def losing(*attempts: Any) -> str:
    return scenario(agents={"author": list(attempts), "critic": [*map(fails, "ABC"), PASS]})


@pytest.mark.parametrize("fault", LOST)
@pytest.mark.parametrize("session", ["keep", "{keep: 1}", "{keep: all, if_lost: fresh}"])
def test_a_lost_session_is_begun_anew_with_the_whole_prompt(
    desk: Desk, session: str, fault: dict[str, str]
) -> None:
    """And goes on from there; no revision is spent on it."""
    machine = MACHINE.replace("SESSION", session).replace("attempts: 2", "attempts: 1")
    played = desk.play(machine, losing("p1", "p2", [fault, "p3"], "p4"))
    assert (played.outcome, played.state.usage.agent_calls) == ("accepted", 9)
    assert conversations(played)[3:] == [WHOLE, [*WHOLE, "p3", "C"]]
    assert sum(bool(decided.spends) for decided in played.of(Decided)) == 3
    [failed] = played.of(Failed)
    assert failed.begins_anew == WHOLE[1]
    assert f"{failed.message} · the next call begins a fresh session" in "\n".join(
        console_lines(played)
    )
    why = f"fresh session of author at draft, visit 3: {failed.message}"
    assert list(fresh_session_lines(played.events)) == [why]


@pytest.mark.parametrize("fault", LOST)
def test_a_fresh_session_that_fails_is_not_begun_again(desk: Desk, fault: dict[str, str]) -> None:
    played = desk.play(MACHINE.replace("SESSION", "keep"), losing("p1", [fault, fault]))
    assert [bool(failed.begins_anew) for failed in played.of(Failed)] == [True, False]
    assert played.state.status == "suspended"


def test_what_is_sent_after_a_loss_and_a_restart_is_the_same(durable: Desk) -> None:
    script = losing("p1", "p2", [LOST[0], "p3"], "p4")
    stopped = durable.play(MACHINE.replace("SESSION", "keep"), script, limits={"agent_calls": 5})
    assert len(conversations(stopped)) == 3
    played = durable.resume(stopped.state.run, limits={"agent_calls": 20})
    assert conversations(played) == [WHOLE, [*WHOLE, "p3", "C"]]


def test_a_session_that_is_lost_at_the_last_try_is_fresh_after_a_resume(durable: Desk) -> None:
    """So that no more calls are made than the plan of the machine says."""
    late = [{"fault": "timeout"}, LOST[0], "p3"]
    stopped = durable.play(MACHINE.replace("SESSION", "keep"), losing("p1", "p2", late, "p4"))
    assert stopped.state.suspended is not None
    assert stopped.state.suspended.message == stopped.of(Failed)[-1].message
    assert conversations(durable.resume(stopped.state.run))[0] == WHOLE


def test_a_lost_session_can_be_an_error_first(durable: Desk) -> None:
    machine = MACHINE.replace("SESSION", "{if_lost: fail}")
    stopped = durable.play(machine, losing("p1", "p2", [LOST[0], "p3"], "p4"))
    assert stopped.state.suspended is not None
    assert stopped.state.suspended.reason == "fatal"
    assert conversations(durable.resume(stopped.state.run))[0] == WHOLE


def test_what_tools_gave_is_not_asked_for_again_in_a_fresh_session(desk: Desk) -> None:
    tool = "tools: {look: {command: [sh, -c, 'echo x >> looks; wc -l < looks'], input: {}}}"
    machine = MACHINE.replace("SESSION", f"{{keep: 1}}\n    {tool}")
    look = {"tool_calls": [{"name": "look"}]}
    played = desk.play(machine, losing("p1", "p2", [look, LOST[0], "p3"], "p4"))
    assert played.outcome == "accepted"
    [*_, lost, again, last] = conversations(played)
    assert again == [*WHOLE, "", lost[-1]]
    assert last == [*again, "p3", "C"]
    assert (desk.folder / "looks").read_text(encoding="utf-8") == "x\n"


FORGETFUL = """
loopkit: 1
agents:
  author:
    command: [sh, -c, 'cat >> sent; echo "/$#" >> sent; . ./said.sh', sh]
    resume: ["{{ session }}"]
    reply: stream_json
    session: keep
    OPTIONS
states:
  draft: {agent: author, prompt: Write., output: post, next: check}
  check:
    validate: post
    by: [{matches: green, message: Not green.}]
    transitions: [{guard: valid, target: done}, {revise: draft, max: 3}, {target: failed}]
  done: {final: success, result: post}
  failed: {final: failure, result: post}
"""
GONE = 'if [ $# -gt 0 ]; then echo "No conversation found" >&2; exit 1; fi\n'


def answer(text: str, **parts: Any) -> str:
    record = {"type": "result", "result": text, "session_id": "s-1", **parts}
    return f"echo '{json.dumps(record)}'\n"


@pytest.mark.parametrize(
    "gone",
    [
        GONE,
        f"if [ $# -gt 0 ]; then {answer('Gone.', is_error=True)} exit 0; fi\n",
        "if [ $# -gt 0 ]; then echo not json; exit 0; fi\n",
    ],
)
def test_a_program_that_has_forgotten_its_session_gets_everything_anew(
    desk: Desk, gone: str
) -> None:
    tells = 'n=$(grep -c / sent); if [ "$n" -gt 1 ]; then\n' + answer("Tea is green.") + "else\n"
    desk.write("said.sh", f"{gone}{tells}{answer('Tea.')}fi\n")
    played = desk.play(FORGETFUL.replace("OPTIONS", "retry: {attempts: 1}"))
    assert played.outcome == "done"
    first, resumed, fresh, _ = (desk.folder / "sent").read_text(encoding="utf-8").split("/", 3)
    assert (first, resumed[:1], fresh[:1]) == ("Write.", "0", "1")
    assert listed(resumed[2:]) == "- Not green."
    assert fresh[2:].startswith(f"Write.\n\n{previous('Tea.')}\n\n")
    assert listed(fresh[2:]) == "- Not green."


@pytest.mark.parametrize(
    ("options", "tries", "status"),
    [
        ("errors: [{exit: 1, class: fatal}]", ["/0", "/1", "/0"], "finished"),
        ("errors: [{stderr: No, class: transient}]", ["/0", "/1", "/1"], "suspended"),
        ("errors: [{exit: 1, class: content}]", ["/0", "/1", "/1", "/1"], "finished"),
    ],
)
def test_the_errors_of_a_program_say_whether_a_failure_may_mean_a_lost_session(
    desk: Desk, options: str, tries: list[str], status: str
) -> None:
    """What is worth another try, or is an answer, does not."""
    retry = "retry: {attempts: 2, backoff: 1ms}"
    desk.write("sent", "")
    first = GONE + 'if grep -q / sent && [ "$(grep -c / sent)" -gt 1 ]; then\n'
    desk.write("said.sh", f"{first}{answer('Tea is green.')}else\n{answer('Tea.')}fi\n")
    played = desk.play(FORGETFUL.replace("OPTIONS", f"{options}\n    {retry}"))
    sent = (desk.folder / "sent").read_text(encoding="utf-8").splitlines()
    assert [line[-2:] for line in sent if line[-2:-1] == "/"] == tries
    assert played.state.status == status
