"""Breaks of modules, seeded one at a time: what earlier tests found of them and these do not.

Run it before tests are thinned for good, from the folder of the project:

    python -m tests.seeded_breaks --since HEAD loopkit/engine/budgets.py --tests tests/test_x.py

It works on copies, and ends with 1 where a break is lost.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

TURNED: dict[type[ast.AST], Any] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add,
}  # fmt: skip
"""Operators, each with the one that a slip would put in its place."""


def breaks(source: str, number: int) -> Iterator[tuple[int, str]]:
    """Some lines of a module, each with the whole module in which that line is broken."""
    places = [at for at, node in enumerate(ast.walk(ast.parse(source))) if _break(node)]
    for at in sorted(random.Random(len(source)).sample(places, min(number, len(places)))):
        tree = ast.parse(source)
        node = list(ast.walk(tree))[at]
        _break(node)
        yield getattr(node, "lineno", 0), ast.unparse(tree)


def _break(node: ast.AST) -> bool:
    """Break a node where it can be broken."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in TURNED:
            node.ops = [TURNED[type(op)]()]
        case ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in TURNED:
            node.op = TURNED[type(op)]()
        case ast.If(test=test) | ast.IfExp(test=test):
            node.test = ast.UnaryOp(ast.Not(), test)
        case _:
            return False
    return True


def copied(folder: Path, revision: str, part: str = ".") -> Path:
    """A part of the project at a revision, put into a folder."""
    call = ["git", "archive", revision, part]
    packed = subprocess.run(call, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def found(folder: Path, tests: Sequence[str]) -> bool:
    """Whether one of these tests fails in a copy of the project."""
    there = [test for test in tests if (folder / test).exists()]
    call = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *there]
    # A break may lead round and round.
    call.append("--timeout=60")
    return subprocess.run(call, cwd=folder, capture_output=True, check=False).returncode != 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("modules", nargs="+", type=Path)
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("--since", required=True)
    parser.add_argument("--number", type=int, default=20)
    asked = parser.parse_args()
    lost = 0
    with tempfile.TemporaryDirectory() as now, tempfile.TemporaryDirectory() as then:
        here, before = copied(Path(now), "HEAD"), copied(Path(then), "HEAD")
        copied(before, asked.since, "tests")
        for module in asked.modules:
            for line, broken in breaks(module.read_text(encoding="utf-8"), asked.number):
                (here / module).write_text(broken, encoding="utf-8")
                (before / module).write_text(broken, encoding="utf-8")
                says = "found"
                if not found(here, asked.tests):
                    says = "lost" if found(before, asked.tests) else "never found"
                lost += says == "lost"
                print(f"{module}:{line}: {says}", flush=True)
            for copy in (here, before):
                (copy / module).write_bytes(module.read_bytes())
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
