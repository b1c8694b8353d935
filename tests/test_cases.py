"""Cases of scenario files: what is played, what is expected, and how a failure is told."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from loopkit.document.problems import ProblemsFound
from loopkit.engine.events import Suspended
from loopkit.outside.processes import run_command
from loopkit.testing import CaseResult, Failure, Suite, load_suite, play, run_case
from tests.support import ROOT, Desk, scenario

MACHINE = """
loopkit: 1
input: {subject: str, rounds: {type: int, default: 2, minimum: 0, maximum: 5}}
limits: {revisions: input.rounds}
agents:
  writer: {model: openai/gpt-5-mini, timeout: 60s, retry: {attempts: 3}}
  critic: {model: openai/gpt-5}
  clerk: {model: openai/gpt-5}
validators:
  quality: {judge: critic, rubric: [It says what to do.]}
  build: {command: [make, check]}
states:
  draft: {agent: writer, prompt: "Write about {{ input.subject }}.", output: plan, next: tests}
  tests: {run: [make, test], output: log, next: check}
  check:
    validate: plan
    by: [{min_chars: 12, code: short}, build, quality]
    transitions:
      - {guard: valid, target: approval}
      - {guard: cap_reached, target: dropped}
      - {revise: draft, emit: sent_back}
  approval:
    human: "Start {{ input.subject }}?"
    choices: [start, change, ask, drop]
    timeout: 2h
    otherwise: drop
    transitions:
      - {guard: choice == "start", target: started}
      - {guard: choice == "change", revise: draft, feedback: "Change: {{ comment }}"}
      - {guard: choice == "ask", target: counted}
      - {target: dropped, emit: given_up}
  counted:
    agent: clerk
    prompt: "Count: {{ plan }}"
    output: numbers
    on_error: {fatal: dropped, content: dropped}
    next: started
  started: {final: success, result: plan}
  dropped: {final: failure}
"""
SHARED = """
scenario: 1
machine: machine.yaml
input: {subject: tea}
commands:
  tests: [{stdout: 3 passed}, {stdout: 3 passed}, {stdout: 3 passed}]
  build: [{stdout: built}, {stdout: built}, {stdout: built}]
"""
REVISED = """
agents:
  writer: [Too short, {reply: A plan for tea., cost_usd: 0.25}]
  critic:
    - data: {verdict: warn, findings: [{message: Which tea?, severity: warning, code: vague}]}
  clerk: [{data: {cups: 2}}]
answers:
  approval: [ask]
"""
"""A case that takes two rounds and ends in `started`."""
HOLDS = """
outcome: started
path: [draft, tests, check, draft, …, approval, counted, started]
verdicts: {check: [fail, warn]}
findings:
  - {state: check, attempt: 1, code: short, severity: error, status: new, message: 9 characters}
  - {attempt: 2, validator: quality, count: 1}
feedback: [{to: draft, attempt: 2, contains: 9 characters, lacks: tea}]
prompts:
  - {agent: writer, attempt: 2, contains: [about tea, Earlier answers]}
  - {validator: quality, attempt: 2, contains: A plan for tea.}
revisions: {draft: 1, 'check[2]': 1}
calls: {writer: 2, critic: 1, clerk: 1}
calls_at_most: {writer: 2}
cost_usd_at_most: 0.25
events: [sent_back]
artifacts:
  plan: {equals: A plan for tea., contains: tea, lacks: coffee}
  log: {contains: passed}
