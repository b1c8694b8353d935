"""S1: what validators and authors are told, what comes of each verdict, and the log for people."""

from __future__ import annotations

import sys
from typing import Any

from tests.support import PASS, Desk, Played, scenario, warns

MACHINE = """
loopkit: 1
input:
  task: {id: str, name: str, description: str}
  expected: {type: [str], default: []}
  test_command: {type: str, default: make test}
  requirements: {type: str, default: docs/requirements.md}
  end_to_end: {type: bool, default: false}
limits: {revisions: 2}
agents:
  builder: {model: some/model, system: You build what a task asks for.}
  verifier: {model: some/model, system: You verify and never edit.}
validators:
  verified:
    judge: verifier
    prompt: |
      Verify task {{ input.task.id }} ({{ input.task.name }}): {{ input.task.description }}
      Test it with: {{ input.test_command }}
      Requirements: {{ input.requirements }}
      The command ended with {{ tests.exit_code }} ({{ tests.stderr }}), attempt {{ attempt }}.
      {% for path in input.expected %}
      - {{ path }}
      {% endfor %}
      {% if input.end_to_end %}
      ## End to end
      Follow every acceptance criterion to a test.
      {% endif %}
      {{ work | untrusted }}
      {{ FORM }}
feedback:
  failed: |
    ## PREVIOUS VALIDATION FAILED
    (attempt {{ attempt }}, revision {{ revision }} of {{ max_revisions }})

    You must address these findings:
    {% for finding in findings %}
    - {{ finding.message }}
    {% endfor %}

    ---
states:
  build:
    agent: builder
    prompt: |
      {% if feedback %}
      {{ feedback }}

      {% endif %}
      This is attempt {{ attempt }}. Do {{ input.task.description }}.
    output: work
    next: tests
  tests: {run: [sh, -c, "printf slow >&2"], next: verify}
  verify:
    validate: work
    by: [verified]
    transitions:
      - {guard: valid, target: log}
      - {guard: cap_reached, target: log}
      - {revise: build, feedback: failed}
  log:
    run: [PYTHON, -c, APPEND]
    stdin: |
      ### Task {{ input.task.id }} - {{ report.verdict | upper }}
      {% for finding in report.findings %}
      - [{{ finding.severity }}] {{ finding.message }}
      {% endfor %}
    next: routed
  routed:
    transitions:
      - {guard: 'reports.verify.verdict in ["pass", "warn"]', target: completed}
      - {target: exhausted}
  completed: {final: success, result: work}
  exhausted: {final: failure, result: work}
"""
APPEND = "import sys; open('verification.md', 'a').write(sys.stdin.read())"
TASK = {"task": {"id": "1.1", "name": "Quoting", "description": "quote line breaks"}}
FORM = 'Answer {"verdict": "pass|warn|fail", "findings": []}.'


def play(desk: Desk, verifier: list[Any], inputs: dict[str, Any] | None = None) -> Played:
    machine = MACHINE.replace("PYTHON", sys.executable).replace("APPEND", f'"{APPEND}"')
    machine = machine.replace("{{ FORM }}", FORM)
    script = scenario(agents={"builder": ["one", "two", "three"], "verifier": verifier})
    return desk.play(machine, script, {**TASK, **(inputs or {})})


def test_the_validator_is_told_everything_about_its_task(desk: Desk) -> None:
    """S1.31: body, task, result, expected files, commands, paths, each by a name."""
    played = play(desk, [PASS], {"expected": ["a.py", "b.py"], "test_command": "tox"})
    [prompt] = played.prompts("verifier")
    assert prompt.startswith("Verify task 1.1 (Quoting): quote line breaks\nTest it with: tox\n")
    assert "docs/requirements.md\nThe command ended with 0 (slow), attempt 1.\n" in prompt
    assert "- a.py\n- b.py\n" in prompt
    [request] = played.asked("verifier")
    assert request.messages[0].content == "You verify and never edit."


def test_each_verdict_is_appended_to_a_log_for_people(desk: Desk) -> None:
    """S1.36: the file grows, run by run."""
    play(desk, [warns("Long.")])
    play(desk, [PASS])
    log = (desk.folder / "verification.md").read_text()
    assert log == "### Task 1.1 - WARN\n- [warning] Long.\n### Task 1.1 - PASS\n"
