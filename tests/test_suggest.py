"""`loopkit test --suggest`: cases for what no case covers, with what is said left to a person."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from loopkit.document import read
from loopkit.document.problems import ProblemsFound
from loopkit.document.writing import to_yaml
from loopkit.scenario import load_scenario
from loopkit.testing import CaseResult, Machines, Tally, load_suite, play, run_case
from loopkit.testing.suggesting import Suggestions, empty_suite, suggest
from tests.support import PLAN_REVIEW, ROOT, Desk, fails, warns
from tests.test_docs import Block, blocks, write_shown_files
from tests.test_testing import loopkit
from tests.warm import Process

OK = sorted((ROOT / "tests/cases/ok").glob("*.yaml"))


def suggested(machine: Path, **options: Any) -> Suggestions:
    return suggest(empty_suite(machine, Machines()), (), **options)


def cases(found: Suggestions) -> dict[str, Any]:
    """The cases as the file has them."""
    plain: dict[str, Any] = read(found.as_file, "suggested").plain()["cases"]
    return plain


def one_by(found: Suggestions, goal: str) -> dict[str, Any]:
    """The case that was suggested for a goal, without what is written for people."""
    [name] = [one.name for one in found.cases if goal in [each.name for each in one.goals]]
    return {k: v for k, v in cases(found)[name].items() if k not in ("description", "expect")}


# -- a person who does what is left to do ----------------------------------------------------


class Person:
    """Reads what each reply has to satisfy, and writes it."""

    def __init__(self, kept: Any, broken: Any = None, others: Mapping[str, Any] | None = None):
        """What keeps all rules and what breaks one, as texts or data; for pieces of a `todo` what
        answers them instead."""
        self._kept, self._broken, self._others = kept, broken, others or {}
        self._attempts = 0

    def fill(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.fill(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "todo" not in value:
            return {key: self.fill(item) for key, item in value.items()}
        known = {key: item for key, item in value.items() if key != "todo"}
        said = self._said(value["todo"])
        return {**known, **said} if isinstance(said, dict) else said

    def _said(self, todo: str) -> Any:
        for piece, said in self._others.items():
            if piece in todo:
                return said(todo) if callable(said) else said
        if "Put the input" in todo:
            return "tea"
        if "`comment:`" in todo:
            return {"comment": "Say more."}
        if "with the verdict" in todo and "the report of" in todo:
            return report(todo)
        return self._written(todo)

    def _written(self, todo: str) -> Any:
        said = self._broken if "- break one" in todo else self._kept
        self._attempts += "- the same as" not in todo
        if "Put `data:`" in todo:
            return {"data": said(todo, self._attempts) if callable(said) else said}
        text = f"{said}{self._attempts}"
        if "Put `files:` with" in todo:
            return {"files": {todo.split("`")[3]: text}}
        return {"stdout": text} if "Put `stdout:`" in todo else {"reply": text}


def report(todo: str) -> dict[str, Any]:
    """A report in our form; its words are new in each round."""
    round_ = todo.partition("in round ")[2].partition(" ")[0]
    if "verdict warn" in todo:
        return warns(f"{round_} is a bit dull.")
    return fails(f"{round_} is wrong.") if "verdict fail" in todo else PASSED


PASSED = {"data": {"verdict": "pass", "findings": []}}


def filled(found: Suggestions, person: Person) -> dict[str, Any]:
    """The scenario file with everything that was left written."""
    plain = read(found.as_file, "suggested").plain()
    return {**plain, "cases": {name: person.fill(case) for name, case in plain["cases"].items()}}


def played(found: Suggestions, person: Person) -> tuple[list[CaseResult], Tally]:
    """The results of the filled file beside the machine, and what its cases cover."""
    found.suite.path.write_text(to_yaml(filled(found, person)), encoding="utf-8")
    suite, tally = load_suite(found.suite.path), Tally()
    results = [
        run_case(suite, name, lambda run, name=name: tally.add(suite, name, run))
        for name in suite.names
    ]
    return results, tally


def assert_covers(found: Suggestions, person: Person) -> None:
    """Every case passes and all goals are covered, each by the case that is for it."""
    results, tally = played(found, person)
    assert "\n\n".join(result.text for result in results if not result.passed) == ""
    [machine] = tally.coverage().machines
    assert [goal.name for goal in machine.missed] == [goal.name for goal, _ in found.failed]
    by_goal = {one.goal: one.cases for one in machine.measured}
    for case in found.cases:
        for goal in case.goals:
            assert any(one.endswith(f"::{case.name}") for one in by_goal[goal])


# -- whole machines ------------------------------------------------------------------------

GOOD_PLAN = (ROOT / "machines/plan_review/plans/3_good.md").read_text(encoding="utf-8")


def test_a_machine_without_a_case_is_covered_when_everything_left_is_written(
    desk: Desk,
) -> None:
    machine = desk.write("plan_review.yaml", PLAN_REVIEW.read_text(encoding="utf-8"))
    result = loopkit(desk.folder, "test", "--suggest", machine.name)
    assert (result.returncode, result.stderr) == (
        0, "plan_review.scenario.yaml: 4 cases for 23 goals\n",
    )  # fmt: skip
    file = desk.write("plan_review.scenario.yaml", result.stdout)
    before = loopkit(desk.folder, "test", "--coverage")
    assert before.returncode == 1
    assert "4 cases: 4 failed" in before.stderr
    assert "Traceback" not in before.stdout + before.stderr
    person = Person(
        GOOD_PLAN, "No plan at all.", {"external_plan": GOOD_PLAN, "str, optional": GOOD_PLAN}
    )
    plain = person.fill(read(result.stdout, file.name).plain())
    desk.write("plan_review.scenario.yaml", to_yaml(plain))
    after = loopkit(desk.folder, "test", "--coverage")
    assert (after.returncode, after.stderr) == (0, "4 cases passed\n")
    assert "plan_review.yaml     9/9        12/12   2/2    100 %" in after.stdout


def shapes(*nodes: str) -> Callable[[str, int], dict[str, Any]]:
    def made(todo: str, attempt: int) -> dict[str, Any]:
        many = 11 if "error_count` is 11" in todo else len(nodes)
        listed = [{"id": node, "needs": []} for node in (nodes * many)[:many]]
        if many == 1 and attempt % 2:
            listed = []
        is_impossible = "`impossible` is true" in todo
        return {"nodes": listed, "missing": [str(attempt)], "impossible": is_impossible}

    return made


def outline(todo: str, _: int) -> dict[str, Any]:
    return {"title": "Tea", "ready": "`ready` is true" in todo, "tags": []}


def mapped(todo: str) -> dict[str, Any]:
    """A report in the shape of one of the judges of `mapped_judges`."""
    fails_ = "verdict fail" in todo
    if "of `reviewer`" in todo:
        issue = {"id": "1", "category": "tests", "severity": "High", "description": "Untested.",
                 "affected_phase": "code"}  # fmt: skip
        return {"data": {"overall_assessment": "FAIL" if fails_ else "PASS",
                         "issues": [issue] if fails_ else []}}  # fmt: skip
    if "of `typed`" in todo:
        return {"data": {"valid": True, "issues": [], "severity": "none"}}
    if "of `free`" in todo:
        return {"data": {"result": {"verdict": "pass", "findings": []}}}
    return {"data": {"diagnostics": []}}


PEOPLE = {
    "command_agents": Person("Notes."),
    "counted": Person("A haiku that is long enough.", "-", {"Put the input here: int": 1}),
    "error_tables": Person(outline),
    "every_kind": Person("# Tea\n\n## Goal\n\nHot tea.", "Tea."),
    "infeasible": Person(shapes("tea", "milk"), shapes("")),
    "mapped_judges": Person("A plan.", None, {"the report of": mapped}),
    "minimal": Person("A text that is long enough for everybody, whatever it is for.", "-"),
    "person_only": Person("-"),
    "run_again": Person("Fast.", "This is slower."),
    "verdicts_that_are_read_elsewhere": Person(
        "Long enough.", "-", {"one of these, so that `look`": {"reply": "Long. " * 99}}
    ),
}


@pytest.mark.parametrize("name", PEOPLE)
def test_each_case_that_a_person_has_written_covers_what_it_is_for(
    name: str, tmp_path: Path
) -> None:
    folder = shutil.copytree(OK[0].parent, tmp_path / "machines")
    found = suggested(folder / f"{name}.yaml")
    assert found.failed == []
    assert_covers(found, PEOPLE[name])


@pytest.mark.parametrize("path", OK, ids=lambda path: path.stem)
def test_every_transition_and_cap_of_a_sound_machine_gets_a_case(path: Path) -> None:
    found = suggested(path)
    goals = [goal for case in found.cases for goal in case.goals]
    assert found.failed == []
    assert len(goals) == len(set(goals)) > 0


@pytest.mark.parametrize("block", blocks("loopkit: 1"), ids=lambda b: f"{b.page}:{b.line}")
def test_what_is_suggested_for_a_machine_in_the_docs_is_a_file_that_is_read(
    block: Block, desk: Desk
) -> None:
    write_shown_files(block, desk)
    found = suggested(desk.write("shown.yaml", block.text))
    found.suite.path.write_text(found.as_file, encoding="utf-8")
    suite = load_suite(found.suite.path)
    for name in suite.names:
        result = run_case(suite, name)
        codes = {failure.problem.code for failure in result.failures}
        assert codes <= {"todo"}, result.text


VALIDATED = """
loopkit: 1
agents:
  planner:
    model: openai/gpt-5-mini
    tools: {measure: {by: [length]}}
    require_tool: measure
    USE
