"""The compiled machine against a second opinion, on generated machines and paths."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import cycle, islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopkit.engine.changes import fold
from loopkit.engine.events import Decided, Entered, Finished, Started, Worked
from loopkit.engine.macrostep import Engine
from loopkit.engine.payloads import Artifact
from loopkit.engine.state import RunState
from loopkit.language.machine import Machine
from loopkit.machine.compiler import NoEdge
from loopkit.machine.program import Program
from tests.reference import HOLDS, interpret

LONGEST = 400


@st.composite
def machines(draw: st.DrawFn) -> dict[str, Any]:
    """Machines of `run` states in a row, with every kind of budget on their revise edges."""
    names = [f"s{i}" for i in range(draw(st.integers(1, 5)))]
    budgets = {"shared": draw(st.integers(0, 3)), "other": draw(st.integers(0, 2))}
    limits: dict[str, Any] = {"budgets": budgets}
    if draw(st.booleans()):
        limits["revisions"] = draw(st.integers(0, 3) | st.just("input.n"))
    has_total = draw(st.booleans())
    if has_total:
        limits["total_revisions"] = draw(st.integers(0, 6))
    states: dict[str, Any] = {}
    for index, name in enumerate(names):
        later = [*names[index + 1 :], "done", "failed"]
        edges = draw(st.lists(_edges(names[: index + 1], later, has_total), max_size=4))
        forward = names[index + 1] if index + 1 < len(names) else "done"
        if not any("revise" in edge for edge in edges):
            # `cap_reached` is a name only where the state has a revise edge.
            edges = [edge for edge in edges if "cap_reached" not in edge.get("guard", "")]
        states[name] = {"run": ["true"], "transitions": [*edges, {"target": forward}]}
    states |= {"done": {"final": "success"}, "failed": {"final": "failure"}}
    inputs = {"n": {"type": "int", "minimum": 0, "maximum": 3}}
    return {"loopkit": 1, "name": "m", "input": inputs, "limits": limits, "states": states}


@st.composite
def _edges(
    draw: st.DrawFn, earlier: list[str], later: list[str], has_total: bool
) -> dict[str, Any]:
    guard = draw(st.sampled_from([g for g in HOLDS if g is not None]))
    guarded = {} if guard is None else {"guard": guard}
    if draw(st.booleans()):
        return {**guarded, "target": draw(st.sampled_from(later))}
    edge = {**guarded, "revise": draw(st.sampled_from(earlier)), "feedback": "again"}
    if draw(st.booleans()):
        edge["max"] = draw(st.integers(0, 3))
    if draw(st.booleans()):
        edge["budget"] = draw(st.sampled_from(["shared", "other"]))
    if has_total and draw(st.booleans()):
        edge["resets"] = draw(st.lists(st.sampled_from(earlier), min_size=1, max_size=2))
    return edge


def played(raw: Mapping[str, Any], inputs: Mapping[str, int], exit_codes: list[int]) -> list[str]:
    """The edges that the engine takes, macrostep by macrostep."""
    engine = Engine(Program(Machine.model_validate(raw), "digest"))
    started = Started(run="r", machine="m", definition="digest", folder="", input=dict(inputs))
    run = engine.begin(fold([started]), 0.0).run
    for code in exit_codes:
        if run.finished is not None:
            break
        run = engine.step(run, completed(run, code), 0.0).run
    return [*run.route]


def completed(run: RunState, code: int) -> Worked:
    artifact = Artifact(name=run.state, author=run.state, attempt=run.visit, text="x")
    return Worked(
        state=run.state,
        visit=run.visit,
        outcome="done",
        facts={"exit_code": code},
        artifact=artifact,
    )


DRAWN = (machines(), st.integers(0, 3), st.lists(st.integers(0, 3), min_size=1, max_size=30))


def assert_takes_the_path(raw: dict[str, Any], n: int, codes: list[int]) -> None:
    exit_codes = list(islice(cycle(codes), LONGEST))
    assert played(raw, {"n": n}, exit_codes) == interpret(raw, {"n": n}, exit_codes)


@given(*DRAWN)
def test_the_compiled_machine_takes_the_path_of_the_reference_interpreter(
    raw: dict[str, Any], n: int, codes: list[int]
) -> None:
    assert_takes_the_path(raw, n, codes)


@pytest.mark.long
@settings(max_examples=3_000)
@given(*DRAWN)
def test_each_of_many_compiled_machines_takes_the_path_of_the_reference_interpreter(
    raw: dict[str, Any], n: int, codes: list[int]
) -> None:
    assert_takes_the_path(raw, n, codes)


LOOP = {
    "loopkit": 1,
    "name": "m",
    "limits": {"revisions": 2},
    "states": {
        "work": {
            "run": ["true"],
            "transitions": [
                {"guard": "exit_code == 0", "target": "done"},
                {"guard": "exit_code == 3", "revise": "work", "feedback": "again", "emit": "redo"},
            ],
        },
        "done": {"final": "success"},
    },
}


STARTED: dict[str, Any] = {
    "run": "r", "machine": "m", "definition": "digest", "folder": "", "input": {},
}  # fmt: skip


def run_at_work() -> tuple[Engine, RunState]:
    engine = Engine(Program(Machine.model_validate(LOOP), "digest"))
    return engine, engine.begin(fold([Started(**STARTED)]), 0.0).run


def test_one_piece_of_work_is_one_macrostep_of_worked_decided_entered() -> None:
    engine, run = run_at_work()
    events = engine.step(run, completed(run, 0), 0.0).events
    assert [event.type for event in events] == ["worked", "decided", "entered", "finished"]
    assert isinstance(events[-1], Finished)
    assert events[-1].success


def test_a_decision_records_the_edge_the_facts_and_a_bit_for_each_edge() -> None:
    engine, run = run_at_work()
    events = engine.step(run, completed(run, 3), 0.0).events
    decided = next(e for e in events if isinstance(e, Decided))
    assert (decided.edge, decided.bits) == ("work[1]", (False, True))
    assert decided.facts["exit_code"] == 3
    assert decided.facts["revisions"] == 0
    assert decided.spends == ("revisions:work",)


def test_the_same_work_gives_the_same_events() -> None:
    engine, run = run_at_work()
    first, again = (engine.step(run, completed(run, 3), 5.0) for _ in range(2))
    assert first.events == again.events
    assert first.run == again.run


def test_work_that_leads_nowhere_is_told_and_leaves_the_shared_engine_usable() -> None:
    engine, run = run_at_work()
    with pytest.raises(NoEdge, match="no edge of `work` is enabled"):
        engine.step(run, completed(run, 1), 0.0)
    events = engine.step(run, completed(run, 0), 0.0).events
    assert isinstance(events[-1], Finished)


def test_runs_share_one_engine_without_seeing_each_other() -> None:
    engine, first = run_at_work()
    second = first
    for _ in range(2):
        first = engine.step(first, completed(first, 3), 0.0).run
        entered = engine.step(second, completed(second, 0), 0.0).events
        assert any(isinstance(e, Entered) and e.state == "done" for e in entered)
    assert first.counters == {"revisions:work": 2}
    assert second.counters == {}


def test_guards_may_name_the_facts_of_their_own_state_with_its_name() -> None:
    raw = json.loads(json.dumps(LOOP).replace("exit_code ==", "work.exit_code =="))
    engine = Engine(Program(Machine.model_validate(raw), "digest"))
    run = engine.begin(fold([Started(**STARTED)]), 0.0).run
    step = engine.step(run, completed(run, 3), 0.0)
    decided = next(event for event in step.events if isinstance(event, Decided))
    assert decided.edge == "work[1]"
    assert decided.facts["work.exit_code"] == 3


def test_the_artifact_of_a_program_is_not_all_that_it_leaves() -> None:
    raw = {
        "loopkit": 1,
        "agents": {"model": {"model": "a/writer"}, "program": {"command": ["true"]}},
        "states": {
            "drafted": {"agent": "model", "prompt": "Write.", "next": "edited"},
            "edited": {"agent": "program", "prompt": "Edit.", "next": "ran"},
            "ran": {"run": ["true"], "next": "filled"},
            "filled": {"render": "Filled.", "next": "done"},
            "done": {"final": "success"},
        },
    }
    whole = Program(Machine.model_validate(raw), "digest").whole_authors
    assert {"drafted", "filled"} <= whole
    assert not {"edited", "ran"} & whole
