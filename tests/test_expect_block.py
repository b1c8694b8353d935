"""What to paste where a case fails: `expect:` with what the run did instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopkit.document.reading import read
from loopkit.engine.state import RunState
from loopkit.scenario.cases import ExpectedPrompt
from loopkit.testing import CaseResult, load_suite, run_case
from loopkit.testing.expectations import matching_prompts
from loopkit.testing.trace import Asked, Trace
from tests import test_children_cases as families
from tests.machines import loop
from tests.support import Desk
from tests.test_testing import loopkit

MACHINE = loop(
    "[{min_chars: 8}]",
    {},
    "{guard: valid, target: done, emit: finished}",
    "{revise: draft, max: 2, emit: revised}",
    "{target: dropped}",
    top="agents: {writer: {model: openai/gpt-5-mini}}",
    draft="draft: {agent: writer, prompt: Write a long text., output: text}",
    judge="check",
    result="text",
)
CASES = """\
# yaml-language-server: $schema=somewhere
scenario: 1
machine: machine.yaml   # beside it
cases:

  'in the end':         # quoted for no reason
    agents:
      writer: [ {reply: no, cost_usd: 0.5},   {reply: long enough, cost_usd: 0.25}]
    expect:
      outcome:  done
      # the way
      path:
        - draft
        - check
        # again
        - draft
        - check   # this time it passes
        - done
      verdicts: {check: ["fail", pass]}
      findings:
        - {attempt: 1, message: 'at least 8 are needed', count: 1}
      feedback: [{to: draft, attempt: 2, contains: "2 characters, at least 8 are needed"}]
      prompts:
        - agent: writer
          attempt: 1
          contains: Write a long text.
      revisions: {draft: 1}   # one
      calls: {writer: 2}
      cost_usd_at_most: 0.75
      events: [revised, "finished"]
      artifacts:
        text:
          equals: |
            long enough

  never touched:
    agents: {writer:   [long enough]}
    expect: {outcome: done,   path: [draft,check,done]}
"""


@pytest.fixture
def project(desk: Desk) -> Desk:
    desk.write("machine.yaml", MACHINE)
    desk.write("a.scenario.yaml", CASES)
    return desk


def change(project: Desk, *replacements: tuple[str, str], file: str = "a.scenario.yaml") -> None:
    path = project.folder / file
    text = path.read_text()
    for old, new in replacements:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)


STALE = (
    ('["fail", pass]', '["fail", fail, pass]'),
    ("message: 'at least 8 are needed', count: 1", "message: 'at least 9 are needed', count: 2"),
    ('"2 characters, at least 8 are needed"', '"3 characters, at least 9 are needed"'),
    ("contains: Write a long text.", "contains: Write a short text."),
    ("{draft: 1}", "{draft: 2}"),
    ("{writer: 2}", "{writer: 9}"),
    ("cost_usd_at_most: 0.75", "cost_usd_at_most: 0.5"),
    ('[revised, "finished"]', '[revised, revised, "finished"]'),
    ("            long enough\n", "            something else\n            on two lines\n"),
)


def result_of(project: Desk, case: str) -> CaseResult:
    return run_case(load_suite(project.folder / "a.scenario.yaml"), case)


def paste(project: Desk, block: str, into: str) -> None:
    """Put the block in the place of the `expect:` of a case."""
    path = project.folder / "a.scenario.yaml"
    before, _, case = path.read_text().partition(f"  {into}:")
    case, gap, after = case.partition("\n\n")
    path.write_text(f"{before}  {into}:{case.partition('    expect:')[0]}{block}{gap}{after}")


def test_a_case_that_passes_has_nothing_to_paste(project: Desk) -> None:
    result = result_of(project, "in the end")
    assert (result.passed, result.block) == (True, "")


def test_what_is_stale_is_printed_as_the_run_did_it_and_the_rest_as_it_is(project: Desk) -> None:
    change(project, *STALE)
    result = result_of(project, "in the end")
    assert (
        result.block
        == """\
    expect:
      outcome: done
      path: [draft, check, draft, check, done]
      verdicts: {check: [fail, pass]}
      findings:
        - attempt: 1
          validator: "by[0]"
          message: "the text has 2 characters, at least 8 are needed"
      feedback:
        - to: draft
          attempt: 2
          contains: ["the text has 2 characters, at least 8 are needed"]
      prompts: [{agent: writer, attempt: 1, contains: Write a short text.}]
      revisions: {draft: 1}
      calls: {writer: 2}
      cost_usd_at_most: 0.75
      events: [revised, finished]
      artifacts: {text: {equals: long enough}}