validators: {length: [{min_chars: 10}], style: [{max_chars: 30}]}
states:
  plan: {agent: planner, prompt: Plan it., next: check}
  check:
    validate: plan
    by: [length, JUDGED]
    transitions: [{guard: valid, target: done}, {revise: plan, max: 1}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure}
"""


@pytest.mark.parametrize("use", ["", "tool_use: runner"])
@pytest.mark.parametrize("judged", ["", "style"])
def test_an_answer_that_a_tool_has_to_find_valid_is_suggested_with_its_call(
    desk: Desk, use: str, judged: str
) -> None:
    machine = VALIDATED.replace("USE", use).replace("JUDGED", judged)
    found = suggested(desk.write("machine.yaml", machine))
    long = "Long enough, and far too long to be a plan."

    class Validating(Person):
        def fill(self, value: Any) -> Any:
            is_attempt = isinstance(value, list) and isinstance(value[0], dict)
            if is_attempt and "tool_calls" in value[0].get("todo", ""):
                answer = self.fill(value[1])
                called = {"name": "measure", "input": {"draft": answer["reply"]}}
                return [{"tool_calls": [called]}, answer]
            return super().fill(value)

    assert_covers(found, Validating("Long enough now.", long))
    assert ("Put `tool_calls:` here: a call of `measure`" in found.as_file) == (not use)


def test_the_same_cases_are_suggested_each_time() -> None:
    first, second = suggested(PLAN_REVIEW), suggested(PLAN_REVIEW)
    assert first.as_file == second.as_file


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


WRITER = Person("Boil water, and give the tea five minutes.", "Tea.")


def test_cases_can_be_pasted_below_those_of_the_file(loop: Desk) -> None:
    """What all cases share is not said again, and what a case covers gets no other one."""
    result = loopkit(loop.folder, "test", "--suggest")
    assert result.stdout.startswith("# loop.scenario.yaml, below `cases:`\n  ")
    assert "takes check[0]" in result.stdout
    assert "check[1]" not in result.stdout
    pasted = read(SHARED + result.stdout, "pasted").plain()
    noted = next(c for c in pasted["cases"].values() if "check[0]" in c.get("description", ""))
    assert list(noted["agents"]) == ["writer"]
    assert noted["input"] == {"short": True}
    loop.write("loop.scenario.yaml", to_yaml(WRITER.fill(pasted)))
    again = loopkit(loop.folder, "test", "--suggest", "loop.yaml")
    assert (again.stdout, again.returncode) == ("", 0)
    assert again.stderr == "loop.scenario.yaml: every goal has a case\n"


def test_all_files_of_a_machine_count_together(loop: Desk) -> None:
    first = loopkit(loop.folder, "test", "--suggest")
    head = "\n".join(SHARED.splitlines()[:5])
    more = read(f"{head}\ncases:\n{first.stdout}", "more").plain()
    loop.write("more.scenario.yaml", to_yaml(WRITER.fill(more)))
    result = loopkit(loop.folder, "test", "--suggest")
    assert (result.stdout, result.stderr) == ("", "loop.scenario.yaml: every goal has a case\n")


def test_what_nothing_can_bring_about_is_told_with_its_line(desk: Desk) -> None:
    desk.write("fixed.yaml", FIXED)
    result = loopkit(desk.folder, "test", "--suggest", "fixed.yaml")
    assert result.returncode == 0
    assert (
        "fixed.yaml:7: no case for check[1] → failed (otherwise): "
        "nothing that a case can say makes sure that `check` takes check[1]\n"
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


def test_it_does_not_go_with_the_options_of_a_test(loop: Desk) -> None:
    result = loopkit(loop.folder, "test", "--suggest", "-k", "good", "--coverage")
    assert result.returncode == 2
    assert result.stderr == "error: `--suggest` tests nothing: leave out `-k`, `--coverage`\n"


def test_a_machine_with_errors_is_told(desk: Desk) -> None:
    desk.write("loop.yaml", LOOP.replace("target: noted", "target: nowhere"))
    result = loopkit(desk.folder, "test", "--suggest", "loop.yaml")
    assert (result.stdout, result.returncode) == ("", 2)
    assert "nowhere" in result.stderr


# -- what is left to be written ------------------------------------------------------------

LEFT = """
scenario: 1
machine: loop.yaml
cases:
  good:
    input: {topic: {todo: Some drink.}}
    agents:
      writer:
        - - {fault: rate_limit}
          - todo: |
              Put `reply:` here.
              - at least 30 characters
      critic: [{data: {verdict: pass, findings: []}}]
  done:
    input: {topic: Tea}
    agents:
      writer: [Boil water and give the tea five minutes.]
      critic: [{data: {verdict: pass, findings: []}}]
    expect: {outcome: done}
