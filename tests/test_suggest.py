"""`loopkit test --suggest`: cases for what no case covers."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from loopkit.document import read
from loopkit.outside.processes import CommandResult
from loopkit.testing import CaseResult, Machines, Tally, load_suite, run_case
from loopkit.testing.suggesting import Suggestions, as_file, empty_suite, suggest
from loopkit.testing.suggesting.samples import sample
from loopkit.text.patterns import occurrences
from tests.support import PLAN_REVIEW, ROOT, Desk
from tests.test_docs import Block, blocks, write_shown_files
from tests.test_testing import command

OK = sorted((ROOT / "tests/cases/ok").glob("*.yaml"))
CONSTANT = re.compile(r"`check` takes check\[\d\] instead of check\[\d\], whatever is said")
"""Why examples that render what they judge can't do anything else."""


async def loopkit(folder: Path, *arguments: str) -> CommandResult:
    return await command(folder, "loopkit", *arguments)


def suggested(machine: Path, **options: Any) -> Suggestions:
    return suggest(empty_suite(machine, Machines()), (), **options)


def played(found: Suggestions) -> tuple[list[CaseResult], Tally]:
    """The results of the suggestions as a scenario file beside the machine, and what they cover."""
    found.suite.path.write_text(as_file(found), encoding="utf-8")
    suite, tally = load_suite(found.suite.path), Tally()
    results = [
        run_case(suite, name, lambda run, name=name: tally.add(suite, name, run))
        for name in suite.names
    ]
    return results, tally


def missed(found: Suggestions) -> set[str]:
    """What the suggestions leave out; each of their cases fails only for expecting nothing."""
    results, tally = played(found)
    codes = [failure.problem.code for result in results for failure in result.failures]
    assert codes == ["expects-nothing"] * len(results)
    [machine] = tally.coverage().machines
    return {f"{goal.kind} {goal.name}" for goal in machine.missed}


def cases(found: Suggestions) -> dict[str, Any]:
    """The cases as the file has them."""
    plain: dict[str, Any] = read(as_file(found), "suggested").plain()["cases"]
    return plain


def one_by(found: Suggestions, goal: str) -> dict[str, Any]:
    """The case that was suggested for a goal, without what is written for people."""
    [name] = [one.name for one in found.cases if goal in [each.name for each in one.goals]]
    return {k: v for k, v in cases(found)[name].items() if k not in ("description", "expect")}


# -- whole machines ------------------------------------------------------------------------


async def test_plan_review_is_covered_from_nothing(desk: Desk) -> None:
    machine = desk.write("plan_review.yaml", PLAN_REVIEW.read_text(encoding="utf-8"))
    result = await loopkit(desk.folder, "test", "--suggest", machine.name)
    assert result.exit_code == 0
    assert result.stderr == "plan_review.scenario.yaml: 4 cases for 23 goals\n"
    assert result.stdout.count("\n    expect:\n") == 4
    desk.write("plan_review.scenario.yaml", result.stdout)
    tested = await loopkit(desk.folder, "test", "--coverage")
    assert "plan_review.yaml     9/9        12/12   2/2    100 %" in tested.stdout
    assert tested.stdout.count("error[") == tested.stdout.count("expects nothing") == 4


