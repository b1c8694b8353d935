"""Figures of a run while it goes on: `telemetry` in templates, and alerts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loopkit.cli import invoke
from loopkit.engine.changes import fold
from loopkit.engine.events import Alerted, Event
from loopkit.engine.telemetry import Figures
from tests.support import PASS, Desk, Played, fails, scenario
from tests.warm import ran_loopkit

POSTMORTEM = """
loopkit: 1
origins: [planning, design]
agents: {writer: {model: openai/x}}
states:
  planning: {agent: writer, prompt: Plan it., output: plan, next: check}
  check:
    validate: plan
    by: [{min_chars: 1}]
    transitions: [{guard: valid, target: design}, {target: failed}]
  design: {agent: writer, prompt: "Design {{ plan }}", output: drawing, next: review}
  review:
    validate: drawing
    by:
      - {matches: login, code: login, origin: planning, message: The plan has no login.}
      - {matches: names, code: names, message: Name the parts.}
    transitions:
      - {guard: valid, target: postmortem}
      - {revise: {origin: [planning, design]}, max: 3}
      - {target: failed}
  postmortem:
    render: |
      {{ telemetry.calls }} calls, {{ telemetry.cost_usd }} USD
      {% for defect in telemetry.defects %}
      {% set times = defect.attempts %}
      {{ defect.code }} of {{ defect.injected | join(" and ") }},
      {{- " " ~ defect.status }}, {{ defect.cost_usd }}, {{ times.planning | default(0) }}
      {{- " + " ~ times.design | default(0) }}
      {% endfor %}
    next: done
  done: {final: success, result: postmortem}
  failed: {final: failure}
"""


def work(text: str, usd: float) -> dict[str, Any]:
    return {"reply": text, "cost_usd": usd}


@pytest.fixture
def desk(own_folder: Path) -> Desk:
    return Desk(own_folder, in_memory=False)


def drawn(*texts: str) -> str:
    """Plan and design cost 1, 2, 4 and 8 cents, and so on."""
    works = [work(text, 2**number / 100) for number, text in enumerate(texts)]
    return scenario(agents={"writer": works})


def test_a_postmortem_has_all_defects_of_all_phases_with_what_each_took(desk: Desk) -> None:
    played = desk.play(POSTMORTEM, drawn("plan", "d", "plan", "login", "login, names"))
    # Planning works for the login alone, the design for both, and then for the names alone.
    assert played.result["postmortem"].splitlines() == [
        "5 calls, 0.31 USD",
        "login of planning, resolved, 0.08, 1 + 1",
        "names of design, resolved, 0.2, 0 + 2",
    ]


def test_the_figures_of_a_resumed_run_are_those_of_one_that_never_stopped(desk: Desk) -> None:
    text = POSTMORTEM.replace("    render: |", "    human: |").replace(
        "    next: done", "    choices: [file]\n    transitions: [{target: done}]"
    )
    text = text.replace("result: postmortem", "result: drawing")
    waiting = desk.play(text, drawn("plan", "names", "better plan", "login, names"))
    told = "login of planning, resolved, 0.12, 1 + 1"
    assert told in waiting.questions[-1].text
    assert told in ran_loopkit("runs", "show", waiting.state.run).stdout
    assert desk.answer(waiting.state.run, "file").outcome == "done"


def test_a_run_keeps_no_events_for_figures_that_its_machine_never_names(desk: Desk) -> None:
    plain = ALERTING.replace("alert: {correction_rate: 0.5}\n", "")
    assert desk.play(plain, SCRIPT).state.counted is None
    assert desk.play(ALERTING, SCRIPT).state.counted is not None


def test_the_figures_of_a_run_are_those_of_all_its_events(desk: Desk) -> None:
    played = desk.play(ALERTING, SCRIPT)
    assert fold(played.events).figures.phases == whole(played.events).phases


def whole(events: list[Event]) -> Figures:
    figures = Figures()
    for event in events:
        figures.take(event)
    return figures


# -- alerts -------------------------------------------------------------------------------------

ALERTING = """
loopkit: 1
alert: {correction_rate: 0.5}
limits: {revisions: 5}
agents: {writer: {model: openai/x}, critic: {model: openai/y}}
states:
  draft: {agent: writer, prompt: Write., next: check}
  check:
    validate: draft
    by: [{judge: critic}]
    transitions: [{guard: valid, target: done}, {revise: draft}, {target: failed}]
  done: {final: success, result: draft}
  failed: {final: failure}
