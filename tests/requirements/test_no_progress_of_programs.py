"""No progress where the reply is not the work: programs, their files, and what they judge by."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from loopkit.engine.changes import fold
from loopkit.engine.events import Event, Replied, read_event
from tests.machines import loop
from tests.recording import assert_same, taped
from tests.support import PASS, Desk, Played, fails, scenario

MACHINE = loop(
    "[RULE]",
    {"valid": "done", "stalled": "stuck"},
    "{revise: code}",
    "{target: exhausted}",
    top="""
limits: {revisions: 6}
agents:
  coder: {command: [sh, -c, "CODE"], stdin: ""}
  critic: {model: some/model, retry: {attempts: 1}}
workspace: {path: work, create: true}
""",
    draft="code: {agent: coder, prompt: Mend it.}",
    judge="check",
)
MENDS_ONE = "sed -i 1d todo; echo Done."
"""A coder that always says the same, and has one failing test less each time."""
SAYS_SO = "echo Done."
BY_CODE = "{command: [sh, -c, '! test -s todo']}"
BY_NAME = "{command: [sh, -c, 'cat todo; ! test -s todo'], parse: lines}"
FIVE = "".join(f"test.py:{n}: test_{n} fails\n" for n in range(1, 6))


def play(desk: Desk, code: str, rule: str, *, todo: str = FIVE, in_git: bool = True) -> Played:
    work = desk.folder / "work"
    work.mkdir()
    (work / "todo").write_text(todo)
    if in_git:
        subprocess.run(["git", "init", "-q"], cwd=work, check=True)
        (work / ".gitignore").write_text("*.log\n")
    return desk.play(MACHINE.replace("CODE", code).replace("RULE", rule))


def stalls(played: Played) -> list[bool]:
    return [report.stalled for report in played.reports]


@pytest.mark.parametrize("rule", [BY_CODE, BY_NAME], ids=["exit code", "named"])
@pytest.mark.parametrize("in_git", [True, False], ids=["git", "plain"])
def test_a_coder_that_says_done_and_mends_a_test_a_turn_goes_on(
    desk: Desk, rule: str, in_git: bool
) -> None:
    played = play(desk, MENDS_ONE, rule, in_git=in_git)
    assert played.outcome == "done"
    assert stalls(played) == [False] * 5


@pytest.mark.parametrize("rule", [BY_CODE, BY_NAME], ids=["exit code", "named"])
@pytest.mark.parametrize("code", [SAYS_SO, "date +%N >> own.log; echo Done."])
def test_a_coder_that_says_done_and_leaves_everything_as_it_was_is_stuck(
    desk: Desk, code: str, rule: str
) -> None:
    played = play(desk, code, rule)
    assert played.outcome == "stuck"
    assert stalls(played) == [False, True]


def test_an_exit_code_alone_never_repeats(desk: Desk) -> None:
    """Each time another file, and a checker that never says what is wrong."""
    played = play(desk, "date +%N >> notes; echo Done.", "{command: ['false']}")
    assert played.outcome == "exhausted"
    assert stalls(played) == [False] * 7


def test_named_findings_that_stay_are_no_progress_whatever_else_is_written(desk: Desk) -> None:
    played = play(desk, "date +%N >> notes; echo Done.", BY_NAME)
    assert played.outcome == "stuck"
    assert stalls(played) == [False, False, True]


def test_the_same_files_are_no_standstill_where_what_blocked_no_longer_does(desk: Desk) -> None:
    """A checker that names two tests in turns: the second one never blocked before."""
    named = "echo x >> ../turns; wc -l < ../turns | sed 's/ //g;s/.*/a.py:1: test_& fails/'; false"
    played = play(desk, SAYS_SO, f'{{command: [sh, -c, "{named}"], parse: lines}}')
    assert played.outcome == "exhausted"
    assert not any(stalls(played))


@pytest.mark.parametrize(("words", "outcome"), [("Not good enough.", "stuck"), ("", "exhausted")])
def test_own_words_repeat_and_silence_says_nothing(desk: Desk, words: str, outcome: str) -> None:
    """A reviewer that rejects each text, in the same words or without any."""
    machine = MACHINE.replace('command: [sh, -c, "CODE"], stdin: ""', "model: some/model")
    said = {"data": {"verdict": "fail", "summary": words, "findings": []}}
    agents = {"coder": [f"text {n}" for n in range(7)], "critic": [said] * 7}
    played = desk.play(
        machine.replace("RULE", "{judge: critic, reask: 0}"), scenario(agents=agents)
    )
    assert played.outcome == outcome
    assert any(stalls(played)) == bool(words)


MADE_FROM = """
loopkit: 1
limits: {revisions: 6}
agents:
  analyst: {model: some/model}
  author: {model: some/model}
  critic: {model: some/model}
states:
  analyse: {agent: analyst, prompt: Look., output: analysis, next: sum_up, on_error: stuck}
  sum_up: {render: "In short: {{ analysis | length }}", output: summary, next: draft}
  draft: {agent: author, prompt: "Plan by {{ summary }}", output: plan, next: judge}
  judge:
    validate: plan
    by: [{judge: critic}]
    transitions:
      - {guard: valid, target: done}
      - {guard: stalled, target: stuck}
      - {revise: analyse}
      - {target: stuck}
  done: {final: success}
  stuck: {final: failure}
