"""The results of cases as JUnit XML, which continuous integration reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from xml.etree import ElementTree as ET

from loopkit.testing.results import CaseResult

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


def _add_suite(root: ET.Element, file: str, results: Iterable[CaseResult]) -> None:
    cases = list(results)
    failed = sum(not result.passed for result in cases)
    seconds = sum(result.seconds for result in cases)
    suite = ET.SubElement(
        root, "testsuite", name=file, tests=str(len(cases)), failures=str(failed), errors="0",
        time=f"{seconds:.3f}",
    )  # fmt: skip
    for result in cases:
        case = ET.SubElement(
            suite, "testcase", classname=file, name=_xml(result.case), time=f"{result.seconds:.3f}"
        )
        if not result.passed:
            failure = ET.SubElement(case, "failure", message=_xml(result.summary))
            failure.text = _xml(result.text)


def _xml(text: str) -> str:
    """The text without characters that XML can't hold."""
    return _NOT_IN_XML.sub("\ufffd", text)