@pytest.mark.parametrize("path", OK, ids=lambda path: path.stem)
def test_every_transition_and_cap_of_a_sound_machine_gets_a_case(
    path: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(path.parent, tmp_path / "machines")
    found = suggested(folder / path.name)
    assert found.failed == []
    assert missed(found) == set()


@pytest.mark.parametrize("block", blocks("loopkit: 1"), ids=lambda b: f"{b.page}:{b.line}")
def test_every_machine_in_the_docs_is_covered_or_the_reason_is_told(
    block: Block, desk: Desk
) -> None:
    write_shown_files(block, desk)
    found = suggested(desk.write("shown.yaml", block.text))
    assert missed(found) == {f"{goal.kind} {goal.name}" for goal, _ in found.failed}
    assert all(CONSTANT.fullmatch(reason) for _, reason in found.failed)


def test_the_same_cases_are_suggested_each_time() -> None:
    first, second = suggested(PLAN_REVIEW), suggested(PLAN_REVIEW)
    assert as_file(first) == as_file(second)


def test_of_a_machine_that_is_too_large_the_near_goals_get_a_case() -> None:
    found = suggested(PLAN_REVIEW, most=20)
    assert found.cases
    told = {reason for _, reason in found.failed}
    assert told == {"the machine has too many configurations, and none of the nearest comes to it"}


# -- the file ------------------------------------------------------------------------------

LOOP = """
loopkit: 1
input: {topic: str, short: {type: bool, default: false}}
agents: {writer: {model: openai/gpt-5-mini, retry: {attempts: 2}}, critic: {model: openai/gpt-5}}
states:
  draft:
    agent: writer
    prompt: "{{ input.topic }}"
    output: text
    on_error: {transient: dropped, fatal: lost}
    next: check
  check:
    validate: text
    by: [{min_chars: 30}, {judge: critic, rubric: [It is kind.]}]
    transitions:
      - {guard: valid and input.short, target: noted}
      - {guard: valid, target: done}
      - {guard: stalled, target: dropped}
      - {revise: draft, max: 1}
      - {target: lost}
  done: {final: success, result: text}
  noted: {final: success, result: text}
  dropped: {final: failure}
  lost: {final: failure}
"""
SHARED = """
scenario: 1
machine: loop.yaml
input: {topic: Tea}
agents: {critic: [{data: {verdict: pass, findings: []}}]}
cases:
  good:
    agents: {writer: [{reply: {file: tea.md}}]}
    expect: {outcome: done}
"""
TEA = "Boil water, and give the tea five minutes in it."


@pytest.fixture
def loop(desk: Desk) -> Desk:
    """A machine, and a file with one case that covers a part of it."""
    desk.write("loop.yaml", LOOP)
    desk.write("loop.scenario.yaml", SHARED)
    desk.write("tea.md", TEA)
    return desk


async def test_cases_can_be_pasted_below_those_of_the_file(loop: Desk) -> None:
    """Words of the file are used first: a reply that lies in a file is named, and not copied. What
    all cases share is not said again, and what a case covers gets no other one."""
    result = await loopkit(loop.folder, "test", "--suggest")
    assert result.stdout.startswith("# loop.scenario.yaml, below `cases:`\n  ")
    assert "takes check[0]" in result.stdout
    assert "check[1]" not in result.stdout
    loop.write("loop.scenario.yaml", SHARED + result.stdout)
    noted = cases_of(loop, "check[0]")
    assert noted["agents"] == {"writer": [{"reply": {"file": "tea.md"}}]}
    assert noted["input"] == {"short": True}
    again = await loopkit(loop.folder, "test", "--suggest", "loop.yaml")
    assert (again.stdout, again.exit_code) == ("", 0)
    assert again.stderr == "loop.scenario.yaml: every goal has a case\n"


def cases_of(desk: Desk, goal: str) -> dict[str, Any]:
    """The case of the scenario file that is for a goal."""
    text = (desk.folder / "loop.scenario.yaml").read_text(encoding="utf-8")
    written: dict[str, dict[str, Any]] = read(text, "pasted").plain()["cases"]
    return next(case for case in written.values() if goal in case.get("description", ""))


async def test_all_files_of_a_machine_count_together(loop: Desk) -> None:
    first = await loopkit(loop.folder, "test", "--suggest")
    head = "\n".join(SHARED.splitlines()[:5])
    loop.write("more.scenario.yaml", f"{head}\ncases:\n{first.stdout}")
    result = await loopkit(loop.folder, "test", "--suggest")
    assert (result.stdout, result.stderr) == ("", "loop.scenario.yaml: every goal has a case\n")


async def test_what_is_not_covered_is_told_with_its_line_and_the_reason(desk: Desk) -> None:
    desk.write("fixed.yaml", FIXED)
    result = await loopkit(desk.folder, "test", "--suggest", "fixed.yaml")
    assert result.exit_code == 0
    assert (
        "fixed.yaml:7: no case for check[1] → failed (otherwise): "
        "`check` takes check[0] instead of check[1], whatever is said\n"
    ) in result.stderr
    assert "failed" not in result.stdout


FIXED = """loopkit: 1
states:
  plan: {render: A plan that never changes., next: check}
  check:
    validate: plan
    by: [{min_chars: 5}]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure}
"""


async def test_it_does_not_go_with_the_options_of_a_test(loop: Desk) -> None:
    result = await loopkit(loop.folder, "test", "--suggest", "-k", "good", "--coverage")
    assert result.exit_code == 2
    assert result.stderr == "error: `--suggest` tests nothing: leave out `-k`, `--coverage`\n"


async def test_a_machine_with_errors_is_told(desk: Desk) -> None:
    desk.write("loop.yaml", LOOP.replace("target: noted", "target: nowhere"))
    result = await loopkit(desk.folder, "test", "--suggest", "loop.yaml")
    assert (result.stdout, result.exit_code) == ("", 2)
    assert "nowhere" in result.stderr


# -- every kind of goal --------------------------------------------------------------------


@pytest.fixture
def found(desk: Desk) -> Suggestions:
    return suggested(desk.write("loop.yaml", LOOP))


def test_an_error_that_can_pass_is_played_until_no_try_is_left(found: Suggestions) -> None:
    case = one_by(found, "draft.on_error.transient")
    assert case["agents"] == {"writer": [[{"fault": "rate_limit"}, {"fault": "rate_limit"}]]}


def test_a_fatal_error_is_one_call(found: Suggestions) -> None:
    case = one_by(found, "draft.on_error.fatal")
    assert case["agents"] == {"writer": [{"fault": "authentication"}]}


def test_a_standstill_is_the_same_text_again(found: Suggestions) -> None:
    first, second = one_by(found, "check[2]")["agents"]["writer"]
    assert first == second


def test_two_attempts_differ_where_no_standstill_is_wanted(found: Suggestions) -> None:
    first, second = one_by(found, "check[4]")["agents"]["writer"]
    assert first != second


def test_a_text_of_the_file_is_not_said_twice_where_no_standstill_is_wanted(loop: Desk) -> None:
    text = SHARED.replace("{reply: {file: tea.md}}", "Too short.").replace("done", "waiting")
    found = suggest(load_suite(loop.write("loop.scenario.yaml", text)), ())
    assert one_by(found, "check[4]")["agents"]["writer"] == ["Too short.", "Suggested text 2."]


def test_an_input_is_said_where_a_guard_needs_it(found: Suggestions) -> None:
    assert one_by(found, "check[0]")["input"] == {"topic": "Suggested topic.", "short": True}


def test_nothing_is_prepared_that_is_not_used(found: Suggestions) -> None:
    results, _ = played(found)
    assert not [result for result in results if "never" in result.text]


LIMITED = """
loopkit: 1
limits: {%s, then: sorry}
agents: {writer: {model: openai/gpt-5-mini, params: {max_tokens: 9}}}
states:
  draft: {agent: writer, prompt: Write., on_error: {content: sorry}, output: text, next: done}
  done: {final: success, result: text}
  sorry: {final: failure}
"""


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("cost_usd: 2", {"agents": {"writer": [{"reserved": {"cost_usd": 3.0}}]}}),
        ("tokens: 50", {"agents": {"writer": [{"reserved": {"tokens": 51}}]}}),
        (
            "agent_calls: 9",
            {"limits": {"agent_calls": 0}, "agents": {"writer": [{"reserved": {}}]}},
        ),
    ],
)
def test_a_limit_is_reached_by_a_call_that_it_refuses(
    desk: Desk, limit: str, expected: dict[str, Any]
) -> None:
    found = suggested(desk.write("limited.yaml", LIMITED % limit))
    assert one_by(found, "limits.then") == expected
    assert missed(found) == set()


