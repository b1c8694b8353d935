"""Commands: `run` states, `command` rules and command agents, really started."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopkit.engine.events import Failed, Replied, Worked
from loopkit.views.review import report_lines
from tests.machines import loop
from tests.support import PASS, Desk, Played, console_lines, fails, scenario

RUN = """
loopkit: 1
states:
  work:
    run: COMMAND
    OPTIONS
    transitions:
      - {guard: exit_code == 0, target: done}
      - {guard: exit_code == 3, target: three}
      - {target: other}
  done: {final: success, result: work}
  three: {final: failure, result: work}
  other: {final: failure, result: work}
"""


def run(desk: Desk, shell: str, options: str = "timeout: 20s") -> Played:
    machine = RUN.replace("COMMAND", json.dumps(["sh", "-c", shell])).replace("OPTIONS", options)
    return desk.play(machine)


@pytest.mark.parametrize(
    ("shell", "outcome", "text"),
    [
        ("echo fine", "done", "fine\n"),
        ("echo half; exit 3", "three", "half\n"),
        ("exit 1", "other", ""),
        ("kill -9 $$", "other", ""),
    ],
)
def test_the_exit_code_of_a_command_routes_and_stdout_is_the_artifact(
    desk: Desk, shell: str, outcome: str, text: str
) -> None:
    played = run(desk, shell)
    assert played.outcome == outcome
    assert played.result == {"work": text}


CAUGHT = "on_error: {transient: late, fatal: broken}"
ENDINGS = "  late: {final: failure}\n  broken: {final: failure}\n"


def test_a_command_that_cannot_start_is_fatal(desk: Desk) -> None:
    machine = RUN.replace("COMMAND", "[./no_such_program]").replace("OPTIONS", CAUGHT)
    played = desk.play(machine + ENDINGS)
    assert played.outcome == "broken"
    assert "no_such_program" in played.of(Failed)[0].message


def test_a_command_works_in_its_workspace_with_its_input(desk: Desk) -> None:
    options = 'workspace: {path: "out/a", create: true}\n    stdin: "{{ attempt }}. try"'
    played = run(desk, "cat > got; pwd", options)
    assert (desk.folder / "out/a/got").read_text(encoding="utf-8") == "1. try"
    assert played.result == {"work": f"{(desk.folder / 'out/a').resolve()}\n"}


def test_a_command_sees_only_the_variables_it_is_given(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("GIVEN", "given")
    played = run(desk, "env", "env: [GIVEN]")
    printed = played.result["work"]
    assert "GIVEN=given" in printed
    assert "PATH=" in printed
    assert "secret" not in printed


FILED = """
loopkit: 1
patterns: {failed: '^FAILED (.*)$'}
states:
  work:
    run: [sh, -c, 'SHELL']
    output: {name: log, file: report.txt, fields: {broken: {all: failed}, count: {count: failed}}}
    on_error: {content: lost}
    next: say
  say: {render: "{{ log.count }}: {{ log.broken | join(', ') }}", next: done}
  done: {final: success, result: [log, say]}
  lost: {final: failure}
"""


def test_a_command_that_does_not_write_its_file_is_a_content_fault(desk: Desk) -> None:
    assert desk.play(FILED.replace("SHELL", "echo done")).outcome == "lost"


def test_a_command_leaves_a_file_and_fields_of_it(desk: Desk) -> None:
    shell = 'printf "FAILED a\\nok b\\nFAILED c\\nFAILED a\\n" > report.txt; echo done'
    played = desk.play(FILED.replace("SHELL", shell))
    assert played.result == {"log": "FAILED a\nok b\nFAILED c\nFAILED a\n", "say": "3: a, c"}


RULE = loop(
    "[{command: COMMAND, fail_codes: [1, 2], timeout: TIMEOUT}]",
    {"valid": "accepted", "cap_reached": "refused"},
    "{revise: draft}",
    top="""
agents: {author: {command: [none]}}
limits: {revisions: 1}
""",
    state="on_error: {transient: late, fatal: broken}",
    ends="""
