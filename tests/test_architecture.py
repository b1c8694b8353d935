"""The architecture is as it is told: its rooms, its modules, and one round through them."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from graphlib import TopologicalSorter
from types import FrameType
from typing import Any

import pytest

from tests.support import PASS, ROOT, CommandLine, Desk, fails, scenario
from tests.test_docs import code, rows

PACKAGE = ROOT / "loopkit"
TEXT = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
FILES = {path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*.py")}
FOLDERS = {path.parent.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*.py")}
ROUND = "One round, from the command line to the journal and back"
MACHINE = """\
loopkit: 1
input: {topic: str}
limits: {agent_calls: 9}
agents:
  writer: {model: openai/gpt-5-mini}
  critic: {model: openai/gpt-5-mini}
validators:
  form: [{min_chars: 3}]
  quality: {judge: critic}
states:
  draft: {agent: writer, prompt: "Write on {{ input.topic }}. {{ feedback }}", next: check}
  check:
    validate: draft
    by: [form, quality]
    transitions: [{guard: valid, target: done}, {revise: draft, max: 1}, {target: rejected}]
  done: {final: success, result: draft}
  rejected: {final: failure}
"""


def section(title: str) -> str:
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


ROOMS = {
    path[0].strip("`").rstrip("/").removesuffix(".py"): sorted(code(path[1]))
    for path in rows(section("The rooms"), "room")
}
"""Each room with those that it imports, as the page says."""


def named(text: str) -> list[str]:
    """The modules and folders that a text names; what is in capitals stands for any of a kind."""
    spans = re.findall(r"`([^`\n]+)`", text)
    paths = (span for span in spans if span.endswith((".py", "/")) and " " not in span)
    return [path for path in paths if path == path.lower() and not path.startswith(".")]


def test_no_module_is_longer_than_900_lines() -> None:
    lines = {path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {path: count for path, count in lines.items() if count > 900} == {}


def test_a_name_of_a_module_occurs_at_most_twice_in_a_room() -> None:
    names = (path.split("/") for path in FILES if not path.endswith("/__init__.py"))
    counts = Counter((parts[1], parts[-1]) for parts in names)
    assert [name for name, count in counts.items() if count > 2] == []


def test_every_folder_has_an_init_file_because_import_linter_sees_no_module_without_one() -> None:
    assert [folder for folder in FOLDERS if f"{folder}/__init__.py" not in FILES] == []


def test_the_table_has_all_imports_between_rooms_but_those_that_follow_from_others() -> None:
    below = {room: set(others) for room, others in ROOMS.items()}
    imports = {
        (path.split("/")[1].removesuffix(".py"), other)
        for path in FILES - {"loopkit/__init__.py", "loopkit/__main__.py"}
        for other in re.findall(r"(?m)^ *from loopkit\.(\w+)", (ROOT / path).read_text("utf-8"))
    }
    for room in TopologicalSorter(ROOMS).static_order():
        below[room] = below[room].union(*(below[one] for one in below[room]))
    assert {(a, b) for a, b in imports if a != b and b not in below[a]} == set()
    assert {(room, other) for room, others in ROOMS.items() for other in others} - imports == set()


def test_every_room_has_a_row() -> None:
    inside = [path for path in PACKAGE.iterdir() if not path.name.startswith("_")]
    # Where modules were, a folder stays with what Python compiled of them.
    folders = {path.name for path in inside if any(path.glob("*.py"))}
    assert folders | {path.stem for path in inside if path.suffix == ".py"} == ROOMS.keys()


def is_there(path: str) -> bool:
    known = {f"{folder}/" for folder in FOLDERS} if path.endswith("/") else FILES
    return (ROOT / path).exists() or any(one.endswith(f"/{path}") for one in known)


def test_what_is_named_is_there() -> None:
    assert len(named(TEXT)) > 100
    assert [path for path in named(TEXT) if not is_there(path)] == []


@contextmanager
def modules_called() -> Iterator[set[str]]:
    """The modules of loopkit whose functions are called meanwhile."""
    called: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            called.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(before)


@pytest.mark.usefixtures("own_folder")
def test_a_round_goes_through_the_modules_that_are_told_of_it(desk: Desk, cli: CommandLine) -> None:
    desk.write("machine.yaml", MACHINE)
    replies = [{"reply": "Tea."}, {"reply": "Peppermint tea."}]
    judged = [fails("Which tea?"), PASS]
    desk.write("case.yaml", scenario(agents={"writer": replies, "critic": judged}))
    with modules_called() as called:
        told = cli(0, "run", "machine.yaml", "--set", "topic=tea", "--script", "case.yaml")
    assert told.out == "Peppermint tea.\n"
    seen = {name.removeprefix(f"{ROOT}/") for name in called} & FILES
    told = set(named(section(ROUND)))
    missed = {path for path in told if not any(_is_in(one, path) for one in seen)}
    assert missed == set()


def _is_in(module: str, path: str) -> bool:
    return module.startswith(f"loopkit/{path}") if path.endswith("/") else module.endswith(path)