PERSON = """
loopkit: 1
agents: {writer: {model: openai/gpt-5-mini}}
states:
  draft: {agent: writer, prompt: Write., on_error: {content: web}, output: text, next: ask}
  ask:
    human: Take it?
    show: text
    choices: [take, change]
    form: {channel: web|mail, note: optional str}
    transitions:
      - {guard: choice == "take" and channel == "web", target: web}
      - {guard: choice == "take", target: mail}
      - {revise: draft, max: 1, feedback: "{{ comment }}"}
  web: {final: success}
  mail: {final: success}
"""


def test_a_person_answers_with_the_form_and_the_comment_that_are_needed(desk: Desk) -> None:
    found = suggested(desk.write("person.yaml", PERSON))
    assert missed(found) == set()
    all_answers = [case["answers"]["ask"] for case in cases(found).values() if "answers" in case]
    answers = [answer for given in all_answers for answer in given]
    assert {"choice": "take", "form": {"channel": "mail"}} in answers
    assert any("comment" in answer for answer in answers if answer["choice"] == "change")


COMMANDS = """
loopkit: 1
agents: {coder: {command: [coder]}}
states:
  code:
    agent: coder
    prompt: Write it.
    on_error: {content: late}
    output: {name: code, file: code.py}
    next: tests
  tests: {run: [make, test], output: log, on_error: {transient: late, fatal: late}, next: look}
  look:
    transitions: [{guard: tests.exit_code == 0, target: lint}, {target: failed}]
  lint:
    validate: code
    by: [{command: [linter], code: style}, {command: [types], fail_codes: [3], code: types}]
    transitions:
      - {guard: incomplete, target: late}
      - {guard: '"types" in codes', target: failed}
      - {guard: valid, target: done}
      - {revise: code, max: 1}
      - {target: failed}
  done: {final: success, result: code}
  failed: {final: failure}
  late: {final: failure}
"""