"""


def indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in dedent(text).strip("\n").splitlines())


def case(name: str, expect: str | None, parts: str = REVISED) -> str:
    """The YAML of a case; without `expect` the key is missing."""
    written = f"    expect:\n{indented(expect, 6)}" if expect is not None else ""
    return f"  {name}:\n{indented(parts, 4)}{written}"


def suite_of(desk: Desk, *cases: str, machine: str = MACHINE, shared: str = SHARED) -> Suite:
    desk.write("machine.yaml", machine)
    text = f"{shared.strip()}\ncases:\n{''.join(cases)}"
    return load_suite(desk.write("plan.scenario.yaml", text))


def result_of(desk: Desk, expect: str | None, parts: str = REVISED, **files: str) -> CaseResult:
    return run_case(suite_of(desk, case("one", expect, parts), **files), "one")


def line_of(failure: Failure, result: CaseResult) -> str:
    """The line of the file that a failure names."""
    span = failure.problem.span
    return result.sources[span.file].splitlines()[span.line - 1].strip()


def problems_of(desk: Desk, *cases: str, shared: str = SHARED) -> list[tuple[str, str, str]]:
    """What is wrong with a file: code, the line it names, and the remedy."""
    with pytest.raises(ProblemsFound) as found:
        suite_of(desk, *cases, shared=shared)
    text = (desk.folder / "plan.scenario.yaml").read_text(encoding="utf-8").splitlines()
    return [
        (p.code, text[p.span.line - 1].strip() if p.span else "", p.help)
        for p in found.value.problems
    ]


def test_a_case_passes_where_everything_that_it_expects_is_true(desk: Desk) -> None:
    result = result_of(desk, HOLDS)
    assert result.passed, result.text


WRONG: Mapping[str, tuple[str, str]] = {
    "outcome: dropped": ("expected-outcome", "ended in `started`"),
    "outcome: waiting": ("expected-outcome", "ended in `started`"),
    "reason: fatal": ("expected-reason", "ended in `started`"),
    "says: Start": ("expected-says", "ended in `started`"),
    "path: [draft, tests, check, approval, counted, started]": ("expected-path", "+ draft"),
    "path: [draft, …, dropped]": ("expected-path", "- dropped"),
    "path: [draft, tests]": ("expected-path", "+ check"),
    "verdicts: {check: [fail, pass]}": ("expected-verdicts", "- pass"),
    "findings: [{attempt: 1, message: 8 characters}]": ("expected-findings", "9 characters"),
    "findings: [{attempt: 1, code: vague}]": ("expected-findings", "[short]"),
    "findings: [{attempt: 2, severity: error}]": ("expected-findings", "- warning [vague]"),
    "findings: [{validator: build}]": ("expected-findings", "there is none"),
    "findings: [{attempt: 2, status: recurring}]": ("expected-findings", "there is none"),
    "findings: [{attempt: 3}]": ("expected-findings", "judged no attempt 3; it judged 1, 2"),
    "findings: [{state: check, count: 3}]": ("expected-findings", "there are 2"),
    "feedback: [{to: draft, contains: tea}]": ("expected-feedback", "| - the text has 9"),
    "feedback: [{to: draft, lacks: 9 characters}]": ("expected-feedback", "contains"),
    "feedback: [{attempt: 3, lacks: x}]": ("expected-feedback", "no feedback was given"),
    "prompts: [{agent: writer, attempt: 1, contains: Too short}]": ("expected-prompts", "| Write"),
    "prompts: [{state: draft, lacks: about tea}]": ("expected-prompts", "contains 'about tea'"),
    "prompts: [{agent: critic, call: 2, lacks: x}]": ("expected-prompts", "no such call"),
    "prompts: [{agent: critic, attempt: 1, lacks: x}]": ("expected-prompts", "no such call"),
    "revisions: {draft: 2}": ("expected-revisions", "there were 1"),
    "revisions: {'approval[1]': 1}": ("expected-revisions", "there were 0"),
    "calls: {writer: 1}": ("expected-calls", "there were 2"),
    "calls_at_most: {writer: 1}": ("expected-calls-at-most", "there were 2"),
    "cost_usd_at_most: 0.2": ("expected-cost-usd-at-most", "it cost $0.2500"),
    "events: []": ("expected-events", "+ sent_back"),
    "events: [sent_back, given_up]": ("expected-events", "- given_up"),
    "artifacts: {plan: {contains: coffee}}": ("expected-artifacts", "| A plan for tea."),
    "artifacts: {plan: {lacks: tea}}": ("expected-artifacts", "contains 'tea'"),
    "artifacts: {plan: {equals: A plan.}}": ("expected-artifacts", "+A plan for tea."),
    "artifacts: {numbers: {data: {cups: 3}}}": ("expected-artifacts", '"cups"'),
}


@pytest.mark.parametrize("expect", WRONG)
def test_each_expectation_that_is_not_true_fails_at_its_line(desk: Desk, expect: str) -> None:
    code, told = WRONG[expect]
    result = result_of(desk, expect)
    assert {line_of(failure, result) for failure in result.failures} == {expect}
    assert {failure.problem.code for failure in result.failures} == {code}
    assert told in result.text


@pytest.mark.parametrize("expect", [None, "", "{}"])
def test_a_case_that_expects_nothing_fails_and_tells_what_its_run_did(
    desk: Desk, expect: str | None
) -> None:
    parts = REVISED if expect is None else f"{REVISED}\nexpect: {expect}"
    result = result_of(desk, None, parts)
    (failure,) = result.failures
    assert failure.problem.code == "expects-nothing"
    assert line_of(failure, result) == ("one:" if expect is None else f"expect: {expect}".strip())
    path = "path: [draft, tests, check, draft, tests, check, approval, counted, started]"
    assert path in result.block


APPROVED = """
agents:
  writer: [A plan for tea.]
  critic: [{data: {verdict: pass, findings: []}}]
