"""What the real Mermaid makes of the diagrams: states, edges and labels as they were meant."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from loopkit.engine.state import RunState
from loopkit.language.load import load, load_text
from loopkit.language.machine import Machine
from loopkit.language.states import FinalState
from loopkit.language.states.each import ChildrenState
from loopkit.language.states.kinds import ValidateState
from loopkit.machine.graph import Graph
from loopkit.text import one_line
from loopkit.views.diagram.mermaid import mermaid
from loopkit.views.diagram.model import Drawing, drawing
from tests.support import MACHINES, ROOT
from tests.support_node import run_node

FILES = [*MACHINES, *sorted((ROOT / "tests/cases/ok").glob("*.yaml"))]
IDS = [
    "end", "root", "state", "note", "choice", "fork", "join", "direction", "class", "classdef",
    "style", "default", "click", "href", "as", "scale", "hide", "left", "right", "constructor",
    "tostring", "valueof", "hasownproperty", "prototype", "proto__", "proto", "limit", "start",
    "s_end", "s_s", "root_start", "root_end", "statediagram", "graph", "subgraph", "tb", "lr",
    "link", "title", "acctitle", "accdescr", "init", "true", "none", "undefined", "null", "nan",
    "x_", "a__b", "a1", "if0", "e",
]  # fmt: skip
BITS = [
    '"', "'", "`", ";", ":", ":::", "#", "#35;", "&amp;", "%%", "%%{init: {}}%%", "\n", "\t",
    "\\n", "[*]", "[*] --> s_end", "-->", "--", "---", "<<fork>>", "<<choice>>", "[[join]]", "{",
    "}", "<b>", "</b>", "<br/>", "<script>alert(1)</script>", '<img src="x" onerror="a()">', "&",
    "&#60;", "direction TB", "direction LR", "Direction  rl", "direction\nBT", "as s_x",
    "state x", "note left of", "end note", "class s_a b", "classDef x fill:#fff;", "style: #34;",
    "click s_a href", "end", "root", "constructor", "__proto__", "toString", "hasOwnProperty",
    "1. one", "2) two", "- item", "+ item", "* item", "> quote", "# head", "==", "***", "_a_",
    "__b__", "~~c~~", "a_b", "_", ".", "1.5", "..", "www.example.org", "http://example.org/?a=b",
    "me@example.org", "fa:fa-bell", "$$x$$", "|", "!", "![a](b)", "(", ")", "[", "]", "=", "!=",
    "ß", "é", "日本語", "العربية", "עברית", "\u202eabc", "\u200f", "\u200d",
    "\u00a0", "\u2028", "\ufeff", "😀", "👩‍👩‍👧", "e\u0301", "\x07", "\x1b[31m", "x" * 300,
    "a " * 90,
]  # fmt: skip
COUNT = 400
WAY = RunState(
    run="plan_review-000000",
    status="waiting",
    state="approval",
    visits={"start": 1, "draft": 2, "validate": 2, "approved": 1, "approval": 1},
    route=["start[1]", "draft[0]", "validate[2]", "draft[0]", "validate[0]", "approved[0]"],
)


def hostile_texts() -> list[str]:
    """400 texts: each sign that could mean something by itself, then mixtures of them."""
    chance = random.Random(20)
    mixed = (
        "".join(chance.choices([*BITS, " ", " "], k=chance.randint(2, 9))) for _ in range(COUNT)
    )
    return [*BITS, *mixed][:COUNT]


def hostile_machines() -> Iterator[tuple[Machine, dict[str, list[str]]]]:
    """Machines of states with hostile ids, and the guards of each state's transitions."""
    texts, ids = hostile_texts(), itertools.cycle(IDS)
    guards = [texts[at : at + 5] for at in range(0, COUNT, 5)]
    # Mermaid takes long for large diagrams: twice the states are four times the work.
    for at in range(0, len(guards), 20):
        named = {next(ids): some for some in guards[at : at + 20]}
        yield load_text(_yaml(_hostile(named)), "hostile.yaml", Path()).machine, named


def _hostile(named: Mapping[str, list[str]]) -> dict[str, Any]:
    states: dict[str, Any] = {}
    for name, texts in named.items():
        rules = [{"section": texts[1]}, {"matches": texts[2], "severity": "warning"}]
        run = {"run": ["sh", texts[0]], "output": "plan"}
        judge = {"validate": "plan", "by": [*rules, "constructor"]}
        transitions = [{"guard": text, "target": "over"} for text in texts]
        states[name] = {**({}, run, judge)[len(states) % 3], "transitions": transitions}
    return {
        "loopkit": 1,
        "limits": {"agent_calls": 3, "then": "over"},
        "validators": {"constructor": {"judge": "proto__"}},
        "states": {**states, "over": {"final": "failure"}},
    }


