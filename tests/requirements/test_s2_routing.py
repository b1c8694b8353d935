"""S2: a review finds which phase injected a defect, and the run goes back there, within bounds."""

from __future__ import annotations

from typing import Any

from loopkit.engine.events import Decided, Entered
from tests.support import Desk, Played, scenario

PIPELINE = """
loopkit: 1
origins: [planning, design, code]
limits: {total_revisions: 5, revisions: 3}
agents: {writer: {model: some/writer, schema: {text: str}}}
feedback:
  defects: |
    {% for f in findings %}{{ f.message }}{{ " (assumed)" if f.defaulted else "" }} {% endfor %}
states:
  planning:
    agent: writer
    prompt: |
      {% if feedback %}Mend {{ previous.text }}: {{ feedback }}{% else %}Plan.{% endif %}
      {{ schema }}
    output: plan
    next: check_plan
  check_plan:
    validate: plan
    by: [{require: 'text != ""', message: It is empty.}]
    transitions: [{guard: valid, target: design}, {revise: planning}, {target: escalated}]
  design: {agent: writer, prompt: "Design {{ plan.text }}.", output: spec, next: review}
  review:
    validate: spec
    by:
      - {not_matches: NO UNIT, origin: planning, message: A unit is missing.}
      - {not_matches: NO GOAL, origin: planning, message: The goal is missing.}
      - {not_matches: NO API, message: An interface is missing.}
    transitions:
      - {guard: valid, target: code}
      - {revise: {origin: [planning, design]}, feedback: defects, resets: [code]}
      - {target: escalated}
  code: {agent: writer, prompt: "Code {{ spec.text }}.", output: source, next: test}
  test:
    validate: source
    by:
      - {not_matches: BAD API, origin: design, message: The interface is wrong.}
      - {not_matches: BAD CODE, message: A test fails.}
    transitions:
      - {guard: valid, target: done}
      - {revise: {origin: [planning, design, code]}, feedback: defects, max: 2}
      - {target: escalated}
  escalated:
    human: What now?
    show: [plan, spec, source, report]
    choices: [stop]
    transitions: [{target: failed}]
  done: {final: success, result: [plan, spec, source]}
  failed: {final: failure, result: [plan, spec, source]}
"""


def played(desk: Desk, *texts: str, text: str = PIPELINE, **more: Any) -> Played:
    """One reply after the other, whoever is asked."""
    return desk.play(
        text, scenario(agents={"writer": [{"data": {"text": t}} for t in texts]}, **more)
    )


def told(run: Played) -> list[tuple[str, str]]:
    return [(f.to, f.text.strip()) for event in run.of(Decided) for f in event.feedback]


def test_s2_6_a_finding_without_attribution_falls_to_the_last_phase_and_is_marked(
    desk: Desk,
) -> None:
    run = played(desk, "P", "NO API", "S2", "C")
    assert told(run) == [("design", "An interface is missing. (assumed)")]
    [found] = next(iter(run.state.rounds_at["review"])).report.findings
    assert (found.origins, found.defaulted) == (("design",), True)


def test_s2_9_a_corrected_artifact_is_what_is_judged_next(desk: Desk) -> None:
    run = played(desk, "P", "NO API 1", "NO API 2", "S3", "C")
    judged = [entry.judged.data["text"] for entry in run.state.rounds_at["review"]]
    assert judged == ["NO API 1", "NO API 2", "S3"]
    assert run.result["spec"] == {"text": "S3"}


def test_s2_11_several_findings_for_one_phase_are_corrected_in_one_call(desk: Desk) -> None:
    run = played(desk, "P", "NO UNIT NO GOAL", "P2", "S2", "C")
    assert told(run) == [("planning", "A unit is missing. The goal is missing.")]
    assert len(run.prompts("writer")) == 5


def test_s2_13_a_reset_is_declared_and_the_whole_still_bounds(desk: Desk) -> None:
    codes = ["BAD CODE 1", "BAD CODE 2", "BAD API BAD CODE 3", "NO API", "S3"]
    run = played(desk, "P", "S", *codes, "BAD CODE 4", "BAD CODE 5")
    # Sent back from the review, the code has its two revisions anew; the total has not.
    assert run.state.counters["test[1].code"] == 1
    assert run.state.counters["total"] == 5
    assert run.route[-2:] == ["test", "escalated"]


def test_s2_14_the_total_is_looked_at_before_every_work(desk: Desk) -> None:
    text = PIPELINE.replace("total_revisions: 5", "total_revisions: 1")
    run = played(desk, "P", "NO API", "S", "BAD CODE", text=text)
    assert run.state.counters["total"] == 1
    assert run.route[-2:] == ["test", "escalated"]
    assert len(run.prompts("writer")) == 4


def test_s2_21_and_25_a_prompt_differs_with_feedback_and_shows_the_previous_artifact(
    desk: Desk,
) -> None:
    run = played(desk, "P", "NO UNIT", "P2", "S2", "C")
    first, again = run.prompts("writer")[0], run.prompts("writer")[2]
    assert first.startswith("Plan.")
    assert again.startswith("Mend P: A unit is missing.")


