"""`loopkit test --update`: expectations become what runs do now, and nothing else changes."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopkit.document import read
from loopkit.engine.state import RunState
from loopkit.scenario import ExpectedPrompt
from loopkit.testing import load_suite, run_case
from loopkit.testing.expectations.matching import matching_prompts
from loopkit.testing.trace import Asked, Trace
from loopkit.testing.updating.yaml_edits import YamlEditor
from tests.recording import Shell, no_room
from tests.support import Desk

MACHINE = """
loopkit: 1
agents: {writer: {model: openai/gpt-5-mini}}
states:
  draft: {agent: writer, prompt: Write a long text., output: text, next: check}
  check:
    validate: text
    by: [{min_chars: 8}]
    transitions:
      - {guard: valid, target: done, emit: finished}
      - {revise: draft, max: 2, emit: revised}
      - {target: dropped}
  done: {final: success, result: text}
  dropped: {final: failure}
"""
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
def loopkit(
    project: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """The command line in the folder of the project."""
    monkeypatch.chdir(project.folder)

    return Shell(capsys)


@pytest.fixture
def project(desk: Desk) -> Desk:
    desk.write("machine.yaml", MACHINE)
    desk.write("a.scenario.yaml", CASES)
    return desk


def cases(project: Desk) -> str:
    return (project.folder / "a.scenario.yaml").read_text()


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


def test_what_passes_is_left_byte_for_byte(project: Desk, loopkit: Shell) -> None:
    done = loopkit("test", "--update")
    assert (done.exit_code, done.stderr) == (0, "2 cases passed\n")
    assert cases(project) == CASES


def test_stale_expectations_become_what_the_run_does_and_all_else_stays(
    project: Desk,
    loopkit: Shell,
) -> None:
    change(project, *STALE)
    assert loopkit("test").exit_code == 1
    done = loopkit("test", "--update")
    assert (done.exit_code, done.stderr) == (0, "2 cases passed\n"), done.stdout
    assert cases(project) == CASES


def test_the_diff_is_shown(project: Desk, loopkit: Shell) -> None:
    change(project, ("{writer: 2}", "{writer: 9}"))
    done = loopkit("test", "--update")
    assert "--- a.scenario.yaml\n+++ a.scenario.yaml\n" in done.stdout
    assert "-      calls: {writer: 9}\n+      calls: {writer: 2}\n" in done.stdout
    assert cases(project) == CASES


OTHER_WAY = ("min_chars: 8", "min_chars: 100")


def test_outcome_and_path_of_a_case_that_is_not_named_stay(project: Desk, loopkit: Shell) -> None:
    change(project, OTHER_WAY, file="machine.yaml")
    done = loopkit("test", "--update")
    assert done.exit_code == 1
    text = cases(project)
    assert "outcome:  done\n" in text
    assert "        - check   # this time it passes\n        - done\n" in text
    assert "path: [draft,check,done]" in text


MORE = ("cost_usd: 0.25}]", "cost_usd: 0.25}, never mind]")


def test_a_named_case_gets_outcome_and_path_and_keeps_its_comments(
    project: Desk, loopkit: Shell
) -> None:
    change(project, OTHER_WAY, file="machine.yaml")
    change(project, MORE)
    changed = cases(project)
    done = loopkit("test", "--update-case", "in the end")
    text = cases(project)
    suite = load_suite(project.folder / "a.scenario.yaml")
    result = run_case(suite, "in the end")
    assert result.passed, result.text
    assert "outcome:  dropped\n      # the way\n" in text
    assert "        # again\n        - draft\n        - check   # this time it passes\n" in text
    # The other case was not named, so that it fails as before.
    assert done.exit_code == 1
    assert text.split("  never touched:")[1] == changed.split("  never touched:")[1]


def test_what_was_kept_is_told_with_the_way_to_change_it(project: Desk, loopkit: Shell) -> None:
    change(project, OTHER_WAY, file="machine.yaml")
    change(project, MORE)
    done = loopkit("test", "--update", "-k", "end")
    assert (
        "in the end: `path` and `outcome` left unchanged; to update it: --update-case 'in the end'"
        in done.stderr
    )
    assert "never touched" not in done.stderr


def test_gaps_and_their_spelling_stay_in_a_path(project: Desk, loopkit: Shell) -> None:
    path = "path: [draft, '*', dropped]"
    change(project, ("path: [draft,check,done]", path), ("[long enough]", "[no, long enough]"))
    loopkit("test", "--update-case", "never touched")
    assert "path: [draft, '*', done]" in cases(project)


def test_a_long_path_is_broken_inside_its_brackets(project: Desk, loopkit: Shell) -> None:
    change(project, ("path: [draft,check,done]", "path: [done]"))
    change(project, ("max: 2", "max: 9"), file="machine.yaml")
    change(project, ("writer:   [long enough]", "writer: [a, b, c, d, e, f, long enough]"))
    loopkit("test", "--update-case", "never touched")
    suite = load_suite(project.folder / "a.scenario.yaml")
    assert run_case(suite, "never touched").passed
    assert max(map(len, cases(project).splitlines())) <= 100


@pytest.mark.parametrize(
    ("empty", "filled"),
    [
        ("    expect:\n", "    expect:\n      outcome: done\n      path: [draft, check, done]\n"),
        (
            "    expect: {}\n",
            "    expect:\n      outcome: done\n      path: [draft, check, done]\n",
        ),
    ],
)
def test_an_empty_expectation_is_filled_where_the_case_is_named(
    project: Desk, loopkit: Shell, empty: str, filled: str
) -> None:
    change(project, ("    expect: {outcome: done,   path: [draft,check,done]}\n", empty))
    unnamed = loopkit("test", "--update")
    told = "never touched: expects nothing; to fill in `outcome` and `path`: --update-case"
    assert (unnamed.exit_code, told in unnamed.stderr) == (1, True)
    assert cases(project).endswith(empty)
    named = loopkit("test", "--update-case", "never touched")
    assert named.exit_code == 0, named.stdout
    assert cases(project).endswith(filled)


def test_nothing_is_added_that_nobody_expected(project: Desk, loopkit: Shell) -> None:
    change(project, ("{outcome: done,   path: [draft,check,done]}", "{calls: {writer: 5}}"))
    loopkit("test", "--update-case", "never touched")
    assert cases(project).endswith("    expect: {calls: {writer: 1}}\n")


def test_what_has_nothing_like_it_is_left_for_a_person(project: Desk, loopkit: Shell) -> None:
    change(project, ("'at least 8 are needed', count: 1", "'the moon is made of cheese'"))
    done = loopkit("test", "--update")
    assert done.exit_code == 1
    assert "the moon is made of cheese" in cases(project)


def test_a_case_that_is_not_prepared_is_not_updated(project: Desk, loopkit: Shell) -> None:
    second = ",   {reply: long enough, cost_usd: 0.25}"
    change(project, ("calls: {writer: 2}", "calls: {writer: 9}"), (second, ""))
    before = cases(project)
    done = loopkit("test", "--update")
    assert (done.exit_code, "prepare it first" in done.stderr) == (1, True)
    assert cases(project) == before


def test_what_an_alias_brings_in_is_left(project: Desk, loopkit: Shell) -> None:
    change(
        project,
        ("calls: {writer: 2}", "calls: &calls {writer: 1}"),
        ("path: [draft,check,done]}", "calls: *calls}"),
        ("writer:   [long enough]", "writer: [no, long enough]"),
    )
    before = cases(project)
    done = loopkit("test", "--update", "-k", "never")
    assert "alias" in done.stderr
    assert cases(project) == before


def test_what_stands_beside_an_alias_is_updated_all_the_same(project: Desk, loopkit: Shell) -> None:
    change(
        project,
        ("revisions: {draft: 1}", "revisions: &r {draft: 2}"),
        ("path: [draft,check,done]}", "revisions: *r, calls: {writer: 3}}"),
        ("writer:   [long enough]", "writer: [no, long enough]"),
    )
    done = loopkit("test", "--update")
    assert "not updated: never touched: it comes from an alias" in done.stderr
    assert "revisions: *r, calls: {writer: 2}}" in cases(project)
    assert done.exit_code == 0, done.stdout


def test_a_name_with_a_quote_is_told_as_a_shell_takes_it(project: Desk, loopkit: Shell) -> None:
    change(
        project, ("  'in the end':", '  "it\'s the end":'), ("outcome:  done", "outcome: dropped")
    )
    done = loopkit("test", "--update")
    (line,) = [line for line in done.stderr.splitlines() if "left unchanged" in line]
    assert shlex.split(line.partition("to update it: ")[2]) == ["--update-case", "it's the end"]


def test_what_is_wrong_with_a_file_is_told_before_a_case_that_is_not_found(
    project: Desk, loopkit: Shell
) -> None:
    change(project, ("scenario: 1", "scenario: 2"))
    done = loopkit("test", "--update-case", "in the end")
    assert (done.exit_code, done.stderr) == (2, "1 file can't be used\n")
    assert "unknown-value" in done.stdout


def test_a_text_of_a_file_is_not_written_over(project: Desk, loopkit: Shell) -> None:
    project.write("text.txt", "another text")
    change(project, ("equals: |\n            long enough\n", "equals: {file: text.txt}\n"))
    done = loopkit("test", "--update")
    assert (done.exit_code, "`text.txt`" in done.stderr) == (1, True)
    assert (project.folder / "text.txt").read_text() == "another text"


def test_line_ends_and_the_mark_at_the_beginning_stay(project: Desk, loopkit: Shell) -> None:
    path = project.folder / "a.scenario.yaml"
    windows = "\ufeff" + CASES.replace("\n", "\r\n")
    stale = windows.replace("            long enough\r\n", "            a\r\n            b\r\n")
    path.write_bytes(stale.replace("        - check\r\n        # again\r\n", "").encode())
    assert loopkit("test", "--update-case", "in the end").exit_code == 0
    # A comment that went does not come back.
    assert path.read_bytes() == windows.replace("        # again\r\n", "").encode()


def test_a_read_only_file_is_told_and_left(project: Desk, loopkit: Shell) -> None:
    change(project, ("{writer: 2}", "{writer: 9}"))
    path = project.folder / "a.scenario.yaml"
    path.chmod(0o444)
    before = path.read_text()
    done = loopkit("test", "--update")
    assert (done.exit_code, "read-only" in done.stderr) == (2, True)
    assert path.read_text() == before
    assert not list(project.folder.glob(".a.scenario*"))


def test_a_disk_without_room_is_told_and_the_file_stays_whole(
    project: Desk, loopkit: Shell
) -> None:
    change(project, ("{writer: 2}", "{writer: 9}"))
    before = cases(project)
    with no_room():
        done = loopkit("test", "--update")
    assert (done.exit_code, "can't be written: File too large" in done.stderr) == (2, True)
    assert cases(project) == before
    assert not list(project.folder.glob(".a.scenario*"))


def test_an_unknown_case_is_wrong_usage_and_nothing_is_written(
    project: Desk, loopkit: Shell
) -> None:
    change(project, ("{writer: 2}", "{writer: 9}"))
    before = cases(project)
    done = loopkit("test", "--update", "--update-case", "never tuched")
    assert (done.exit_code, "did you mean `never touched`?" in done.stderr) == (2, True)
    assert cases(project) == before


@pytest.mark.parametrize(
    "style", ["old", "'old'", '"old"', "|\n  old\n", "|+\n  old\n\n", "|-\n  old"]
)
@given(value=st.text(alphabet="ab \n\x01\\\"':#é", max_size=8))
def test_a_text_reads_back_as_it_was_put_there_whatever_quotes_it_had(
    style: str, value: str
) -> None:
    text = f"first: 1\nkey: {style}\nlast: 2\n"
    [cut] = YamlEditor(read(text, "cases.yaml")).edits(("key",), value)
    changed = read(text[: cut.start] + cut.text + text[cut.end :], "cases.yaml").plain()
    assert changed["last"] == 2
    # Line breaks at the end of an expected text do not count, so a block keeps its own.
    assert str(changed["key"]).rstrip("\n") == value.rstrip("\n")


PANEL = """
loopkit: 1
agents: {writer: {model: some/model}, one: {model: some/one}, two: {model: some/two}}
validators:
  safe: {judge: one, rubric: [It is safe.]}
  fast: {judge: two, rubric: [It is fast.]}