"""
    )


def test_a_case_with_the_block_pasted_passes(project: Desk) -> None:
    # What is quoted of a prompt stays, because a person chooses what to quote.
    change(project, *(one for one in STALE if "Write" not in one[0]))
    paste(project, result_of(project, "in the end").block, "'in the end'")
    result = result_of(project, "in the end")
    assert result.passed, result.text


def test_where_only_a_quoted_text_is_missed_there_is_nothing_to_paste(project: Desk) -> None:
    change(project, ("contains: Write a long text.", "contains: Write a short text."))
    result = result_of(project, "in the end")
    assert (result.passed, result.block) == (False, "")


def test_nothing_is_expected_that_nobody_expected(project: Desk) -> None:
    change(project, ("{outcome: done,   path: [draft,check,done]}", "{calls: {writer: 5}}"))
    assert result_of(project, "never touched").block == "    expect:\n      calls: {writer: 1}\n"


@pytest.mark.parametrize("empty", ["    expect:\n", "    expect: {}\n", ""])
def test_of_a_case_that_expects_nothing_outcome_and_path_are_printed(
    project: Desk, empty: str
) -> None:
    change(project, ("    expect: {outcome: done,   path: [draft,check,done]}\n", empty))
    block = result_of(project, "never touched").block
    assert block == "    expect:\n      outcome: done\n      path: [draft, check, done]\n"


def test_a_run_that_asked_for_more_than_is_played_has_nothing_to_paste(project: Desk) -> None:
    change(project, (",   {reply: long enough, cost_usd: 0.25}", ""))
    result = result_of(project, "in the end")
    assert (result.passed, result.block) == (False, "")


def test_a_text_of_a_file_that_is_met_stays_a_file(project: Desk) -> None:
    project.write("text.txt", "long enough")
    change(project, ("equals: |\n            long enough\n", "equals: {file: text.txt}\n"))
    change(project, ("calls: {writer: 2}", "calls: {writer: 3}"))
    assert "artifacts: {text: {equals: {file: text.txt}}}" in result_of(project, "in the end").block


def test_the_command_prints_it_below_what_failed_and_changes_no_file(project: Desk) -> None:
    change(project, ("{outcome: done,   path: [draft,check,done]}", "{outcome: dropped}"))
    before = (project.folder / "a.scenario.yaml").read_text()
    told = loopkit(project.folder, "test", "-k", "never")
    assert told.returncode == 1
    _, _, block = told.stdout.partition("if the run is right, expect what it did:\n\n")
    assert block == "    expect:\n      outcome: done\n\n"
    assert (project.folder / "a.scenario.yaml").read_text() == before


def test_what_children_did_is_printed_for_each_state_that_is_expected_otherwise(
    tmp_path: Path,
) -> None:
    expect = {
        "outcome": "failed",
        "children": {"tasks": {"1.2": {"outcome": "built"}, "*": {"outcome": "built"}}},
    }
    said = {"tasks": {"1.2": families.BAD, "*": families.GOOD}}
    path = families.write(tmp_path, children=said, expect=expect)
    result = run_case(load_suite(path), "one")
    new = read(result.block, "block.yaml").plain()["expect"]
    assert (new["outcome"], new["children"]["tasks"]["1.2"]["outcome"]) == ("failed", "rejected")
    families.write(tmp_path, children=said, expect=new)
    assert run_case(load_suite(path), "one").passed


def test_an_expected_prompt_is_that_of_its_validator() -> None:
    asked = [Asked("critic", "check", place, 1, 1, place) for place in ("safe", "fast")]
    run = Trace(RunState(), asked=asked)
    wanted = ExpectedPrompt(validator="fast", contains=("fast",))
    assert matching_prompts(run, wanted) == asked[1:]
