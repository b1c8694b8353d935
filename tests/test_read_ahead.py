"""What of a configuration is read ahead."""

from pathlib import Path

from loopkit.language.load import load_text
from loopkit.proof.bounds.plans import live
from loopkit.proof.bounds.variables import FOUND, Variables
from loopkit.proof.outcomes.analysis import Analysis

ROOT = Path(__file__).parent.parent
ASKED = """
loopkit: 1
agents: {writer: {model: openai/writer}}
origins: [plan, draft]
states:
  plan: {agent: writer, prompt: Plan., next: draft}
  draft: {agent: writer, prompt: "{{ plan }}", next: check}
  check:
    validate: draft
    by: [{not_matches: draft, origin: plan}, {min_chars: 9}]
    transitions:
      - {guard: valid, target: note}
      - {revise: {origin: [plan, draft]}, max: 2}
      - {target: note}
  note: {agent: writer, prompt: "{{ draft }}", next: person}
  person:
    human: Send it back?
    choices: [again, accept]
    transitions:
      - {guard: choice == "again", revise: {origin: [plan, draft]}, feedback: Again., max: 1}
      - {target: done}
  done: {final: success, result: draft}
"""


def test_who_found_something_is_held_from_the_report_to_the_person_who_is_asked() -> None:
    variables = Variables(Analysis.of_machine(load_text(ASKED, "m.yaml", ROOT).machine), {})
    assert {name for name, held in live(variables).items() if FOUND in held} == {"note", "person"}