late: {final: failure}
broken: {final: failure}
""",
)


def ruled(desk: Desk, shell: str, timeout: str = "20s") -> Played:
    machine = RULE.replace("COMMAND", json.dumps(["sh", "-c", shell])).replace("TIMEOUT", timeout)
    return desk.play(machine, scenario(agents={"author": ["a bad plan", "a good plan"]}))


@pytest.mark.parametrize(
    ("shell", "outcome", "verdicts"),
    [
        ("cat > /dev/null", "accepted", ["pass"]),
        ("grep -q good || { echo not good; exit 1; }", "accepted", ["fail", "pass"]),
        ("echo never; exit 2", "refused", ["fail", "fail"]),
        ("exit 7", "broken", ["incomplete"]),
        ("kill -9 $$", "broken", ["incomplete"]),
    ],
)
def test_a_program_judges_by_its_exit_code_and_any_other_end_is_no_verdict(
    desk: Desk, shell: str, outcome: str, verdicts: list[str]
) -> None:
    played = ruled(desk, shell)
    assert played.outcome == outcome
    assert [report.verdict for report in played.reports] == verdicts


def test_what_a_program_prints_reaches_the_author(desk: Desk) -> None:
    played = ruled(desk, "grep -q good || { echo 'line 3: not good' >&2; exit 1; }")
    assert "line 3: not good" in played.prompts("author")[1]


def test_a_program_that_judges_too_long_is_transient(desk: Desk) -> None:
    assert ruled(desk, "sleep 30", "100ms").outcome == "late"


LOST = """
loopkit: 1
agents: {author: {command: [none]}, critic: {command: [none]}}
validators: {both: [{min_chars: 99}, RULE]}
states:
  draft: {agent: author, prompt: Write., output: plan, next: check}
  check:
    validate: plan
    by: BY
    transitions: [{guard: valid, target: done}, {revise: draft, max: 2}, {target: failed}]
  done: {final: success}
  failed: {final: failure}
"""
TOGETHER = ["[{min_chars: 99}, RULE]", "[both]"]
"""A rule that blocks and another one, in two validators and in one."""


def lost(desk: Desk, rule: str, by: str = TOGETHER[0], text: str = LOST, **agents: Any) -> Played:
    machine = text.replace("BY", by).replace("RULE", rule)
    return desk.play(machine, scenario(agents={"author": ["bad"] * 3, **agents}))


@pytest.mark.parametrize("by", TOGETHER)
@pytest.mark.parametrize("command", ["./pytset", "./pytset.sh", "env, pytset"])
def test_a_program_that_does_not_exist_ends_the_step_before_anybody_is_paid(
    desk: Desk, by: str, command: str
) -> None:
    """Also if another rule blocks, and before a judge who is always asked."""
    desk.write("pytset.sh", "not executable")
    asked = by.removesuffix("]") + ", {judge: critic, always: true}]"
    played = lost(desk, f"{{command: [{command}]}}", asked, critic=[PASS])
    assert played.state.suspended is not None
    assert played.state.suspended.reason == "fatal"
    assert "pytset" in played.state.suspended.message
    assert (len(played.prompts("author")), played.prompts("critic")) == (1, [])


@pytest.mark.parametrize(
    "way",
    [
        ("    by", "    on_error: failed\n    by"),
        ("[{g", "[{guard: incomplete, target: failed}, {g"),
    ],
)
def test_a_machine_can_say_what_becomes_of_a_program_that_does_not_exist(
    desk: Desk, way: tuple[str, str]
) -> None:
    played = lost(desk, "{command: [./pytset]}", text=LOST.replace(*way))
    assert played.route == ["draft", "check", "failed"]
    [report] = played.reports
    assert (report.verdict, report.error_class, report.findings) == ("incomplete", "fatal", ())


@pytest.mark.parametrize("by", TOGETHER)
@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("{command: [sleep, '30'], timeout: 100ms}", "took longer than 0.1 s"),
        ("{command: [sh, -c, exit 7]}", "exit code 7, which is not a verdict"),
        ("{command: [sh, -c, kill -9 $$]}", "signal 9"),
        ("{command: ['true'], parse: junit, file: out.xml}", "did not write it"),
        ("{python: 'plug:in_'}", "no tea"),
    ],
)
def test_a_validator_without_a_verdict_is_named_under_what_blocks(
    desk: Desk, by: str, rule: str, words: str
) -> None:
    desk.write("plug.py", "def in_(text, context):\n    raise OSError('no tea')\n")
    played = lost(desk, rule, by)
    assert [(each.verdict, words in each.reason) for each in played.reports] == [("fail", True)] * 3
    assert "\n".join(console_lines(played)).count(words) == 3
    assert words in "\n".join(report_lines(played.reports[-1]))


def test_a_judge_without_a_verdict_is_named_under_what_another_finds(desk: Desk) -> None:
    author = {"draft": ["bad"] * 3, "by[1]": [["It is."] * 3] * 3}
    by = "[{judge: critic}, {judge: author}]"
    played = lost(desk, "{min_chars: 1}", by, critic=[fails("A")] * 3, author=author)
    assert "by[1]: no verdict could be read" in played.reports[-1].reason


AGENT = """
loopkit: 1
agents:
  author:
    command: COMMAND
    OPTIONS