"""


@pytest.fixture
def left(loop: Desk) -> Desk:
    loop.write("loop.scenario.yaml", LEFT)
    return loop


def test_a_case_with_something_left_fails_and_says_which_reply_it_is(left: Desk) -> None:
    """It is not played, and the others of its file are."""
    result = loopkit(left.folder, "test", "--coverage")
    assert result.returncode == 1
    assert "loop.scenario.yaml: good: FAILED" in result.stdout
    assert "loop.scenario.yaml: done: ok" in result.stdout
    assert "error[todo]: input `topic` is still to be written" in result.stdout
    assert "error[todo]: reply 1 of `writer` is still to be written" in result.stdout
    assert "loop.scenario.yaml:10:13" in result.stdout
    assert "- at least 30 characters" in result.stdout
    assert "on_error.fatal" in result.stdout
    assert result.stderr == "2 cases: 1 failed\n"


def test_a_run_is_not_played_by_a_script_with_something_left(left: Desk) -> None:
    result = loopkit(
        left.folder, "run", "loop.yaml", "--input", "topic=Tea", "--script", "loop.scenario.yaml",
        "--case", "good",
    )  # fmt: skip
    assert result.returncode == 2
    assert "error[todo]: reply 1 of `writer` is still to be written" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_expectation_is_not_updated_while_something_is_left(left: Desk) -> None:
    result = loopkit(left.folder, "test", "--update-case", "good")
    assert result.returncode == 1
    assert "not updated: good: input `topic` is still to be written" in result.stderr
    assert (left.folder / "loop.scenario.yaml").read_text(encoding="utf-8") == LEFT


def test_a_diagram_counts_the_cases_in_which_nothing_is_left(left: Desk) -> None:
    result = loopkit(left.folder, "diagram", "loop.yaml", "--cases", "loop.scenario.yaml")
    assert result.returncode == 0


def test_from_python_it_is_the_problem_that_it_is(left: Desk) -> None:
    suite = load_suite(left.folder / "loop.scenario.yaml")
    assert suite.playable == ("done",)
    with pytest.raises(ProblemsFound, match="input `topic` is still to be written"):
        play(suite, "good")
    with pytest.raises(ProblemsFound, match="reply 1 of `writer` is still to be written"):
        load_scenario(left.folder / "loop.scenario.yaml", "good")


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ("agents: {critic: {'by[1]': [hm, {todo: x}]}}", "reply 2 of `critic` at `by[1]`"),
        ("answers: {ask: [{choice: yes, todo: x}]}", "answer 1 of `ask`"),
        ("commands: {make: [{}, [{todo: x}, {}]]}", "result 2 of `make`"),
        ("commands: {make: [{exit_code: 1, todo: x}]}", "result 1 of `make`"),
    ],
)
def test_what_is_left_is_found_wherever_it_stands(desk: Desk, parts: str, told: str) -> None:
    path = desk.write("script.yaml", f"scenario: 1\n{parts}\n")
    with pytest.raises(ProblemsFound, match=f"{re.escape(told)} is still to be written"):
        load_scenario(path)


def test_an_input_may_have_a_field_of_that_name(desk: Desk) -> None:
    desk.write("list.yaml", """
        loopkit: 1
        input: {list: {todo: str}}
        states:
          start: {transitions: [{guard: input.list.todo == "tea", target: done}, {target: done}]}
          done: {final: success}
    """)  # fmt: skip
    case = "{input: {list: {todo: tea}}, expect: {outcome: done}}"
    text = f"scenario: 1\nmachine: list.yaml\ncases: {{a: {case}}}\n"
    suite = load_suite(desk.write("list.scenario.yaml", text))
    assert run_case(suite, "a").passed


# -- every kind of goal --------------------------------------------------------------------


@pytest.fixture
def found(desk: Desk) -> Suggestions:
    return suggested(desk.write("loop.yaml", LOOP))


def left_of(found: Suggestions, goal: str, agent: str) -> list[str]:
    return [call["todo"] for call in one_by(found, goal)["agents"][agent]]


def test_all_goals_are_covered_when_everything_left_is_written(found: Suggestions) -> None:
    assert found.failed == []
    assert_covers(found, WRITER)


def test_an_error_that_can_pass_is_played_until_no_try_is_left(found: Suggestions) -> None:
    case = one_by(found, "draft.on_error.transient")
    assert case["agents"] == {"writer": [[{"fault": "rate_limit"}, {"fault": "rate_limit"}]]}


def test_a_fatal_error_is_one_call(found: Suggestions) -> None:
    case = one_by(found, "draft.on_error.fatal")
    assert case["agents"] == {"writer": [{"fault": "authentication"}]}


def test_a_standstill_is_the_same_text_again(found: Suggestions) -> None:
    first, second = left_of(found, "check[2]", "writer")
    assert (
        second == first.replace("attempt 1", "attempt 2") + "- the same as in the attempt before\n"
    )


def test_two_attempts_differ_where_no_standstill_is_wanted(found: Suggestions) -> None:
    first, second = left_of(found, "check[4]", "writer")
    assert first == (
        "Put `reply:` here: attempt 1 of `draft`.\n"
        "- break one of these, so that `check` has the verdict fail:\n"
        "  - at least 30 characters\n"
    )
    assert second.endswith("- not the same as in the attempt before\n")


def test_the_rules_for_what_is_accepted_are_told_one_by_one(found: Suggestions) -> None:
    [reply] = left_of(found, "check[1]", "writer")
    assert reply.endswith("- keep these rules of `check`:\n  - at least 30 characters\n")
    assert one_by(found, "check[1]")["agents"]["critic"] == [PASSED]


def test_an_input_is_said_where_a_guard_needs_it(found: Suggestions) -> None:
    given = one_by(found, "check[0]")["input"]
    assert given == {"topic": {"todo": "Put the input here: str.\n"}, "short": True}


def test_the_way_is_what_the_case_expects(found: Suggestions) -> None:
    ways = {case["expect"]["path"][-1] for case in cases(found).values()}
    assert ways == {"done", "noted", "dropped", "lost"}


def test_a_case_that_is_written_otherwise_than_told_fails(found: Suggestions) -> None:
    results, _ = played(found, Person("Tea."))
    assert any("another path was taken" in result.text for result in results)


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
    assert_covers(found, Person("Tea."))


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


def on_the_web(todo: str) -> dict[str, Any]:
    """A filled form, with the comment where one is asked for."""
    said = {"comment": "Change it."} if "`comment:`" in todo else {}
    return {"form": {"channel": "web"}, **said}


def test_a_person_answers_with_the_form_and_the_comment_that_are_needed(desk: Desk) -> None:
    found = suggested(desk.write("person.yaml", PERSON))
    assert_covers(found, Person("Tea.", None, {"`form:`": on_the_web}))
    given = [case["answers"]["ask"] for case in cases(found).values() if "answers" in case]
    answers = [answer for some in given for answer in some]
    assert {"choice": "take", "form": {"channel": "mail"}} in answers
    assert any("`comment:`" in answer.get("todo", "") for answer in answers)


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
    assert_covers(found, Person("Tea."))
    assert one_by(found, "tests.on_error.transient")["commands"] == {
        "tests": [{"fault": "timeout"}]
    }
    [types] = one_by(found, "lint[1]")["commands"]["by[1]"]
    assert types["exit_code"] == 3
    assert types["todo"].startswith(
        "Put `stdout:` here: what `by[1]` prints, with the verdict fail."
    )
    [coder] = one_by(found, "lint[1]")["agents"]["coder"]
    assert coder["todo"].startswith("Put `files:` with `code.py` here: attempt 1 of `code`.")


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


def sorted_data(todo: str, attempt: int) -> dict[str, Any]:
    is_broken = "break one" in todo
    parts = [{"id": "all" if "`codes` has all" in todo else f"part {attempt}"}]
    return {
        "kind": "bug" if '`kind` is "bug"' in todo else "question",
        "size": 4 if "`size` is 4" in todo else 0,
        "parts": [] if is_broken and "`codes` has all" not in todo else parts,
        "no": "`no` is true" in todo,
    }


def test_data_has_the_facts_and_the_faults_that_are_needed(desk: Desk) -> None:
    found = suggested(desk.write("data.yaml", DATA))
    assert_covers(found, Person(sorted_data, sorted_data))
    [reply] = left_of(found, "check[1]", "sorter")
    assert '- id != "all", for each of `parts[]` (code all)\n' in reply
    assert '- `codes` has all\n- so that the guard `"all" in codes` holds\n' in reply


PANEL = """
loopkit: 1
agents: {writer: {model: x/y}, one: {model: some/one}, two: {model: some/two}, three: {model: x/y}}
states:
  draft: {agent: writer, prompt: Write., output: text, next: check}
  check:
    validate: text
    by:
      - {judge: one, confirm: fail, samples: 2}
      - {judge: two, verdict: {pattern: '^Verdict: (\\w+)$', words: {GOOD: pass, BAD: fail}}}
      - {command: [lint], parse: lines}
      - {judge: three}
    combine: majority
    transitions:
      - {guard: incomplete, target: lost}
      - {guard: valid, target: done}
      - {revise: draft, max: 1}
      - {target: lost}
  done: {final: success, result: text}
  lost: {final: failure}