answers:
  approval: [start]
"""


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("writer: [A plan for tea.]", "writer: [A plan for tea., Another.]", "agents"),
        ("writer: [A plan for tea.]", "writer: [[A plan for tea., Another.]]", "agents"),
        ("writer: [A plan for tea.]", "writer: {draft: [A plan for tea., Another.]}", "agents"),
        ("approval: [start]", "approval: [start, drop]", "answers"),
        ("answers:", "commands: {tests: [{}, {}]}\nanswers:", "commands"),
        ("answers:", "commands: {build: [{}, {}]}\nanswers:", "commands"),
        ("answers:", "commands: {'build': [{}]}\nanswers:", ""),
    ],
)
def test_what_a_case_prepares_and_never_uses_fails_at_its_line(
    desk: Desk, before: str, after: str, line: str
) -> None:
    result = result_of(desk, "outcome: started", APPROVED.replace(before, after))
    expected = [("unused", after.splitlines()[0])] if line else []
    assert [(f.problem.code, line_of(f, result)) for f in result.failures] == expected


def test_a_validator_of_two_states_begins_its_results_anew_in_each(desk: Desk) -> None:
    machine = MACHINE.replace("next: tests}", "next: first}").replace("  check:\n", """  first:
    validate: plan
    by: [build]
    transitions: [{guard: valid, target: tests}, {target: dropped}]
  check:
""")  # fmt: skip
    parts = APPROVED + "commands: {build: [{}, {}]}\n"
    (failure,) = result_of(desk, "outcome: started", parts, machine=machine).failures
    told = "result 2 is never used: each of `first` and `check` begins at result 1"
    assert failure.problem.message == told
    assert (
        "a validator of its own: under `validators:` write `build: &build` and"
        in failure.problem.help
    )


def test_of_a_run_that_went_another_way_only_what_it_did_is_told(desk: Desk) -> None:
    parts = APPROVED.replace("[start]", "[drop, start]")
    result = result_of(desk, "outcome: started", parts)
    assert [f.problem.code for f in result.failures] == ["expected-outcome"]


def test_what_all_cases_share_may_be_left_over(desk: Desk) -> None:
    shared = SHARED + "answers: {approval: [start, start, start]}\n"
    parts = APPROVED.replace("answers:\n  approval: [start]\n", "")
    assert result_of(desk, "outcome: started", parts, shared=shared).passed


def test_an_agent_that_a_case_does_not_play_is_named_when_it_is_asked(desk: Desk) -> None:
    parts = APPROVED.replace("  critic: [{data: {verdict: pass, findings: []}}]\n", "")
    result = result_of(desk, "outcome: started", parts)
    assert [f.problem.code for f in result.failures] == ["unprepared", "expected-outcome"]
    assert "agent `critic` at `quality`, and attempt 1 was asked for" in result.text


def test_a_call_that_is_not_played_says_why_it_was_made_and_points_at_the_reply(desk: Desk) -> None:
    for reply, why in (
        ("{data: {verdict: fail, findings: [{message: No.}]}}", 'asked again because "severity"'),
        ("{fault: rate_limit}", "tried again because it failed: 429"),
    ):
        parts = APPROVED.replace("{data: {verdict: pass, findings: []}}", reply)
        problems = [one.problem for one in result_of(desk, "outcome: started", parts).failures]
        found = next(problem for problem in problems if problem.code == "unprepared")
        assert why in found.message
        assert found.path.endswith(".agents.critic.0")


def test_a_missing_reply_fails_a_case_that_expects_where_the_error_leads(desk: Desk) -> None:
    parts = APPROVED.replace("[start]", "[ask]")
    result = result_of(desk, "outcome: dropped", parts)
    assert [f.problem.code for f in result.failures] == ["unprepared"]


def test_a_command_that_a_case_does_not_play_is_named_and_not_run(desk: Desk) -> None:
    desk.write("Makefile", "test:\n\ttouch ran\n")
    shared = SHARED.replace(
        "  tests: [{stdout: 3 passed}, {stdout: 3 passed}, {stdout: 3 passed}]\n", ""
    )
    result = result_of(desk, "outcome: started", APPROVED, shared=shared)
    assert "0 results for command `tests`" in result.text
    assert not list(desk.folder.rglob("ran"))


def test_an_answer_that_the_question_does_not_take_fails_at_its_line(desk: Desk) -> None:
    parts = APPROVED.replace("[start]", "[{choice: change, comment: More.}]")
    closed = parts.replace("agents:", "input: {rounds: 0}\nagents:")
    result = result_of(desk, "outcome: waiting", closed)
    (failure,) = result.failures
    assert (failure.problem.code, "no revisions are granted" in result.text) == ("refused", True)
    assert line_of(failure, result) == "approval: [{choice: change, comment: More.}]"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("{choice: start, after: 119m}", "started"),
        ("{choice: start, after: 2h}", "dropped"),
        ("{after: 48h}", "dropped"),
        ("{after: 1h}", "waiting"),
    ],
)
def test_the_time_that_an_answer_takes_passes_at_once(
    desk: Desk, answer: str, outcome: str
) -> None:
    result = result_of(desk, f"outcome: {outcome}", APPROVED.replace("start", answer))
    assert result.passed, result.text


@pytest.mark.parametrize(
    ("calls", "expect"),
    [
        ("[{fault: rate_limit, retry_after: 50s}, A plan for tea.]", "outcome: started"),
        ("[{fault: rate_limit, retry_after: 2h}]", "reason: transient"),
        ("[{reply: late, delay: 60s}, A plan for tea.]", "calls: {writer: 2}"),
        ("[{reply: A plan for tea., delay: 59s}]", "calls: {writer: 1}"),
        ("[{fault: timeout}, {fault: server_error}, A plan for tea.]", "calls: {writer: 3}"),
        ("[{fault: crash}, {fault: crash}, A plan for tea.]", "calls: {writer: 3}"),
        ("[{fault: timeout}, {fault: crash}, A plan for tea.]", "calls: {writer: 3}"),
    ],
)
def test_waits_retries_and_crashes_are_played_without_waiting(
    desk: Desk, calls: str, expect: str
) -> None:
    parts = APPROVED.replace("[A plan for tea.]", f"[{calls}]")
    if "transient" in expect:
        parts = f"agents: {{writer: [{calls}]}}"
    result = result_of(desk, expect, parts)
    assert result.passed, result.text
    assert result.seconds < 5


@pytest.mark.parametrize("fault", ["cut_off", "invalid_json"])
def test_an_answer_that_is_broken_goes_into_the_loop(desk: Desk, fault: str) -> None:
    machine = MACHINE.replace("timeout: 60s,", "timeout: 60s, schema: {steps: [str]},")
    machine = machine.replace("{min_chars: 12, code: short}, ", "")
    parts = APPROVED.replace("[A plan for tea.]", f"[{{fault: {fault}}}, {{data: {{steps: []}}}}]")
    expect = """
    outcome: started
    verdicts: {check: [fail, pass]}
    findings: [{attempt: 1, validator: artifact, count: 1}]
    artifacts: {plan: {data: {steps: []}}}
    """
    result = result_of(desk, expect, parts, machine=machine)
    assert result.passed, result.text


def test_an_answer_that_is_cut_off_at_a_cap_reaches_a_limit(desk: Desk) -> None:
    text = """