states:
  draft:
    agent: author
    prompt: |
      Write "it" with $HOME
      and a second line.
    on_error: failed
    next: done
  done: {final: success, result: draft}
  failed: {final: failure}
"""
PROMPT = 'Write "it" with $HOME\nand a second line.\n'


def agent(desk: Desk, command: list[str], options: str = "timeout: 20s") -> Played:
    machine = AGENT.replace("COMMAND", json.dumps(command)).replace("OPTIONS", options)
    return desk.play(machine)


@pytest.mark.parametrize(
    ("command", "options", "got"),
    [
        (["cat"], "timeout: 20s", PROMPT),
        (["printf", "%s", "{{ prompt }}"], "timeout: 20s", PROMPT),
        (["sh", "-c", 'printf "%s" "$1"', "sh", "{{ prompt }}"], "timeout: 20s", PROMPT),
        (["sh", "-c", 'cat; echo "-$#"', "sh", "{{ prompt }}"], "timeout: 20s", "-1\n"),
        (["sh", "-c", "cat"], 'stdin: "{{ prompt }}"', PROMPT),
        (["cat"], 'stdin: "Attempt {{ attempt }}: {{ prompt }}"', f"Attempt 1: {PROMPT}"),
    ],
)
def test_the_prompt_goes_in_unharmed_and_once(
    desk: Desk, command: list[str], options: str, got: str
) -> None:
    assert agent(desk, command, options).result == {"draft": got}


STREAM: list[Any] = [
    {"type": "system", "subtype": "init", "session_id": "s-1"},
    {"type": "assistant", "message": {"content": [{"type": "text", "text": "I look."}]}},
    {"type": "user", "message": {"content": [{"type": "tool_result", "content": "verdict: pass"}]}},
    {"type": "assistant", "message": {"content": [{"type": "text", "text": "The plan."}]}},
]
RESULT = {
    "type": "result",
    "result": "The final plan.",
    "session_id": "s-2",
    "total_cost_usd": 0.125,
    "usage": {"input_tokens": 40, "output_tokens": 2},
}


def streamed(desk: Desk, events: list[Any], exit_code: int = 0) -> Played:
    lines = ["not json", *(json.dumps(event) for event in events)]
    desk.write("stream.jsonl", "\n".join(lines) + "\n")
    command = ["sh", "-c", 'cat stream.jsonl; exit "$0"', str(exit_code)]
    return agent(desk, command, "reply: stream_json")


def test_the_reply_of_a_transcript_is_its_result_with_cost_and_session(desk: Desk) -> None:
    played = streamed(desk, [*STREAM, RESULT])
    assert played.result == {"draft": "The final plan."}
    [replied] = played.of(Replied)
    assert (replied.session, replied.usage.tokens, replied.usage.cost_usd) == ("s-2", 42, 0.125)


def pieces(*texts: str, **how: Any) -> list[dict[str, Any]]:
    return [{"type": "message", "role": "assistant", "content": t, **how} for t in texts]


TOOL, NEW = {"type": "tool_use", "tool_name": "write_file"}, {"delta": True}
END = {"type": "result", "status": "success"}


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([*STREAM, END], "The plan."),
        ([*pieces("I look.", **NEW), TOOL, *pieces("The ", "plan.", **NEW), END], "The plan."),
        ([*STREAM, *pieces("The ", id="m"), TOOL, *pieces("plan.", id="m"), END], "The plan."),
        ([*STREAM, {**RESULT, "result": {"plan": 1}}], '{"plan": 1}'),
    ],
)
def test_the_reply_of_a_transcript_whose_result_has_no_text_is_its_last_message(
    desk: Desk, events: list[Any], text: str
) -> None:
    """Whole, and never a tool's text."""
    assert streamed(desk, events).result == {"draft": text}