"""


def spoken(todo: str) -> dict[str, Any]:
    is_good = '"GOOD"' in todo
    return {"reply": "Verdict: GOOD" if is_good else "- [BAD] Dull.\n\nVerdict: BAD"}


LINTER = "      - {command: [lint], parse: lines}\n"


@pytest.mark.parametrize("linter", [LINTER, ""])
@pytest.mark.parametrize("combine", ["combine: majority", "combine: strictest"])
def test_judges_of_a_panel_say_what_makes_the_verdict(
    desk: Desk, combine: str, linter: str
) -> None:
    machine = PANEL.replace("combine: majority", combine).replace(LINTER, linter)
    found = suggested(desk.write("panel.yaml", machine))
    others = {
        "Put `reply:` here: the report": spoken,
        "what `by[2]` prints": {"stdout": "a.py:1: error: No."},
    }
    assert_covers(found, Person("Tea.", "-", others))


RENDERED = """
loopkit: 1
input: {draft: str}
agents: {critic: {model: some/model}}
states:
  plan: {render: "{{ input.draft }}", next: check}
  check:
    validate: plan
    by: [{section: Goal}]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure}
"""


def test_an_input_that_is_judged_has_to_satisfy_the_rules(desk: Desk) -> None:
    found = suggested(desk.write("rendered.yaml", RENDERED))
    said = {"keep these": "## Goal\n\nTea.", "break one of these": "Tea."}
    assert found.failed == []
    assert_covers(found, Person("", "", said))


PHASES = """
loopkit: 1
origins: [planning, design, code]
limits: {total_revisions: 4}
agents: {writer: {model: some/model}, coder: {model: some/model}}
states:
  planning:
    agent: writer
    prompt: Plan.
    output: plan
    on_error: &lost {content: failed}
    next: design
  design:
    agent: writer
    prompt: "Design {{ plan }}."
    output: spec
    on_error: *lost
    next: code
  code: {agent: coder, prompt: "Code {{ spec }}.", output: source, next: test}
  test:
    validate: source
    by:
      - {matches: units, origin: [code, planning]}
      - {matches: interface, origin: design}
      - {matches: program}
    transitions:
      - {guard: valid, target: done}
      - {revise: {origin: [planning, design, code]}, max: 1}
      - {target: failed}
  done: {final: success, result: source}
  failed: {final: failure, result: source}
