"""`parse: junit`: the report of a test run in JUnit's XML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from loopkit.text import plural
from loopkit.validators.command.reader import (
    MAX_READ,
    MESSAGE_CHARS,
    TOO_MANY,
    Reading,
    Unreadable,
    message_text,
    relative_path,
)
from loopkit.validators.fault import Fault

MAX_DEPTH = 64
"""The most levels of nested elements."""

BROKEN = {"failure": "failed", "error": "ended with an error"}
"""The elements of a test that did not succeed; one that passed at last has other elements."""


def read_junit(text: str, reading: Reading) -> list[Fault]:
    """A fault for each test case, and each suite, that failed or ended with an error.

    Raises Unreadable for a document type (no report needs one, and entities can blow a report
    up), XML that is broken, nested deeper than 64 levels or not a test report, a report without a
    single test case, and one that counts failures and shows none.
    """
    cases = _Cases(reading)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.StartElementHandler = cases.start
    parser.EndElementHandler = cases.end
    parser.CharacterDataHandler = cases.text
    try:
        parser.Parse(text.removeprefix("\ufeff").encode(), True)
    except expat.ExpatError as error:
        raise Unreadable(f"it is not XML: {error}") from error
    return cases.complete()


def _refuse_doctype(*_: object) -> NoReturn:
    # It precedes the entities that would blow the report up.
    raise Unreadable("it has a document type, which no report of tests needs")


@dataclass
class _Test:
    """A test case or a suite, while it is read."""

    name: str
    file: str
    kind: str = ""
    """The element that reports its failure; empty for a success."""
    message: str = ""
    body: str = ""
    is_inside: bool = False
    """Whether the text of that element is being read."""


@dataclass
class _Cases:
    """The faults that the elements report, read in order."""

    reading: Reading
    faults: list[Fault] = field(default_factory=list)
    cases: int = 0
    counted: int = 0
    """Failures and errors by the attributes of suites."""
    depth: int = 0
    owners: list[_Test] = field(default_factory=list)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        tag = _local_name(tag)
        self._descend(tag)
        if tag in ("testsuites", "testsuite"):
            self.counted += sum(_number(attributes.get(key)) for key in ("failures", "errors"))
            self._begin_owner(tag, attributes)
        elif tag == "testcase":
            self.cases += 1
            self._begin_owner(tag, attributes)
        elif tag in BROKEN and self.owners and not self.owners[-1].kind:
            owner = self.owners[-1]
            owner.kind, owner.is_inside = tag, True
            owner.message = attributes.get("message", "") or attributes.get("type", "")

    def text(self, data: str) -> None:
        if self.owners and self.owners[-1].is_inside:
            owner = self.owners[-1]
            # The end of a trace shows the failure.
            owner.body = (owner.body + data)[-MESSAGE_CHARS:]

    def end(self, tag: str) -> None:
        tag = _local_name(tag)
        self.depth -= 1
        if tag in BROKEN and self.owners:
            self.owners[-1].is_inside = False
        elif tag in ("testsuites", "testsuite", "testcase") and self.owners:
            self._close(self.owners.pop())

    def complete(self) -> list[Fault]:
        if not self.faults and self.counted:
            raise Unreadable(f"it counts {plural(self.counted, 'failure')} and shows none")
        if not self.faults and not self.cases:
            raise Unreadable("it has no test case, so nothing was tested")
        return self.faults

    def _descend(self, tag: str) -> None:
        self.depth += 1
        if self.depth == 1 and tag not in ("testsuites", "testsuite"):
            raise Unreadable(f"it is not a test report: its root is <{message_text(tag)}>")
        if self.depth > MAX_DEPTH:
            raise Unreadable(f"its elements are nested more than {MAX_DEPTH} levels deep")

    def _begin_owner(self, tag: str, attributes: Mapping[str, str]) -> None:
        parts = (
            attributes.get("classname", "") if tag == "testcase" else "",
            attributes.get("name", ""),
        )
        name = "::".join(part for part in parts if part) or "a test without a name"
        file = relative_path(attributes.get("file", ""), self.reading.folder)
        self.owners.append(_Test(message_text(name), file))

    def _close(self, test: _Test) -> None:
        if not test.kind:
            return
        message = message_text(test.message) or "no message"
        trace = message_text(test.body)
        text = f"{test.name} {BROKEN[test.kind]}: {message}"
        text += f"\n{trace}" if trace and trace not in message else ""
        item = {"name": test.name, "file": test.file, "kind": test.kind, "message": message}
        # The name identifies the fault: a test is the same one whatever it fails with.
        if len(self.faults) == MAX_READ:
            raise Unreadable(TOO_MANY)
        self.faults.append(Fault(text, test.name, location=test.file, value=message, item=item))


def _local_name(tag: str) -> str:
    return tag.rpartition(":")[2]


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0