loopkit: 1
agents: {coder: {model: openai/gpt-5}}
states:
  write: {agent: coder, prompt: Write., output: line, on_error: {content: bad}, next: done}
  done: {final: success}
  bad: {final: failure}
"""
    (suspended,) = desk.play(text, scenario(agents={"coder": [{"fault": "capped"}]})).of(Suspended)
    assert suspended.reason == "limit"
    assert suspended.message.startswith("`max_tokens` reached")


def test_a_crash_that_must_not_be_tried_again_takes_its_edge(desk: Desk) -> None:
    machine = MACHINE.replace(
        "  clerk: {model: openai/gpt-5}", "  clerk: {model: openai/gpt-5, on_in_doubt: fail}"
    )
    parts = REVISED.replace("[{data: {cups: 2}}]", "[{fault: crash}]")
    result = result_of(desk, "outcome: dropped\ncalls: {clerk: 1}", parts, machine=machine)
    assert result.passed, result.text


def test_files_that_agents_write_lie_in_a_folder_of_the_case(desk: Desk) -> None:
    machine = MACHINE.replace("output: plan, next", "output: {name: plan, file: out/plan.md}, next")
    parts = APPROVED.replace("[A plan for tea.]", "[{files: {out/plan.md: A plan for tea.}}]")
    expect = "outcome: started\nartifacts: {plan: {equals: A plan for tea.}}"
    result = result_of(desk, expect, parts, machine=machine)
    assert result.passed, result.text
    assert not list(desk.folder.rglob("plan.md"))


def test_an_input_that_is_a_text_can_come_from_a_file(desk: Desk) -> None:
    desk.write("texts/subject.md", "green tea")
    parts = APPROVED.replace("agents:", "input: {subject: {file: texts/subject.md}}\nagents:")
    result = result_of(desk, "prompts: [{agent: writer, contains: green tea}]", parts)
    assert result.passed, result.text


UNKNOWN: Mapping[str, tuple[str, str]] = {
    "agents: {writr: [x]}": ("unknown-agent", "did you mean `writer`?"),
    "agents: {critic: {qualiti: [x]}}": ("unknown-place", "did you mean `quality`?"),
    "commands: {test: [{}]}": ("unknown-command", "did you mean `tests`?"),
    "answers: {aproval: [start]}": ("unknown-question", "did you mean `approval`?"),
    "answers: {approval: [strat]}": ("unknown-choice", "did you mean `start`?"),
    "input: {subjekt: tea}": ("unknown-input", ""),
    "input: {rounds: 9}": ("wrong-kind", ""),
    "input: {subject: {file: nowhere.md}}": ("unreadable-file", "paths start"),
    "expect: {outcome: startd}": ("unknown-outcome", "did you mean `started`?"),
    "expect: {path: [draft, chek]}": ("unknown-state", "did you mean `check`?"),
    "expect: {events: [sent_bak]}": ("unknown-event", "did you mean `sent_back`?"),
    "expect: {verdicts: {draft: [pass]}}": ("unknown-validate-state", "allowed: `check`"),
    "expect: {verdicts: {check: [passed]}}": ("unknown-value", "did you mean `pass`?"),
    "expect: {findings: [{state: draft}]}": ("unknown-validate-state", "allowed: `check`"),
    "expect: {feedback: [{to: drft, lacks: x}]}": ("unknown-addressee", "did you mean `draft`?"),
    "expect: {prompts: [{agent: me, lacks: x}]}": ("unknown-agent", "allowed: `writer`"),
    "expect: {prompts: [{agent: writer}]}": ("expects-nothing", "add `contains"),
    "expect: {revisions: {chek: 1}}": ("unknown-revised-state-or-edge", "did you mean"),
    "expect: {calls: {wrter: 1}}": ("unknown-agent", "did you mean `writer`?"),
    "expect: {artifacts: {plam: {lacks: x}}}": ("unknown-artifact", "did you mean `plan`?"),
    "expect: {outcome: started, reason: fatal}": ("reason-without-suspension", "delete it"),
    "expect: {outcom: started}": ("unknown-field", "did you mean `outcome`?"),
    "agents: {writer: [{fault: rate_limitt}]}": ("unknown-value", "did you mean `rate_limit`?"),
    "answers: {approval: [{comment: x}]}": ("no-answer", "add `choice"),
}


@pytest.mark.parametrize("part", UNKNOWN)
def test_what_a_machine_does_not_have_is_told_in_its_place(desk: Desk, part: str) -> None:
    code, remedy = UNKNOWN[part]
    ((found, line, help_text),) = problems_of(desk, case("one", None, part))
    assert (found, line) == (code, part)
    assert help_text.startswith(remedy)


def test_a_name_that_all_cases_share_is_told_once(desk: Desk) -> None:
    shared = SHARED.replace("subject: tea", "subjet: tea")
    cases = [case(name, "outcome: started", APPROVED) for name in ("one", "two")]
    codes = [code for code, _, _ in problems_of(desk, *cases, shared=shared)]
    assert codes == ["missing-field", "unknown-input", "missing-field"]


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ("machine: machine.yaml", "machine: machin.yaml", "no-machine"),
        ("machine: machine.yaml", "", "no-machine"),
        ("scenario: 1", "scenario: 2", "unknown-value"),
    ],
)
def test_a_file_that_tests_no_machine_is_told(
    desk: Desk, before: str, after: str, code: str
) -> None:
    shared = SHARED.replace(before, after)
    assert code in [found for found, _, _ in problems_of(desk, case("one", None), shared=shared)]


def test_a_file_without_cases_is_told(desk: Desk) -> None:
    with pytest.raises(ProblemsFound, match="no cases to test"):
        load_suite(desk.write("plan.scenario.yaml", "scenario: 1\n"))


@pytest.mark.parametrize("name", ["a::b", "a/b", "' a'", "'a  b'", "a[1]", "''", "x" * 101])
def test_a_name_that_no_test_runner_could_select_is_refused(desk: Desk, name: str) -> None:
    ((code, _, _),) = problems_of(desk, case(name, None, APPROVED))
    assert code == "bad-name"


def test_a_machine_with_errors_is_told_at_its_own_line(desk: Desk) -> None:
    with pytest.raises(ProblemsFound) as found:
        suite_of(desk, case("one", None), machine=MACHINE.replace("target: dropped}", "target: x}"))
    assert {p.span.file for p in found.value.problems if p.span} == {
        str(desk.folder / "machine.yaml")
    }


REGRESSIONS: Mapping[str, tuple[str, str, str]] = {
    "the approver's yes is taken for a no": (
        """- {guard: choice == "approve", target: accepted}
      - guard: choice == "revise\"""",
        """- {guard: choice == "reject", target: accepted}
      - guard: choice == "revise\"""",
        "path:",
    ),
    "the cap is looked at before the verdict": (
        "guard: valid or (incomplete and input.approver), target: approved",
        "guard: not cap_reached and (valid or incomplete), target: approved",
        "path:",
    ),
    "one revision more than the cap": (
        "- {revise: draft, max: input.max_revisions, feedback: revise_plan}",
        "- {revise: draft, feedback: revise_plan, max: 3}",
        "path:",
    ),
    "one revision less than the cap": (
        "- {revise: draft, max: input.max_revisions, feedback: revise_plan}",
        "- {revise: draft, feedback: revise_plan, max: 1}",
        "path:",
    ),
    "the feedback of the validators is lost": (
        "- {revise: draft, max: input.max_revisions, feedback: revise_plan}",
        "- {revise: draft, max: input.max_revisions, feedback: The plan is not valid.}",
        "- {to: draft, attempt: 2, contains:",
    ),
    "the template forgets the findings": (
        """    {% for finding in findings %}
    - {{ finding.message }}
    {% endfor %}
""",
        "",
        "- {to: draft, attempt: 2, contains:",
    ),
    "the approver's comment is lost": (
        "          {{ comment }}\n",
        "",
        "- {to: draft, attempt: 2, contains: [The approver asks",
    ),
    "a plan that makes no progress is sent back again": (
        "cap_reached or stalled or",
        "cap_reached or",
        "path:",
    ),
    "a plan from outside is drafted all the same": (
        "{guard: input.external_plan != none, target: import}",
        "{guard: input.external_plan == none, target: import}",
        "path:",
    ),
    "the last plan is taken instead of the best one": ("    pick: best\n", "", "plan: {contains:"),
}


