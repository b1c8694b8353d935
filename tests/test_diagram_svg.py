"""Diagrams as pictures: everything is in them, at a place of its own."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest

from loopkit.engine.state import RunState
from loopkit.language.load import load, load_text
from loopkit.language.states import STATE_KINDS
from loopkit.machine.graph import Graph
from loopkit.views.diagram.mermaid import STYLES
from loopkit.views.diagram.model import Drawing, drawing
from loopkit.views.diagram.svg import Box, Layout, layout, svg
from tests.generated import generated
from tests.support import MACHINES, PLAN_REVIEW, ROOT, Desk, scenario

CASES = sorted((ROOT / "tests/cases/ok").glob("*.yaml"))
SPACE = "{http://www.w3.org/2000/svg}"
Frame = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def graph_of(text: str) -> Graph:
    return Graph(load_text(text, "machine.yaml", ROOT).machine)


def graphs() -> list[Any]:
    files = [pytest.param(path, id=path.stem) for path in [*MACHINES, *CASES]]
    return [
        *files,
        *(pytest.param(number, id=f"generated {number}") for number in range(0, 300, 6)),
    ]


def read(of: Path | int) -> Drawing:
    if isinstance(of, Path):
        return drawing(Graph(load(of).machine))
    return drawing(graph_of(json.dumps(generated(of))))


def frame(part: Any) -> Frame:
    return part.x, part.y, part.x + part.width, part.y + part.height


def overlap(one: Frame, other: Frame) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def nested(placed: Layout) -> Iterator[Layout]:
    """A layout and those inside of its boxes."""
    yield placed
    for box in placed.boxes:
        if box.inner is not None:
            yield from nested(box.inner)


def box(placed: Layout, name: str) -> Box:
    (found,) = [each for each in placed.boxes if each.node.name == name]
    return found


@pytest.mark.parametrize("of", graphs())
def test_every_state_and_every_edge_is_in_the_picture_once(of: Path | int) -> None:
    picture = read(of)
    root = ET.fromstring(svg(picture))
    assert [e.get("data-state") for e in root.findall(f"{SPACE}g[@data-state]")] == [
        node.name for node in picture.nodes
    ]
    drawn = [e.get("data-edges", "").split() for e in root.findall(f"{SPACE}g[@data-edges]")]
    edges = [edge for arrow in picture.arrows for edge in arrow.edges]
    assert sorted(edge for ids in drawn for edge in ids) == sorted(edges)
    said = "\n".join("".join(e.itertext()) for e in root.iter(f"{SPACE}text"))
    words = {word for arrow in picture.arrows for text in arrow.texts for word in text.split()}
    assert not [word for word in words if len(word) < 40 and word not in said]


@pytest.mark.parametrize("of", graphs())
def test_boxes_and_labels_have_places_of_their_own_and_lines_pass_no_box(of: Path | int) -> None:
    for placed in nested(layout(read(of))):
        labels = [path.label for path in placed.paths if path.label is not None]
        frames = [frame(part) for part in (*placed.boxes, *labels)]
        assert not [pair for pair in combinations(frames, 2) if overlap(*pair)]
        everything = (0.0, 0.0, placed.width, placed.height)
        assert all(
            everything[0] <= left and everything[1] <= top and right <= placed.width
            and bottom <= placed.height
            for left, top, right, bottom in frames
        )  # fmt: skip
        for path in placed.paths:
            if path.is_loop:
                continue
            # A line stays in its column within a layer, and changes it between two.
            for (x, y), (x1, y1) in list(pairwise(path.points))[::2]:
                assert x == x1
                passed = (x - 0.5, min(y, y1) + 0.5, x + 0.5, max(y, y1) - 0.5)
                assert not [b for b in placed.boxes if overlap(passed, frame(b))], path.arrow


@pytest.mark.parametrize(
    "of", [path for path in MACHINES if "planner" in path.stem or "task" in path.stem]
)
def test_a_machine_inside_of_a_state_is_inside_of_its_box(of: Path) -> None:
    boxes = [b for b in layout(read(of)).boxes if b.inner is not None]
    assert boxes
    for each in boxes:
        assert each.inner is not None
        x, y = each.inner_at
        assert each.x <= x
        assert each.y <= y
        assert x + each.inner.width <= each.x + each.width
        assert y + each.inner.height <= each.y + each.height


def test_what_is_revised_lies_above_what_judges_it_and_what_judges_above_what_follows() -> None:
    placed = layout(drawing(Graph(load(PLAN_REVIEW).machine)))
    order = ["start", "draft", "validate", "approval", "accepted"]
    heights = [box(placed, name).y for name in order]
    assert heights == sorted(heights)


def test_every_revise_edge_is_dashed_and_no_other_one() -> None:
    picture = drawing(Graph(load(PLAN_REVIEW).machine))
    root = ET.fromstring(svg(picture))
    dashed = {
        e.get("data-edges") for e in root.iter(f"{SPACE}g") if "back" in e.get("class", "").split()
    }
    assert dashed - {None} == {"validate[2]", "approval[1]"}


def chain(states: int) -> Graph:
    """Writers and judges in a row; everything may fail, and some go back to the beginning."""
    written = ["loopkit: 1", "agents: {writer: {model: openai/gpt-5-mini}}"]
    written += ["limits: {total_revisions: 5, revisions: 2}", "states:"]
    for i in range(states // 2):
        after = f"s{i + 1}" if i + 1 < states // 2 else "done"
        written.append(
            f"  s{i}: {{agent: writer, prompt: Write., next: v{i}, on_error: {{fatal: failed}}}}\n"
            f"  v{i}: {{validate: s{i}, by: [min_chars: 3], transitions: ["
            f"{{guard: valid, target: {after}}}, {{guard: cap_reached, target: failed}}, "
            f"{{revise: s{i if i % 3 else 0}}}]}}"
        )
    return graph_of("\n".join([*written, "  done: {final: success}", "  failed: {final: failure}"]))


def test_a_picture_grows_with_the_number_of_states_and_not_with_its_square() -> None:
    small, large = (svg(drawing(chain(states))) for states in (50, 200))
    assert large.count("data-state") == 202
    assert len(large) < 5 * len(small)


def test_long_and_hostile_names_stay_in_their_boxes_and_are_no_markup() -> None:
    long = "a_" + "very_" * 30 + "long_name"
    graph = graph_of(f"""