def test_s2_22_a_name_that_may_be_missing_on_the_way_back_is_found_before_the_run(
    desk: Desk,
) -> None:
    text = PIPELINE.replace("Plan.{% endif %}", "Plan. {{ spec.text }}{% endif %}")
    assert [p.code for p in desk.problems(text) if p.severity == "error"] == ["may-be-missing"]


def test_s2_24_the_schema_in_the_revise_prompt_is_the_one_that_is_enforced(desk: Desk) -> None:
    run = played(desk, "P", "NO UNIT", "P2", "S2", "C")
    assert '"required": [\n    "text"\n  ]' in run.prompts("writer")[2]
    other = desk.play(PIPELINE, scenario(agents={"writer": [{"data": {"words": "P"}}]}))
    assert "`text` is missing" in other.reports[0].findings[0].message


REPAIR = """
loopkit: 1
agents: {fixer: {model: some/fixer, schema: {fixes: [str], program: str}}}
states:
  patch:
    agent: fixer
    prompt: |
      Repair {{ previous.program | default("x = 1 +") }}
      {% for round in history %}
      {{ round.artifact.program }} failed: {{ round.findings | map(attribute="message") | join }}
      {% endfor %}
    output: patched
    next: test
  test:
    validate: patched
    by:
      - {require: fixes.count > 0, code: NONE}
      - {not_matches: 'bug \\d', message: "{{ value }} is left."}
    transitions:
      - {guard: valid, target: done}
      - {guard: '"NONE" in codes', target: escalated}
      - {revise: patch, from: best, max: 3}
      - {target: escalated}
  escalated: {human: Nobody knows a fix., choices: [stop], transitions: [{target: failed}]}
  done: {final: success, result: patched}
  failed: {final: failure}
"""


def test_s2_38_a_patch_that_fails_is_taken_back_and_what_was_tried_is_in_the_prompt(
    desk: Desk,
) -> None:
    tried = ["bug 1", "bug 1 bug 2", "x = 1"]
    fixes: list[dict[str, Any]] = [{"data": {"fixes": ["a"], "program": text}} for text in tried]
    run = desk.play(REPAIR, scenario(agents={"fixer": fixes}))
    prompt = run.prompts("fixer")[2]
    assert prompt.startswith("Repair bug 1\n")
    assert "bug 1 failed: bug 1 is left." in prompt
    assert "bug 1 bug 2 failed: bug 1 is left.bug 2 is left." in prompt
    assert run.result["patched"]["program"] == "x = 1"


def test_s2_38_no_fix_at_all_is_for_a_person(desk: Desk) -> None:
    nothing = {"data": {"fixes": [], "program": "bug 1"}}
    run = desk.play(REPAIR, scenario(agents={"fixer": [nothing]}))
    assert run.route == ["patch", "test", "escalated"]


def test_s2_43_each_decision_is_recorded_with_its_rule_and_its_inputs(desk: Desk) -> None:
    run = played(desk, "P", "NO API NO UNIT", "P2", "S2", "C")
    back = next(event for event in run.of(Decided) if event.spends)
    assert (back.edge, back.facts["origin"], back.bits) == (
        "review[1].planning", "planning", (False, True, False, True),
    )  # fmt: skip
    assert [(d.to, d.by, d.edge) for d in back.deferrals] == [
        ("design", "review", "review[1].design")
    ]
    assert all(event.by for event in run.of(Entered)[1:])


def test_s2_45_seven_phases_are_a_list_and_each_route_is_one_line(desk: Desk) -> None:
    names = [f"phase{n}" for n in range(7)]
    states = "".join(
        f"  {name}: {{agent: writer, prompt: '{made}', output: out{n}, next: gate{n}}}\n"
        f"  gate{n}:\n    validate: out{n}\n    by:\n"
        + "".join(
            f"      - {{not_matches: BAD {n} OF {m}, origin: {names[m]}, message: 'Of {m}.'}}\n"
            for m in range(n + 1)
        )
        + f"    transitions: [{{guard: valid, target: {names[n + 1] if n < 6 else 'done'}}}, "
        f"{{revise: {{origin: [{', '.join(names[: n + 1])}]}}, max: 3}}, {{target: failed}}]\n"
        for n, name in enumerate(names)
        for made in ["Do it." if n == 0 else f"Make it of {{{{ out{n - 1} }}}}."]
    )
    text = (
        f"loopkit: 1\norigins: [{', '.join(names)}]\nlimits: {{total_revisions: 10}}\n"
        f"agents: {{writer: {{model: some/writer}}}}\nstates:\n{states}"
        "  done: {final: success}\n  failed: {final: failure}\n"
    )
    work = [*"012345", "BAD 6 OF 2 BAD 6 OF 5", *"234567"]
    run = desk.play(text, scenario(agents={"writer": work}))
    assert run.outcome == "done"
    assert run.route[14] == "phase2"
    assert [to for to, _ in told(run)] == ["phase2", "phase5"]