@pytest.mark.parametrize("regression", REGRESSIONS)
def test_a_regression_of_plan_review_fails_a_case_that_names_the_line(
    tmp_path: Path, regression: str
) -> None:
    before, after, line = REGRESSIONS[regression]
    shutil.copytree(ROOT / "machines", tmp_path, dirs_exist_ok=True)
    machine = tmp_path / "plan_review.yaml"
    text = machine.read_text(encoding="utf-8")
    assert before in text
    machine.write_text(text.replace(before, after), encoding="utf-8")
    suite = load_suite(tmp_path / "plan_review.scenario.yaml")
    results = [run_case(suite, name) for name in suite.names]
    named = [line_of(failure, result) for result in results for failure in result.failures]
    assert any(found.startswith(line) for found in named), named


async def test_litellm_and_pytest_are_never_imported_for_a_case() -> None:
    program = f"""
import sys
from pathlib import Path
from loopkit.testing import load_suite, run_case
suite = load_suite(Path({str(ROOT / "machines/plan_review.scenario.yaml")!r}))
assert all(run_case(suite, name).passed for name in suite.names)
print(sorted({{"litellm", "pytest", "rich"}} & set(sys.modules)))
"""
    result = await run_command(
        [sys.executable, "-c", program], cwd=ROOT, env=os.environ, stdin=None, timeout_s=120
    )
    assert (result.stdout, result.stderr) == ("[]\n", "")