def test_commands_end_as_the_way_needs_it(desk: Desk) -> None:
    found = suggested(desk.write("commands.yaml", COMMANDS))
    assert missed(found) == set()
    assert one_by(found, "tests.on_error.transient")["commands"] == {
        "tests": [{"fault": "timeout"}]
    }
    by_types = one_by(found, "lint[1]")["commands"]["by[1]"][-1]
    assert by_types["exit_code"] == 3
    assert {"files": {"code.py": "Suggested text 1."}} in one_by(found, "lint[1]")["agents"][
        "coder"
    ]


DATA = """
loopkit: 1
agents:
  sorter:
    model: openai/gpt-5-mini
    schema: {kind: bug|question, size: {type: int, minimum: 0}, parts: [{id: str}], no: bool}
    infeasible: no
validators:
  parts: [{require: parts.count > 0}, {require: 'id != "all"', each: "parts[]", code: all}]
states:
  sort:
    agent: sorter
    prompt: "{{ schema }}"
    on_error: {content: unread}
    transitions: [{guard: kind == "bug" and size > 3, target: check}, {target: other}]
  check:
    validate: sort
    by: [parts]
    transitions:
      - {guard: valid, target: done}
      - {guard: '"all" in codes', target: other}
      - {guard: infeasible, target: unread}
      - {target: failed}
  done: {final: success}
  other: {final: success}
  unread: {final: failure}
  failed: {final: failure}
"""


def test_data_has_the_facts_and_the_faults_that_are_needed(desk: Desk) -> None:
    found = suggested(desk.write("data.yaml", DATA))
    assert missed(found) == set()
    [reply] = one_by(found, "check[1]")["agents"]["sorter"]
    assert (reply["data"]["kind"], reply["data"]["parts"]) == ("bug", [{"id": "all"}])
    assert one_by(found, "check[2]")["agents"]["sorter"][0]["data"]["no"] is True


# -- patterns ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern",
    [
        r"^### Task \d+(\.\d+)?:",
        r"^- (?:Create|Modify): `([^`]+)`",
        r"(?i)status:\s*(open|done)\b",
        r"[A-Z]{3}-\d{2,}",
        r"(\w)\1{2}",
        r"[^\s\d]+@\w+\.\w{2,3}$",
        r"a.c\S?\W",
        r"(?<=x)y",
    ],
)  # fmt: skip
def test_a_sample_is_a_text_that_the_pattern_finds(pattern: str) -> None:
    made = sample(pattern, {})
    if pattern == r"(?<=x)y":
        assert made is None
    else:
        assert made is not None
        assert list(occurrences(pattern, made))


def test_a_sample_says_what_a_group_should_be() -> None:
    assert sample(r"^Verdict: (PASS|FAIL)$", {}, verdict="FAIL") == "Verdict: FAIL"
    assert sample(r"(\d) of (?P<verdict>\w+)", {}, verdict="OK") == "1 of OK"


def test_a_pattern_may_be_named() -> None:
    assert sample("task", {"task": r"^- \[ \] \w+"}) == "- [ ] a"