loopkit: 1
agents:
  w: {{command: [cat, "</text><script>alert(1)</script>", "\\e[31m", "\\u202e漢字漢字", "&amp;"]}}
states:
  {long}: {{agent: w, prompt: Go., next: done}}
  done: {{final: success}}
""")
    text = svg(drawing(graph))
    root = ET.fromstring(text)
    assert not list(root.iter(f"{SPACE}script"))
    assert "\x1b" not in text
    assert "\u202e" not in text
    placed = layout(drawing(graph))
    assert "".join(box(placed, long).title) == long
    assert box(placed, long).width < 900


def test_the_path_of_a_run_and_its_state_are_marked(desk: Desk) -> None:
    machine = """
loopkit: 1
agents: {writer: {model: openai/gpt-5-mini}}
limits: {revisions: 2}
states:
  note: {agent: writer, prompt: "Write. {{ feedback }}", next: check}
  check: {validate: note, by: [{min_chars: 10}], transitions: [
    {guard: valid, target: ask}, {guard: cap_reached, target: failed}, {revise: note}]}
  ask: {human: Good?, choices: [yes, no], transitions: [
    {guard: choice == "yes", target: done}, {target: failed}]}
  done: {final: success}
  failed: {final: failure}
"""
    played = desk.play(machine, scenario(agents={"writer": ["short", "long enough now"]}))
    graph = Graph(load(desk.folder / "machine.yaml").machine)
    root = ET.fromstring(svg(drawing(graph, played.state)))
    classes = {
        e.get("data-state") or e.get("data-edges"): e.get("class", "").split()
        for e in root.iter(f"{SPACE}g")
    }
    assert "here" in classes["ask"]
    assert "visited" in classes["note"]
    assert "unvisited" in classes["done"]
    taken = {name for name, said in classes.items() if name and "taken" in said}
    assert taken == {"note[0]", "check[0]", "check[2]"}
    said = ["".join(e.itertext()) for e in root.iter(f"{SPACE}text")]
    assert {"visited 2×", "taken 2×", "the run is waiting here"} <= set(said)


def test_a_line_that_a_run_took_is_drawn_to_its_target(desk: Desk) -> None:
    """Another line to the same state never stands for it."""
    graph = chain(20)
    state = RunState(run="r", state="failed", visits={"s4": 1}, status="finished")
    state.route = (*state.route, "s4.on_error.fatal")
    paths = layout(drawing(graph, state)).paths
    (taken,) = [path for path in paths if path.arrow.taken]
    assert taken.has_head
    assert [path.arrow for path in paths if not path.has_head]


def test_every_kind_of_state_has_its_colour_wherever_it_is_drawn() -> None:
    kinds = {*STATE_KINDS, "success", "failure"} - {"final"}
    page = (ROOT / "loopkit/views/page/assets/page.css").read_text()
    assert kinds <= STYLES.keys()
    assert [kind for kind in kinds if f".{kind} > .line .dot" not in page] == []
    # A choice is drawn as an ordinary box.
    picture = svg(read(PLAN_REVIEW))
    assert [kind for kind in kinds if f".diagram .{kind} > rect" not in picture] == ["choice"]
    told = (ROOT / "docs/reference/diagrams.md").read_text()
    assert [kind for kind in STATE_KINDS if f"\n`{kind}` | " not in told] == ["choice"]