def test_two_plays_of_a_case_give_the_same_events(desk: Desk) -> None:
    suite = suite_of(desk, case("one", HOLDS))
    plays: list[list[Any]] = []
    for _ in range(2):
        run = play(suite, "one")
        name = run.state.run
        plays.append(
            [
                (stored.seq, stored.at, stored.event.to_json().replace(name, "run"))
                for stored in run.events[2:]
            ]
        )
    assert plays[0] == plays[1]


def test_a_question_says_which_choices_are_closed_so_that_a_larger_cap_is_noticed(desk):
    machine = """
loopkit: 1
states:
  draft: {render: A plan., output: plan, next: approval}
  approval:
    human: Take it?
    choices: [again, take]
    transitions:
      - {guard: choice == "again", revise: draft, max: 1, feedback: Again.}
      - {target: done}
  done: {final: success, result: plan}
"""
    cases = """
scenario: 1
machine: machine.yaml
cases:
  asked twice:
    answers: {approval: [again]}
    expect:
      outcome: waiting
      says: [Take it?, '`again` is closed: the one revision is used up']
"""
    desk.write("machine.yaml", machine)
    path = desk.write("machine.scenario.yaml", cases)
    assert run_case(load_suite(path), "asked twice").passed
    desk.write("machine.yaml", machine.replace("max: 1", "max: 2"))
    failed = run_case(load_suite(path), "asked twice")
    assert [failure.problem.code for failure in failed.failures] == ["expected-says"]
