"""Cases chosen with `-k`, as test runners read it, and their results as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from xml.etree import ElementTree as ET

from loopkit.testing.suites import CaseResult
from loopkit.text import one_line

MAX_DEPTH = 30
"""The most levels of nested parentheses and `not`."""

Selection = Callable[[str], bool]
"""Whether a name is selected."""
_TOKEN = re.compile(r"\s*([()]|[^\s()]+)")
_WORDS = frozenset({"and", "or", "not", "(", ")"})


class NotAnExpression(ValueError):
    """An expression that can't be read; the message says where it breaks off."""


def selection(text: str) -> Selection:
    """A test for names; a word is true for a name that contains it, ignoring case.

    Raises NotAnExpression.
    """
    if not text.strip():
        return lambda _: True
    tokens = _Tokens(_TOKEN.findall(text), text)
    selected = _either(tokens)
    tokens.end()
    return selected


class _Tokens:
    def __init__(self, tokens: list[str], text: str) -> None:
        self._tokens = tokens
        self._text = text
        self._at = 0
        self._depth = 0

    def take(self, *wanted: str) -> bool:
        """Whether the next token is one of these; if so, move past it."""
        found = self._at < len(self._tokens) and self._tokens[self._at] in wanted
        self._at += found
        return found

    def word(self) -> str:
        if self._at == len(self._tokens) or self._tokens[self._at] in _WORDS:
            raise self.error("a word is expected there")
        self._at += 1
        return self._tokens[self._at - 1].lower()

    def inner(self, read: Callable[[_Tokens], Selection]) -> Selection:
        """Read an expression one level deeper."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.error(f"more than {MAX_DEPTH} `not` and `(` are nested there")
        made = read(self)
        self._depth -= 1
        return made

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise self.error("`and` or `or` is expected there")

    def error(self, reason: str) -> NotAnExpression:
        rest = self._tokens[self._at : self._at + 1]
        at = f"at `{one_line(rest[0])}`" if rest else "at its end"
        return NotAnExpression(f"`{one_line(self._text)}` can't be read {at}: {reason}")


def _either(tokens: _Tokens) -> Selection:
    terms = [_both(tokens)]
    while tokens.take("or"):
        terms.append(_both(tokens))
    return lambda name: any(term(name) for term in terms)


def _both(tokens: _Tokens) -> Selection:
    terms = [_not(tokens)]
    while tokens.take("and"):
        terms.append(_not(tokens))
    return lambda name: all(term(name) for term in terms)


def _not(tokens: _Tokens) -> Selection:
    if tokens.take("not"):
        inner = tokens.inner(_not)
        return lambda name: not inner(name)
    if tokens.take("("):
        inner = tokens.inner(_either)
        if not tokens.take(")"):
            raise tokens.error("`)` is expected there")
        return inner
    word = tokens.word()
    return lambda name: word in name.lower()


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
        case = ET.SubElement(
            suite, "testcase", classname=file, name=_xml(result.case), time=f"{result.seconds:.3f}"
        )
        if not result.passed:
            failure = ET.SubElement(case, "failure", message=_xml(result.summary))
            failure.text = _xml(result.text)


def _xml(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)
