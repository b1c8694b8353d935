"""A raised limit opens what was proved closed: it is proved again, from where the run stands."""

from __future__ import annotations

import json
import random

import pytest

from loopkit.agents.port import NotRunnable
from loopkit.cli import invoke
from loopkit.engine.events import Decided, Resumed
from loopkit.language.load import load_text
from loopkit.language.machine import Machine
from loopkit.proof.bounds.configurations import present_of
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.outcomes.analysis import Analysis
from tests.generated import generated
from tests.machines import loop
from tests.replay import Replay, price
from tests.support import Desk, scenario
from tests.test_large_machines import HERE

MACHINE = loop(
    "[{min_chars: 20}]",
    {"valid": "accepted"},
    "{guard: attempt < 4, revise: draft, max: 9}",
    "{guard: cap_reached and attempt < 4, target: exhausted}",
    top="""
limits: {total_revisions: 2}
agents: {author: {command: [none], retry: {attempts: 1}}}
""",
)


SCRIPT = scenario(agents={"author": ["one", [{"fault": "connection"}, "two"], "three", "four"]})


def test_a_total_with_which_a_run_could_get_stuck_is_refused_and_nothing_is_stored(
    durable: Desk,
) -> None:
    run = durable.play(MACHINE, SCRIPT).state.run
    with pytest.raises(NotRunnable) as refused:
        durable.resume(run, {"total_revisions": 5})
    message = str(refused.value)
    assert message.startswith("`limits.total_revisions` can't be 5 in this run: `judge` would have")
    assert '`verdict` is "fail"' in message
    assert "draft → judge → draft → judge → draft → judge" in message
    assert "`- {target: STATE}` as the last transition of `judge`" in message
    assert "total = 3" in message
    # Nothing of it was stored, and the run goes on under the limit that was proved.
    resumed = durable.resume(run)
    assert [event.limits for event in resumed.of(Resumed)] == [{}]
    assert resumed.outcome == "exhausted"


def test_a_total_with_which_every_run_ends_is_taken(durable: Desk) -> None:
    last = "      - {guard: attempt > 3, target: exhausted}\n"
    machine = MACHINE.replace("  accepted: {final", f"{last}  accepted: {{final", 1)
    run = durable.play(machine, SCRIPT).state.run
    resumed = durable.resume(run, {"total_revisions": 5})
    assert resumed.outcome == "exhausted"
    assert resumed.state.counters["total"] == 3


def test_what_lies_behind_a_run_refuses_nothing(durable: Desk) -> None:
    states = """  first: {agent: author, prompt: Write., output: plan, next: judge}
  judge:
    validate: plan
    by: [{min_chars: 2}]
    transitions:
      - {guard: valid, target: last}
      - {guard: attempt < 4, revise: first, max: 9}
      - {guard: cap_reached and attempt < 4, target: exhausted}
  last:
    agent: author
    prompt: Write.
    output: more
    on_error: {content: exhausted}
    next: accepted
"""
    head, _, tail = MACHINE.partition("  draft:")
    machine = head + states + "  accepted:" + tail.partition("  accepted:")[2]
    run = durable.play(
        machine, scenario(agents={"author": ["one", [{"fault": "connection"}, "two"]]})
    )
    # From the start it could get stuck; from `last` nothing leads back.
    assert durable.resume(run.state.run, {"total_revisions": 5}).outcome == "accepted"


def test_other_limits_are_no_matter_of_the_proof(durable: Desk) -> None:
    run = durable.play(MACHINE, SCRIPT).state.run
    assert durable.resume(run, {"agent_calls": 50}).outcome == "exhausted"


def test_the_refusal_has_exit_code_2(
    durable: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = durable.play(MACHINE, SCRIPT).state.run
    monkeypatch.chdir(durable.folder)
    assert invoke(["resume", run, "--set", "limits.total_revisions=5"]) == 2
    assert "error: `limits.total_revisions` can't be 5 in this run" in capsys.readouterr().err


OF_AUTHOR = """
loopkit: 1
limits: {revisions: 1}
agents: {author: {command: [none]}}
states:
  draft: {agent: author, prompt: Write., output: text, next: length}
  length:
    validate: text
    by: [{min_chars: 5}]
    transitions: [{guard: valid, target: words}, {revise: draft, max: 3}, {target: ask}]
  words:
    validate: text
    by: [{matches: please}]
    transitions: [{guard: valid, target: done}, {revise: draft}, {target: ask}]
  ask:
    human: Again?
    choices: [again, stop]
    transitions: [{guard: choice == "again", revise: draft, feedback: Again.}, {target: failed}]
  done: {final: success}
  failed: {final: failure}
"""


@pytest.mark.parametrize("limits", ["limits: {revisions: 1}", "limits: {}"])
def test_all_edges_to_an_author_share_its_revisions_which_an_answer_raises(
    durable: Desk, limits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(durable.folder)
    # Without the limit, the edge with a cap of its own counts alone.
    texts = (
        ["one", "second"] if "revisions" in limits else ["one", "second", "third time", "fourth"]
    )
    machine = OF_AUTHOR.replace("limits: {revisions: 1}", limits)
    run = durable.play(machine, scenario(agents={"author": [*texts, "please", "never"]}))
    spent = len(texts) - 1
    shared = spent if "revisions" in limits else spent - 1
    assert run.state.counters["revisions:draft"] == shared
    assert [event.revision.revision for event in run.of(Decided) if event.revision][-1] == shared
    question = run.state.question
    assert question is not None
    assert question.choices[0].closed.endswith(f"`--set limits.revisions={shared + 1}` opens it")
    name = run.state.run
    assert invoke(["answer", name, "again"]) == 2
    assert invoke(["answer", name, "again", "--set", f"limits.revisions={shared}"]) == 2
    assert invoke(["answer", name, "again", "--set", f"limits.revisions={shared + 1}"]) == 0


@pytest.mark.parametrize(
    "batch", [0, 1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 4))]
)
def test_from_where_a_run_stands_the_bounds_are_those_of_all_that_is_ahead(batch: int) -> None:
    """Some steps into generated machines, all paths of the engine from there on."""
    compared = 0
    for number in range(batch * 20, batch * 20 + 20):
        machine: Machine = load_text(json.dumps(generated(number)), "m.yaml", HERE).machine
        analysis, replay = Analysis.of_machine(machine), Replay(machine, 10_000)
        chance = random.Random(number)
        run = chance.choice(list(replay.starts()))
        for _ in range(chance.randint(1, 6)):
            ahead = [step.run for step in replay.steps(run)]
            going = [one for one in ahead if one.status not in ("finished", "suspended")]
            if not going:
                break
            run = chance.choice(going)
        bounds = explore(analysis, price=price, present=present_of(analysis, run))
        if (bounds.configurations or 10**9) > 60:
            continue
        paths, compared = replay.all_paths(run), compared + 1
        measures = (bounds.runs, bounds.calls, bounds.cost)
        assert paths.worst == tuple(measure.worst.total for measure in measures), number
        best = tuple(m.best.total if m.best else float("inf") for m in measures)
        assert paths.best == best, number
    assert compared > 8