"""


@pytest.mark.parametrize(
    ("analyses", "stalled"),
    [(["one", "two", "six"], [False] * 3), (["one", "two", "two"], [False, False, True])],
)
def test_what_the_work_was_made_from_counts_with_it(
    desk: Desk, analyses: list[str], stalled: list[bool]
) -> None:
    """Two steps back, through a text that stays the same."""
    critic = [fails("A"), fails("B"), fails("C"), PASS]
    agents = {"analyst": [*analyses, "last"], "author": ["plan"] * 4, "critic": critic}
    assert stalls(desk.play(MADE_FROM, scenario(agents=agents)))[:3] == stalled


def test_a_resume_decides_by_the_files_as_they_were_left(durable: Desk) -> None:
    """The judge is lost; meanwhile somebody changes a file. The attempt is what it was."""
    script = scenario(
        agents={"coder": ["Done."] * 3, "critic": [fails("A"), [{"fault": "quota"}, fails("A")]]}
    )
    suspended = durable.play(MACHINE.replace("RULE", "{judge: critic}"), script)
    assert suspended.state.status == "suspended"
    (durable.folder / "work/notes").write_text("by hand")
    played = durable.resume(suspended.state.run)
    assert stalls(played)[-1]
    assert played.outcome == "stuck"


def test_a_recorded_coder_is_played_with_the_files_that_it_left(durable: Desk) -> None:
    played = play(durable, MENDS_ONE, BY_CODE)
    assert len({event.workspace for event in played.of(Replied)}) == 5
    assert_same(taped(durable, played), played)


def test_what_stands_for_the_files_can_be_played(desk: Desk) -> None:
    replies = [{"reply": "Done.", "workspace": word} for word in ("one", "two", "one")]
    (desk.folder / "work").mkdir()
    (desk.folder / "work/todo").write_text("x")
    played = desk.play(
        MACHINE.replace("RULE", BY_CODE), scenario(agents={"coder": replies, "critic": []})
    )
    assert stalls(played) == [False, False, True]


def as_before(event: Event) -> Event:
    """The event as an earlier version wrote it."""
    plain: dict[str, Any] = json.loads(event.to_json())
    for part, name in ((plain, "workspace"), ("artifact", "workspace"), ("report", "work")):
        (part if isinstance(part, dict) else plain.get(part) or {}).pop(name, None)
    for finding in (plain.get("report") or {}).get("findings", ()):
        finding.pop("identified")
    return read_event(event.type, json.dumps(plain))


def test_a_journal_of_before_is_read_and_knows_of_no_files(desk: Desk) -> None:
    played = play(desk, SAYS_SO, BY_NAME)
    state = fold(map(as_before, played.events))
    assert state.status == "finished"
    assert [entry.report.work for entry in state.rounds] == ["", ""]


WRITTEN = loop(
    "[{command: [sh, -c, 'date +%N; false'], parse: lines}]",
    {"valid": "done", "stalled": "stuck"},
    "{revise: write}",
    "{target: exhausted}",
    top="""
limits: {revisions: 3}
workspace: {path: work, create: true}
""",
    draft="write: {WORK, output: text}",
    judge="check",
)


@pytest.mark.parametrize(
    ("work", "outcome"),
    [
        # What a command prints is not all that it does, what a template prints is.
        ("run: [sh, -c, 'date +%N >> notes; echo Done.']", "exhausted"),
        ("render: Done.", "stuck"),
    ],
)
def test_the_same_text_is_no_progress_where_it_is_all_of_the_work(
    desk: Desk, work: str, outcome: str
) -> None:
    (desk.folder / "work").mkdir()
    assert desk.play(WRITTEN.replace("WORK", work)).outcome == outcome


TOLD = """
loopkit: 1
limits: {revisions: 3}
workspace: {path: work, create: true}
agents:
  thinker: {model: some/model}
  coder: {command: [sh, -c, echo Done., sh, "{{ note }}"]}
states:
  think: {agent: thinker, prompt: Think., output: note, next: code, on_error: exhausted}
  code: {agent: coder, prompt: Do it., next: check}
  check:
    validate: code
    by: [{command: [sh, -c, 'date +%N; false'], parse: lines}]
    transitions:
      - {guard: valid, target: done}
      - {guard: stalled, target: stuck}
      - {revise: think}
      - {target: exhausted}
  done: {final: success}
  stuck: {final: failure}
  exhausted: {final: failure}
"""


@pytest.mark.parametrize(("notes", "outcome"), [("abcd", "exhausted"), ("aaaa", "stuck")])
def test_what_a_program_is_told_in_an_argument_is_part_of_the_work(
    desk: Desk, notes: str, outcome: str
) -> None:
    (desk.folder / "work").mkdir()
    assert desk.play(TOLD, scenario(agents={"thinker": [*notes]})).outcome == outcome
