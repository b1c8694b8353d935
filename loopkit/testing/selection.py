"""Cases chosen with `-k`, as test runners read it, and their results as JUnit XML."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from xml.etree import ElementTree as ET

from loopkit.testing.suites import CaseResult
from loopkit.text import one_line

Selection = Callable[[str], bool]


class NotAnExpression(ValueError):
    """An expression that can't be read; the message says how to write one."""


def selection(text: str) -> Selection:
    """A test for names; a word is true for a name that contains it, ignoring case.

    Raises NotAnExpression.
    """
    words: dict[str, str] = {}

    def named(found: re.Match[str]) -> str:
        if (word := found[0]) in ("and", "or", "not"):
            return word
        name = f"word_{len(words)}"
        words[name] = word.lower()
        return name

    # With a name for each word it is an expression of Python.
    written = re.sub(r"[^\s()]+", named, " ".join(text.split()))
    try:
        return _test_of(ast.parse(written, mode="eval").body, words) if written else bool
    except (SyntaxError, MemoryError, RecursionError) as error:
        remedy = "write words, `and`, `or`, `not` and parentheses"
        raise NotAnExpression(f"`{one_line(text)}` can't be read: {remedy}") from error


def _test_of(node: ast.expr, words: Mapping[str, str]) -> Selection:
    match node:
        case ast.Name(id=name):
            return lambda text: words[name] in text.lower()
        case ast.UnaryOp(operand=inner):
            test = _test_of(inner, words)
            return lambda text: not test(text)
        case ast.BoolOp(op=operator, values=values):
            tests = [_test_of(value, words) for value in values]
            every = all if isinstance(operator, ast.And) else any
            return lambda text: every(test(text) for test in tests)
    raise SyntaxError("two words beside each other, or nothing in parentheses")


_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(results: Sequence[CaseResult], broken: Mapping[str, str]) -> bytes:
    """A document with one suite a file; `broken` has the files that can't be used, and why."""
    root = ET.Element("testsuites", name="loopkit")
    for file, cases in groupby(results, key=lambda result: result.suite):
        _add_suite(root, file, list(cases))
    for file, why in broken.items():
        suite = ET.SubElement(root, "testsuite", name=file, tests="1", errors="1", failures="0")
        case = ET.SubElement(suite, "testcase", classname=file, name=file, time="0")
        ET.SubElement(case, "error", message="the file can't be used").text = _xml(why)
    ET.indent(root)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def _add_suite(root: ET.Element, file: str, results: Sequence[CaseResult]) -> None:
    failed = sum(not result.passed for result in results)
    seconds = sum(result.seconds for result in results)
    suite = ET.SubElement(
        root, "testsuite", name=file, tests=str(len(results)), failures=str(failed), errors="0",
        time=f"{seconds:.3f}",
    )  # fmt: skip
    for result in results:
        head = {"classname": file, "name": _xml(result.case), "time": f"{result.seconds:.3f}"}
        case = ET.SubElement(suite, "testcase", head)
        if not result.passed:
            failure = ET.SubElement(case, "failure", message=_xml(result.summary))
            failure.text = _xml(result.text)


def _xml(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)