@pytest.mark.parametrize(
    ("events", "exit_code", "why"),
    [
        (STREAM, 0, "has no last record (`type: result`)"),
        ([{"type": "error", "error": {"message": "No key."}}], 0, ": No key."),
        ([END], 0, 'no answer can be read in the program\'s output; it printed: not json\n{"type"'),
        ([*STREAM, {**RESULT, "is_error": True}], 0, "an error: The final plan."),
        ([*STREAM, {**END, "subtype": "error_max_turns"}], 0, "an error: error_max_turns"),
        ([*STREAM, {**END, "subtype": "error_max_turns"}], 1, "code 1: error_max_turns"),
        ([*STREAM, {**END, "is_error": True, "errors": ["A.", "B."]}], 1, "code 1: A.; B."),
        ([*STREAM, {**END, "is_error": True}], 1, "code 1: it gives no reason"),
        ([*STREAM, {**END, "status": "error", "error": {"message": "429"}}], 2, "code 2: 429"),
    ],
)
def test_a_transcript_without_an_answer_is_an_error_that_says_why(
    desk: Desk, events: list[Any], exit_code: int, why: str
) -> None:
    """By its last record, and not by the last words of the conversation."""
    played = streamed(desk, events, exit_code)
    assert played.outcome == "failed"
    assert why in played.of(Failed)[0].message


def test_a_file_is_written_without_a_word(desk: Desk) -> None:
    desk.write("said", json.dumps(END))
    write = ["sh", "-c", 'cat "$0"; echo Tea. > tea.md', "said"]
    machine = AGENT.replace("on_error:", "output: {name: draft, file: tea.md}\n    on_error:")
    machine = machine.replace("COMMAND", json.dumps(write))
    assert desk.play(machine.replace("OPTIONS", "reply: stream_json")).result == {"draft": "Tea.\n"}


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -5, True, "free", None])
def test_a_cost_that_is_none_counts_as_the_price_of_a_run(desk: Desk, cost: object) -> None:
    """It must not make a limit void."""
    desk.write("stream.jsonl", json.dumps({**RESULT, "total_cost_usd": cost}))
    played = agent(desk, ["cat", "stream.jsonl"], "reply: stream_json\n    price_per_run: 0.5")
    assert played.state.usage.cost_usd == 0.5


def test_line_separators_inside_a_text_do_not_break_a_transcript(desk: Desk) -> None:
    text = "One.\u2028Two.\x0bThree.\x85"
    desk.write("stream.jsonl", json.dumps({**RESULT, "result": text}, ensure_ascii=False) + "\n")
    played = agent(desk, ["cat", "stream.jsonl"], "reply: stream_json")
    assert played.result == {"draft": text}


@pytest.mark.parametrize(
    "options", ["reply: stream_json", "reply: {json: result}", "schema: {result: str}"]
)
def test_half_a_surrogate_pair_in_a_reply_is_a_content_fault(desk: Desk, options: str) -> None:
    desk.write("out.json", json.dumps({**RESULT, "result": "odd \ud800 sign"}))
    [worked, *_] = agent(desk, ["cat", "out.json"], options).of(Worked)
    assert "has half a surrogate pair" in worked.error


