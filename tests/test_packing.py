"""What of a configuration is read ahead, compared with what edges pass on one after the other."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from loopkit.language.load import load, load_text
from loopkit.machine.edges import Edge
from loopkit.proof.bounds.plans import Packing, live
from loopkit.proof.bounds.variables import FOUND, Variables
from loopkit.proof.outcomes.analysis import Analysis

ROOT = Path(__file__).parent.parent
MACHINES = sorted(
    path for path in ROOT.glob("machines/*.yaml") if not path.name.endswith(".scenario.yaml")
)
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


def passed_on(variables: Variables, packing: Packing, edges: Sequence[Edge]) -> Mapping[str, int]:
    later = {name: packing.mask(read) for name, read in variables.read.items()}
    found, before = packing.mask((FOUND,)), dict[str, int]()
    while before != later:
        before = dict(later)
        for edge in edges:
            is_report = edge.source in variables.graph.judges and edge.event != "limit"
            later[edge.source] |= later[edge.target] & ~(found if is_report else 0)
    return later


def compare(analysis: Analysis) -> Mapping[str, int]:
    variables = Variables(analysis, {})
    packing, edges = Packing(variables), analysis.graph.edges
    for some in (edges, [edge for edge in edges if not edge.back]):
        assert live(variables, packing, some) == passed_on(variables, packing, some)
    found = packing.mask((FOUND,))
    return {name: bits & found for name, bits in live(variables, packing, edges).items()}


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
def test_what_is_read_ahead_is_what_edges_pass_on(path: Path) -> None:
    compare(Analysis.of_machine(load(path).machine))


def test_who_found_something_is_held_from_the_report_to_the_person_who_is_asked() -> None:
    held = compare(Analysis.of_machine(load_text(ASKED, "m.yaml", ROOT).machine))
    assert {name for name, bits in held.items() if bits} == {"note", "person"}