"""


@pytest.mark.parametrize(
    ("origin", "broken", "kept"),
    [
        ("planning", "units", ["interface", "program"]),
        ("design", "interface", ["units", "program"]),
        ("code", "program", ["units", "interface"]),
    ],
)
def test_the_rules_to_break_are_those_that_send_the_work_to_the_origin_that_is_wanted(
    desk: Desk, origin: str, broken: str, kept: list[str]
) -> None:
    found = suggested(desk.write("phases.yaml", PHASES))
    sent_back = left_of(found, f"test[1].{origin}", "coder")[0]
    before, _, after = sent_back.partition(f'- `origin` is "{origin}"\n')
    assert before.endswith(f"verdict fail:\n  - at least 1 of `{broken}`\n")
    assert after.startswith("- keep these rules of `test`:\n")
    assert [line.split("`")[1] for line in after.splitlines()[1:3]] == kept
    assert found.failed == []


def test_where_several_findings_are_wanted_some_may_be_of_later_origins(desk: Desk) -> None:
    edge = "{revise: {origin: [planning, design, code]}, max: 1}"
    text = PHASES.replace(edge, edge.replace("{revise", "{guard: error_count > 1, revise"))
    found = suggested(desk.write("phases.yaml", text))
    told = left_of(found, "test[1].design", "coder")[0]
    broken, _, kept = told.partition("- keep these rules of `test`:\n")
    assert re.findall("at least 1 of `(.*)`", broken) == ["interface", "program"]
    assert "- `error_count` is 2\n" in broken
    assert kept == "  - at least 1 of `units`\n"


def test_a_code_that_is_wanted_beside_the_origin_may_be_of_a_later_one(desk: Desk) -> None:
    edge = "{revise: {origin: [planning, design, code]}, max: 1}"
    coded = edge.replace("{revise", "{guard: '\"late\" in codes', revise")
    text = PHASES.replace(edge, coded).replace("program}", "program, code: late}")
    told = left_of(suggested(desk.write("phases.yaml", text)), "test[1].design", "coder")[0]
    assert re.findall("at least 1 of `(.*)`", told) == ["interface", "program", "units"]


def test_the_origin_that_is_wanted_says_which_program_finds_something(desk: Desk) -> None:
    text = PHASES.replace("matches: units", "command: [lint]")
    found = suggested(desk.write("phases.yaml", text))
    case = one_by(found, "test[1].planning")
    assert case["commands"]["by[0]"][0]["exit_code"] == 1
    assert "break one" not in left_of(found, "test[1].planning", "coder")[0]


STOPS = """
loopkit: 1
agents: {writer: {model: some/model}, critic: {model: some/critic}}
states:
  draft: {agent: writer, prompt: Write., output: text, next: check}
  check:
    validate: text
    by: [{min_chars: 9}, {command: [lint], baseline: true}, {judge: critic, always: true}]
    stop: first
    transitions: [{guard: valid, target: done}, {revise: draft, max: 1}, {target: failed}]
  done: {final: success, result: text}
  failed: {final: failure}