@pytest.mark.parametrize(
    ("printed", "exit_code", "why"),
    [
        ({"result": "No.", "is_error": True}, 0, "the program reports an error: No."),
        ({"error": {"message": "No."}}, 1, "`sh` ended with exit code 1: No."),
        ({"response": "Tea."}, 0, 'has no field `result`; it printed: {"response": "Tea."}'),
    ],
)
def test_an_error_of_a_program_has_its_name_and_its_reason(
    desk: Desk, printed: Any, exit_code: int, why: str
) -> None:
    """And not the template of its name."""
    desk.write("out.json", json.dumps(printed))
    machine = AGENT.replace("loopkit: 1", "loopkit: 1\ninput: {program: {type: str, default: sh}}")
    command = ["{{ input.program }}", "-c", 'cat out.json; exit "$0"', str(exit_code)]
    machine = machine.replace("COMMAND", json.dumps(command))
    played = desk.play(machine.replace("OPTIONS", "reply: {json: result}"))
    assert why in played.of(Failed)[0].message


@pytest.mark.parametrize(
    ("printed", "outcome", "text"),
    [
        ({"answer": {"text": "plan"}}, "done", "plan"),
        ({"answer": {"text": {"a": 1}}}, "done", '{"a": 1}'),
        ({"answer": "plan"}, "failed", None),
        ("plan", "failed", None),
    ],
)
def test_the_reply_can_be_one_field_of_json(
    desk: Desk, printed: Any, outcome: str, text: str | None
) -> None:
    desk.write("out.json", json.dumps(printed))
    played = agent(desk, ["cat", "out.json"], "reply: {json: answer.text}")
    assert played.outcome == outcome
    assert played.result == ({} if text is None else {"draft": text})


def test_an_agent_sees_only_the_variables_it_is_given(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("MY_KEY", "given")
    printed = agent(desk, ["env"], "env: [MY_KEY]").result["draft"]
    assert "MY_KEY=given" in printed
    assert "secret" not in printed


JUDGES = loop(
    "[{judge: critic, rubric: [It is good.]}]",
    {"valid": "accepted", "cap_reached": "refused"},
    "{revise: draft}",
    top="""
agents: {author: {command: [none]}, critic: {command: [sh, critic.sh]}}
limits: {revisions: 1}
""",
)
CRITIC = r"""
if grep -q 'a good plan'; then echo '{"verdict": "pass", "findings": []}'
else echo '{"verdict": "fail", "findings": [{"message": "Bad.", "severity": "error"}]}'; fi
"""


def test_a_program_that_judges_is_asked_again_with_the_whole_question(desk: Desk) -> None:
    """It starts anew, and knows neither the plan nor what it answered."""
    again = f"cat > asked\nif grep -q 'could not be used' asked; then ({CRITIC}) < asked; fi\n"
    desk.write("critic.sh", again)
    played = desk.play(JUDGES, scenario(agents={"author": ["a good plan"]}))
    assert played.outcome == "accepted"
    first, second = played.prompts("critic")
    assert second.startswith(first.rstrip())


def test_played_commands_and_files_stand_for_real_ones(desk: Desk) -> None:
    """A scenario plays the whole machine: exit codes, output, and files that agents write."""
    machine = RUN.replace("COMMAND", "[no_such_program]").replace("OPTIONS", "timeout: 1s")
    files = {"made/a.txt": "x"}
    result = {"exit_code": 3, "stdout": "played", "files": files}
    played = desk.play(machine, scenario(commands={"work": [result]}))
    assert (played.outcome, played.result) == ("three", {"work": "played"})
    assert (desk.folder / "made/a.txt").read_text(encoding="utf-8") == "x"


def test_a_played_file_never_leaves_the_workspace(desk: Desk) -> None:
    machine = RUN.replace("COMMAND", "[no_such_program]").replace("OPTIONS", "timeout: 1s")
    result = {"files": {"../outside.txt": "x"}}
    played = desk.play(machine, scenario(commands={"work": [result]}))
    assert played.outcome is None
    assert played.state.suspended is not None
    assert not (desk.folder.parent / "outside.txt").exists()