"""
SCRIPT = scenario(
    agents={"writer": list("abcd"), "critic": [fails("No."), fails("No!"), fails("Why?"), PASS]}
)


def alerts(played: Played) -> list[Alerted]:
    return played.of(Alerted)


def test_an_alert_is_raised_once_when_the_share_of_corrections_passes_the_threshold(
    desk: Desk,
) -> None:
    """S2.42: the threshold stands in the machine; 1 of 2 works reaches it, 2 of 3 pass it."""
    played = desk.play(ALERTING, SCRIPT)
    [alert] = alerts(played)
    assert (alert.works, alert.corrections, alert.value, alert.threshold) == (3, 2, 2 / 3, 0.5)
    types = [event.type for event in played.events]
    at = types.index("alerted")
    assert types[at - 2 : at + 2] == ["worked", "decided", "alerted", "entered"]
    assert played.outcome == "done"


@pytest.mark.parametrize(("threshold", "count"), [(0, 1), (0.66, 1), (0.67, 1), (0.75, 0)])
def test_a_threshold_that_is_not_passed_alerts_nobody(
    desk: Desk, threshold: float, count: int
) -> None:
    played = desk.play(ALERTING.replace("0.5}", f"{threshold}}}"), SCRIPT)
    assert len(alerts(played)) == count


def test_an_alert_is_not_raised_again_by_a_resume(desk: Desk) -> None:
    text = ALERTING.replace("target: done}", "target: asked}").replace(
        "  done:",
        "  asked: {human: Good?, choices: [yes_, no_], transitions: "
        '[{guard: choice == "no_", revise: draft, feedback: Again.}, {target: done}]}\n  done:',
    )
    script = scenario(
        agents={
            "writer": list("abcde"),
            "critic": [fails("No."), fails("No!"), PASS, PASS],
        }
    )
    waiting = desk.play(text, script)
    assert len(alerts(waiting)) == 1
    again = desk.answer(waiting.state.run, "no_")
    assert again.state.figures.correction_rate == 0.75
    assert len(alerts(again)) == 1


def test_an_alert_is_told_on_the_console_and_to_the_notifier_while_the_run_goes_on(
    desk: Desk,
) -> None:
    desk.write("m.yaml", ALERTING.replace("loopkit: 1\n", "loopkit: 1\nname: m\n"))
    desk.write("s.yaml", SCRIPT)
    done = ran_loopkit(
        "run", "m.yaml", "--script", "s.yaml", "--notify", "sh -c 'cat >> told; echo >> told'"
    )
    assert done.returncode == 0, done.stderr
    limit = "alert: 67% of the works are corrections (2 of 3 works); 50% are the limit"
    assert limit in done.stderr
    first, last = map(json.loads, (desk.folder / "told").read_text().splitlines())
    assert (first["status"], first["alert"]["corrections"]) == ("running", 2)
    assert (last["status"], last["alert"]) == ("finished", first["alert"])


def test_a_notifier_that_fails_at_an_alert_is_reported_and_changes_nothing(desk: Desk) -> None:
    desk.write("m.yaml", ALERTING)
    desk.write("s.yaml", SCRIPT)
    program = "sh -c 'grep -q finished || { echo no such hook >&2; exit 7; }'"
    done = ran_loopkit("run", "m.yaml", "--script", "s.yaml", "--notify", program)
    assert done.returncode == 0
    assert "the notifier failed: `sh` ended with exit code 7: no such hook" in done.stderr


def test_a_child_alerts_in_its_own_events_and_leaves_the_notifier_to_its_root(desk: Desk) -> None:
    desk.write("part.yaml", ALERTING)
    desk.write(
        "m.yaml", "loopkit: 1\nstates:\n  a: {machine: part.yaml, next: b}\n  b: {final: success}\n"
    )
    child = {"agents": json.loads(SCRIPT)["agents"]}
    desk.write("s.yaml", scenario(children={"a": child}))
    done = ran_loopkit("run", "m.yaml", "--script", "s.yaml", "--notify", "sh -c 'cat >> told'")
    assert done.returncode == 0, done.stderr
    assert "a alert: 67%" in " ".join(done.stderr.split())
    [told] = [json.loads(line) for line in (desk.folder / "told").read_text().splitlines()]
    assert (told["status"], told["alert"]) == ("finished", None)


def test_a_killed_run_alerts_once(desk: Desk) -> None:
    """Whatever stops it: the alert is in the same append as the work that raised it."""
    played = desk.abort(ALERTING, SCRIPT, in_call=6)
    assert len(alerts(played)) == 1
    assert len(alerts(desk.resume(played.state.run))) == 1
    assert invoke(["stats", played.state.run]) == 0