def _yaml(data: object) -> str:
    """JSON that YAML can read: what it takes for no character stands by its number."""
    text = json.dumps(data, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff]", lambda c: f"\\u{ord(c[0]):04x}", text)


@dataclass(frozen=True)
class Picture:
    """A machine, what is drawn of it, and what Mermaid reads in that."""

    graph: Graph
    drawing: Drawing
    read: dict[str, Any]

    @property
    def parts(self) -> list[Part]:
        return [*parts_of(Part(self.graph, self.drawing))]


@pytest.fixture(scope="module")
def pictures() -> dict[str, Picture]:
    """The pictures of all files and of the hostile machines; one process reads them all."""
    machines = {path.stem: load(path).machine for path in FILES}
    machines |= {f"hostile {i}": machine for i, (machine, _) in enumerate(hostile_machines())}
    graphs = {name: Graph(machine) for name, machine in machines.items()}
    drawn = {name: drawing(graph) for name, graph in graphs.items()}
    graphs["run"] = graphs["plan_review"]
    drawn["run"] = drawing(graphs["run"], WAY)
    read = run_node("parse_diagrams.mjs", [mermaid(picture) for picture in drawn.values()])
    return {
        name: Picture(graphs[name], picture, one)
        for (name, picture), one in zip(drawn.items(), read, strict=True)
    }


def squeezed(text: str) -> str:
    """The text without blanks and without what nobody sees: where lines end may differ."""
    return "".join(text.replace("\u200c", "").split())


def shortened(text: str) -> str:
    return squeezed(one_line(text, 200))


@dataclass(frozen=True)
class Part:
    """One machine of a picture: the outermost one, or one that is drawn in a state."""

    graph: Graph
    drawing: Drawing
    within: str = ""
    """The end of the ids in it."""

    def id(self, name: str) -> str:
        return f"s_{name}{self.within}"

    @property
    def root(self) -> str:
        """How Mermaid calls the machine in the ids of its ends."""
        return f"s_{self.within.removeprefix('_IN_')}" if self.within else "root"


def parts_of(part: Part) -> Iterator[Part]:
    yield part
    for node in part.drawing.nodes:
        state = part.graph.states.get(node.name)
        if node.inner is not None and isinstance(state, ChildrenState):
            within = f"_IN_{node.name}{part.within}"
            yield from parts_of(Part(Graph(state.child), node.inner, within))


def meant_states(part: Part) -> dict[str, tuple[str, str]]:
    """How the title begins and the class of each node, by its id in the diagram."""
    meant = {}
    for name, state in part.graph.states.items():
        kind = state.final if isinstance(state, FinalState) else state.kind
        meant[part.id(name)] = (name, kind)
    if part.graph.machine.limits.then:
        meant[f"limit{part.within}"] = ("limitreached", "limit")
    return meant


def meant_edges(part: Part) -> list[tuple[str, str, str]]:
    """The source, the target and how the text begins, for all that leads from a state."""
    machine = part.graph.machine
    meant = [(f"{part.root}_start", part.id(machine.start), "")]
    meant += [(part.id(name), f"{part.root}_end", "") for name in machine.finals]
    for name, state in part.graph.states.items():
        if isinstance(state, FinalState):
            continue
        if state.next:
            meant.append((part.id(name), part.id(state.next), "1"))
        for number, way in enumerate(state.transitions or (), 1):
            guard = way.guard or ("otherwise" if number > 1 else "")
            origins = [
                (edge.target, ", ".join(filter(None, [way.guard, f"origin {edge.origin}"])))
                for edge in part.graph.on(name, "done")
                if edge.path[3] == number - 1 and edge.origin
            ]
            if origins:
                meant += [
                    (part.id(name), part.id(to), f"{shortened(f'{number} · {told}')}revise,")
                    for to, told in origins
                ]
                continue
            begin = shortened(f"{number} · {guard}" if guard else str(number))
            revise = "revise from best," if way.from_ == "best" else "revise,"
            begin += squeezed(revise) if way.revise else ""
            target = part.id(way.target or way.revise or "")
            meant.append((part.id(name), target, begin))
    return meant