"""


def test_who_is_not_asked_says_nothing(desk: Desk) -> None:
    """Nothing runs behind a rule that blocks, but for judges who always do, and baselines."""
    found = suggested(desk.write("stops.yaml", STOPS))
    assert_covers(found, Person("Green tea is fine.", "-"))
    revised = one_by(found, "check[1]")
    assert revised["commands"] == {"by[1]": [{}]}
    assert revised["agents"]["critic"] == [PASSED, PASSED]
    assert one_by(found, "check[0]")["commands"] == {"by[1]": [{}, {}]}


def test_what_all_cases_share_may_be_left_as_well(loop: Desk) -> None:
    shared = SHARED.replace("[{data: {verdict: pass, findings: []}}]", "[{todo: Judge.}]")
    suite = load_suite(loop.write("loop.scenario.yaml", shared))
    [problem] = suite.unwritten["good"]
    assert problem.message == "reply 1 of `critic` is still to be written"
    assert (problem.span and problem.span.line, problem.help) == (5, "Judge.")
    assert suite.playable == ()


def test_what_is_printed_may_go_to_the_file_beside_the_machine(tmp_path: Path) -> None:
    shutil.copy(PLAN_REVIEW, tmp_path)
    file = "plan_review.scenario.yaml"
    argv = ["-m", "loopkit", "test", "--suggest", "plan_review.yaml"]
    # A shell makes the file before the command runs.
    paths = (Path(os.devnull), tmp_path / file, tmp_path / "told")
    with ExitStack() as opened:
        streams = [opened.enter_context(path.open("w+")).fileno() for path in paths]
        assert Process(argv, streams, cwd=tmp_path).wait(timeout=60) == 0
    assert (tmp_path / "told").read_text().startswith(f"{file}: 4 cases")
    assert len(load_suite(tmp_path / file, Machines()).names) == 4