states:
  draft: {agent: writer, prompt: Write., output: plan, next: check}
  check: {validate: plan, by: [safe, fast], merge: key, next: done}
  done: {final: success, result: plan}
"""
MERGED = """
scenario: 1
machine: panel.yaml
cases:
  both say it:
    agents:
      writer: [a plan]
      one: [FOUND]
      two: [FOUND]
    expect:
      outcome: done
      path: [draft, check, done]
      findings: [{validator: fast, message: the loop is slowest}]
""".replace(
    "FOUND",
    "{data: {verdict: fail, findings: [{key: loop, severity: error, message: the loop is slow}]}}",
)


def test_a_finding_that_several_named_is_found_again_by_each_of_them(
    project: Desk, loopkit: Shell
) -> None:
    project.write("panel.yaml", PANEL)
    project.write("b.scenario.yaml", MERGED)
    assert loopkit("test", "--update", "b.scenario.yaml").exit_code == 0
    written = (project.folder / "b.scenario.yaml").read_text()
    assert written == MERGED.replace("the loop is slowest", "the loop is slow")


def test_an_expected_prompt_is_that_of_its_validator() -> None:
    asked = [Asked("critic", "check", place, 1, 1, place) for place in ("safe", "fast")]
    run = Trace(RunState(), asked=asked)
    wanted = ExpectedPrompt(validator="fast", contains=("fast",))
    assert matching_prompts(run, wanted) == asked[1:]