def test_mermaid_reads_every_state_with_its_name_and_kind(pictures: dict[str, Picture]) -> None:
    for name, picture in pictures.items():
        assert "error" not in picture.read, f"{name}: {picture.read}"
        nodes = {n["id"]: (squeezed(n["title"]), n["classes"][0]) for n in picture.read["nodes"]}
        meant = {key: one for part in picture.parts for key, one in meant_states(part).items()}
        ends = {f"{part.root}_{end}" for part in picture.parts for end in ("start", "end")}
        assert nodes.keys() - meant.keys() == ends, name
        inner = {part.root for part in picture.parts}
        found = {
            key: (nodes[key][0].partition(":")[0] if key in inner else nodes[key][0], nodes[key][1])
            for key in meant
        }
        assert found == meant, name


def test_mermaid_reads_every_transition_with_its_number_and_guard(
    pictures: dict[str, Picture],
) -> None:
    for name, picture in pictures.items():
        edges = picture.read["edges"]
        left = [(e["source"], e["target"], squeezed(e["text"])) for e in edges]
        for source, target, begin in (e for part in picture.parts for e in meant_edges(part)):
            found = [e for e in left if e[:2] == (source, target) and e[2].startswith(begin)]
            assert found, f"{name}: {source} --> {target} : {begin}"
            left.remove(min(found, key=lambda edge: len(edge[2])))
        texts = [text for _, _, text in left]
        assert all(re.match(r"on(any|transient|content|fatal).*error|atmostonce", t) for t in texts)
        assert texts.count("atmostonce") == bool(picture.graph.machine.limits.then)


def test_mermaid_reads_every_text_of_every_node_and_arrow(pictures: dict[str, Picture]) -> None:
    for name, picture in pictures.items():
        nodes = {n["id"]: [squeezed(text) for text in n["texts"]] for n in picture.read["nodes"]}
        for part in picture.parts:
            for node in (node for node in part.drawing.nodes if node.inner is None):
                is_limit = node.kind == "limit"
                texts = nodes[f"limit{part.within}" if is_limit else part.id(node.name)]
                assert texts[: len(node.texts)] == [squeezed(text) for text in node.texts], name
        edges = [squeezed(edge["text"]).partition("taken")[0] for edge in picture.read["edges"]]
        arrows = (arrow for part in picture.parts for arrow in part.drawing.arrows)
        assert sorted(edges) == sorted(squeezed("".join(arrow.texts)) for arrow in arrows), name


def test_no_guard_however_hostile_is_lost_or_shortened_or_taken_for_formatting(
    pictures: dict[str, Picture],
) -> None:
    hostile = [picture for name, picture in pictures.items() if name.startswith("hostile")]
    for picture, (_, named) in zip(hostile, hostile_machines(), strict=True):
        edges = picture.read["edges"]
        for name, texts in named.items():
            read = [squeezed(e["text"]) for e in edges if e["source"] == f"s_{name}"]
            assert read == [shortened(f"{n} · {text}") for n, text in enumerate(texts, 1)]
        assert picture.read["direction"] == "TB"
        assert {kind for e in edges for kind in e["markdown"]} <= {"paragraph", "text", "html"}


def test_a_hostile_rule_is_read_as_one_line_of_its_state(pictures: dict[str, Picture]) -> None:
    for name, picture in pictures.items():
        texts = {node["id"]: node["texts"] for node in picture.read["nodes"]}
        for state, one in picture.graph.states.items():
            if name.startswith("hostile") and isinstance(one, ValidateState):
                validates, by, asks = texts[f"s_{state}"]
                assert validates == "validate plan"
                assert squeezed(by).startswith("bysection")
                assert asks == "constructor asks proto__"


def test_mermaid_gives_the_states_and_arrows_of_a_run_their_marks(
    pictures: dict[str, Picture],
) -> None:
    read = pictures["run"].read
    nodes = {node["id"]: node for node in read["nodes"]}
    assert "visited" in nodes["s_draft"]["classes"]
    assert nodes["s_draft"]["texts"][-1] == "visited 2×"
    assert "here" in nodes["s_approval"]["classes"]
    assert nodes["s_approval"]["texts"][-1] == "the run is waiting here"
    assert "unvisited" in nodes["s_escalated"]["classes"]
    taken = {
        (edge["source"], edge["target"]): edge["text"].splitlines()[-1]
        for edge in read["edges"]
        if "taken" in edge["text"]
    }
    assert taken == {
        ("s_start", "s_draft"): "taken 1×",
        ("s_draft", "s_validate"): "taken 2×",
        ("s_validate", "s_draft"): "taken 1×",
        ("s_validate", "s_approved"): "taken 1×",
        ("s_approved", "s_approval"): "taken 1×",
    }
