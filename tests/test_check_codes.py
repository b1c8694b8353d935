"""Every code of `check` is in docs/reference/checks.md, and something that gives it.

The page is made from the table of codes: run this with `LOOPKIT_REWRITE_CASES=1`.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from loopkit.checks import check
from loopkit.checks.codes import ENTRY, TABLE
from loopkit.document.problems import MAX_BYTES, Problem, ProblemsFound
from loopkit.language.load import load
from loopkit.views.schemas import SCHEMAS
from tests.support import ROOT
from tests.test_checks import REWRITE
from tests.test_docs import page, sections

CASES = ROOT / "tests/cases/err"
CHECKS = ROOT / "loopkit/checks"
ROOMS = ("checks", "document", "language", "proof", "text/patterns")
KEBAB = re.compile(r"[a-z]+(-[a-z]+)+")
NO_CODES = frozenset({"utf-8", "utf-16", "utf-8-sig"})
OF_RUNS = frozenset({"template-data", "missing-value"})
"""Faults of filling a template, which needs its data."""
MADERS = {
    "Problem",
    "mistake",
    "GuardProblem",
    "TemplateError",
    "fault",
    "_problem",
    "problem",
    "problem_inside",
}
OF_CONSTRAINTS = {
    "minimum": "greater-than-equal",
    "maximum": "less-than-equal",
    "exclusiveMinimum": "greater-than",
    "exclusiveMaximum": "less-than",
    "minLength": "string-too-short",
    "multipleOf": "multiple-of",
}
"""How pydantic calls what breaks a constraint of a field, by its keyword in a schema."""
NOTHING_KNOWN = frozenset({"syntax"})
"""What YAML's parser refuses for a reason that nobody has met yet."""
MACHINE = b"loopkit: 1\nstates:\n  a: {render: TEXT, next: b}\n  b: {final: success}\n"
ROW = b"[%s]\n" % b",".join([b"*x"] * 1000)
MANY = b"x: &x [1]\ny: &y " + ROW + b"z: " + ROW.replace(b"x", b"y")
"""Aliases of aliases: a few keys that stand for more than a file may have."""
TOO_BIG_FOR_A_CASE = {
    "not-utf-8": MACHINE.replace(b"TEXT", b"\xff"),
    "too-large": MACHINE + b"#" * MAX_BYTES,
    "too-many-values": MACHINE + MANY,
    "too-many-problems": b"a: 1\n" * 100,
    "string-too-long": MACHINE.replace(b"TEXT", b"x" * 100_001),
}


def documented() -> set[str]:
    """The codes that have a section."""
    return {title for title in sections(page("checks")) if title == title.lower()}


def golden() -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in CASES.glob("*.out"))
    heads = (
        re.findall(r"^(?:error|warning|note)\[([a-z-]+)\]", text, re.MULTILINE) for text in texts
    )
    return {code for found in heads for code in found}


def sources() -> list[ast.Module]:
    root = ROOT / "loopkit"
    paths = [path for room in ROOMS for path in root.glob(f"{room}.py")]
    paths += [
        path
        for room in ROOMS
        for path in (root / room).rglob("*.py")
        if path != TABLE.with_suffix(".py")
    ]
    assert len(paths) > len(ROOMS)
    return [parsed(path) for path in paths]


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def written(trees: Iterable[ast.Module]) -> set[str]:
    """Every code in the sources: words with hyphens, and what a problem is given as its code."""
    nodes = [node for tree in trees for node in ast.walk(tree)]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    hyphened = {text for text in texts if isinstance(text, str) and KEBAB.fullmatch(text)}
    calls = (node for node in nodes if isinstance(node, ast.Call) and called(node) in MADERS)
    return (hyphened | {code for call in calls for code in handed(call)}) - NO_CODES - OF_RUNS


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def handed(call: ast.Call) -> list[str]:
    is_method = isinstance(call.func, ast.Attribute) and called(call).startswith("problem")
    place = 1 if is_method else 2 if called(call) == "Refusal" else 0
    values = [*call.args[place : place + 1], *(k.value for k in call.keywords if k.arg == "code")]
    return [v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str)]


def constrained() -> set[str]:
    """The codes of what breaks the constraints that fields declare."""
    schemas = str([SCHEMAS[name]() for name in ("machine", "scenario")])
    return {code for word, code in OF_CONSTRAINTS.items() if f"'{word}'" in schemas}


def problems_of(path: Path) -> tuple[Problem, ...]:
    try:
        return tuple(check(load(path)))
    except ProblemsFound as found:
        return found.problems


def test_every_code_in_the_sources_has_its_section_and_every_section_its_code() -> None:
    # The schema of a text leaves its greatest length to loopkit, since a file may stand for it.
    known = written(sources()) | constrained() | {"string-too-long"} | NOTHING_KNOWN
    # Some codes are put together, such as that of an unknown agent; cases show these.
    assert documented() == known | golden()


@pytest.mark.parametrize("path", sorted(CHECKS.glob("*.py")), ids=lambda path: path.stem)
def test_a_module_of_checks_says_first_which_codes_it_gives(path: Path) -> None:
    tree = parsed(path)
    said = set(re.findall(r"`([a-z-]+)`", ast.get_docstring(tree) or ""))
    assert written([tree]) <= said
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    # What several modules give has a method of its name.
    calls = {called(node) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    given = texts | {f"unknown-{text}" for text in texts}
    assert said & documented() <= given | {name.replace("_", "-") for name in calls}


def test_every_code_has_a_machine_that_gives_it() -> None:
    elsewhere = {*TOO_BIG_FOR_A_CASE, *NOTHING_KNOWN}
    assert golden() - documented() == set()
    assert documented() - golden() == elsewhere


@pytest.mark.parametrize("code", TOO_BIG_FOR_A_CASE)
def test_what_is_too_big_for_a_case_is_told_as_well(code: str, tmp_path: Path) -> None:
    path = tmp_path / "machine.yaml"
    path.write_bytes(TOO_BIG_FOR_A_CASE[code])
    assert code in {problem.code for problem in problems_of(path)}


def test_the_page_is_made_from_the_table_of_codes() -> None:
    def entry(found: re.Match[str]) -> str:
        code, _, _, meaning, example, remedy = found.groups()
        if example != "–":
            meaning = f"{meaning.removesuffix('.')} ({example})."
        return f"### {code}\n\n{meaning} {remedy}".removesuffix(" –") + "\n"

    made = ENTRY.sub(entry, TABLE.read_text(encoding="utf-8"))
    before, _, after = page("checks").partition("## Files and YAML\n")
    last = "## Problems for programs\n"
    whole = f"{before}{made}\n{last}{after.partition(last)[2]}"
    if os.environ.get(REWRITE):
        (ROOT / "docs/reference/checks.md").write_text(whole, encoding="utf-8")
    assert page("checks") == whole
    assert all(found[0][-1] in ".–" for found in ENTRY.finditer(TABLE.read_text("utf-8")))
