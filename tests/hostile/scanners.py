"""What of ours reads text from outside, and texts that are hard to read.

`python -m tests.hostile.scanners SIZE SECONDS AROUND EACH NAME…` reads them, with so many of the
beginnings and ends: each text with all of them or, where EACH is `turn`, every other text, which is
the next one for what reads next, with one of them. It dies in the first text that takes more
seconds of the processor, and what it printed last says which one that was.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pydantic import TypeAdapter

from loopkit.agents.command import read_stream_json
from loopkit.agents.model.errors import as_agent_error, retry_after_s
from loopkit.agents.model.failure_cause import Received
from loopkit.checks.subject import in_template
from loopkit.document.writing import to_yaml
from loopkit.engine.findings import finding_id
from loopkit.engine.ledger import normalise
from loopkit.engine.payloads import Artifact
from loopkit.language.guard.grammar import parse as parse_guard
from loopkit.language.states.state import Extract
from loopkit.language.template.errors import fresh_budget
from loopkit.language.template.rendering import parse as parse_template
from loopkit.language.template.sandbox import FILTERS
from loopkit.language.validators.command import CommandRule
from loopkit.language.validators.report_map import VerdictReading
from loopkit.machine.inputs import extract
from loopkit.text import indent_lines, one_line, printable
from loopkit.text.editing import messages_of
from loopkit.text.json_text import extract_json, parse_json
from loopkit.text.markdown import code_blocks, section, title_has_text, without_code, without_fences
from loopkit.text.thoughts import read_call
from loopkit.validators.command import read_findings, rejection
from loopkit.validators.judges.form import OwnForm
from loopkit.validators.judges.report import read_report, read_verdict
from loopkit.validators.judges.text import TextForm
from loopkit.validators.setting import Setting

UNITS = [
    " ", "\t", "\n", "\r", " \n", "a", "A", "1", "0", "a ", "1.", "1s", "1:", "a\n", "ß", "\u0300",
    ".a", "a.", "a.b:1", "line 1", "line 1, ", "at ", "at line ", "on",
    "Error", "Error: ", "Error ", "missing ", "api key ",
    "<html><title>", "<!--", "<a ", "<", ">", "> ",
    "- ", "+ - ", "* a\n", "1. a\n", "  - a\n", "#", "# a\n", "## Goal\n", "Goal:\n", "**", "**a",
    "*a ", "**a:**\n", "***", "__", "_", "`", "``` \n", "```\na\n", "~~~\n", "~", "    a\n\n",
    "a\n===\n", "|", "| a ", "[", "]", "[a", "[a]:", "[a]: b\n", "[]", "![", "](", "(", "{", '{"',
    '{"a":', "[{", "[1,", "{}", "[]\n", '"', "'", "\\", '\\"', '"\\', "\x1b[", "\x1b]", "\x1b[0",
    "\x00", "\u202e", "{{", "{%", "{#", "}}", "{{ a }}", '{{"', "%", "%s", "&a ", "&", "!", "!!",
    "? ", ": ", ":", "=", "a: ", "a:", "a: b\n", "a:b\n", "- a:\n", "|\n", "<<<<<<<\n", "https://",
    "://a:", "/a", "a/", "../", "+", "+~", "Bearer ", "Verdict", "Verdict ", "verdict: ",
    "Verdict:\n", "## Verdict\n", "PASS", "PASS ", "PASS\n", "PASS or ", "PASS / ", "PASS,",
    "PASS if ", "PASS FAIL\n", "PASS_", "_PASS", "**PASS** ", "FAIL:", "[FAIL]", "[FAIL] ",
    "- [FAIL] a\n", "- [FAIL] a\n  b\n", "- [", "[x] ", "the final ", "1 of 2 ", "is ", " is",
    "not ", "and ", "in ", "not (", "a.b == 1 and ", "<tool_call>{", "```tool_code\n",
]  # fmt: skip
"""What a text repeats."""
AROUND = [
    ("Verdict: FAIL\n", "x Verdict: FAIL [FAIL] a.b:1x"),
    ("Verdict", "\nVerdict: FAIL\n- [FAIL] a.b:1\n"),
    ("Verdict: FAIL\n- [FAIL] a ", ":1x"),
    ("", ""),
    ("a", "x"),
    ('{"a": "', '"}'),
    ("Received: '<html>", ""),
]
"""What stands before and behind."""

FORM = OwnForm()
FIELDS = TypeAdapter(dict[str, Extract]).validate_python(
    {"goal": {"section": "Goal", "or_title": True}}
)


def headers(text: str) -> Mapping[str, str]:
    reset = {"x-ratelimit-reset-a": text, "x-ratelimit-remaining-a": "0"}
    return {"retry-after-ms": text, "retry-after": text, **reset}


def refused_by_server(text: str) -> None:
    for body in (text, json.dumps({"error": {"message": text, "type": text, "param": text}})):
        received = Received()
        received.begin(429, headers(text))
        received.add(body.encode(errors="replace"))
        as_agent_error(Exception(text), received, has_tools=True)


def filtered(name: str) -> Callable[[str], object]:
    def run(text: str) -> object:
        with fresh_budget():
            return FILTERS[name](text)

    return run


def verdict(**reading: Any) -> Callable[[str], object]:
    form = TextForm(reading=VerdictReading(**reading))
    return lambda text: read_verdict("v", [text], form, echoes=["Review this."])


def findings(parse: str) -> Callable[[str], object]:
    rule = CommandRule(command=["p"], parse=parse)
    setting = Setting(names={}, facts={}, patterns={}, folder=Path("/work"))
    return lambda text: read_findings(text, rule, setting)


SCANNERS: dict[str, Callable[[str], object]] = {
    "normalised": lambda text: normalise(Artifact(name="a", author="a", attempt=1, text=text)),
    "printable": printable,
    "one_line": one_line,
    "indented": lambda text: indent_lines(text, "  "),
    "finding_id": lambda text: finding_id("v", "r", text, text),
    "without_code": without_code,
    "without_fences": without_fences,
    "section": lambda text: section(text, "Goal", or_title=True),
    "title": title_has_text,
    "code_blocks": code_blocks,
    "fields": lambda text: extract(text, FIELDS, {}),
    "verdict": verdict(),
    "strictest_verdict": verdict(take="strictest"),
    "messages": messages_of,
    "stream_json": read_stream_json,
    "json": parse_json,
    "json_in_text": extract_json,
    "written_call": lambda text: read_call(text, ["a"]),
    "judgement": lambda text: read_report("v", text, FORM),
    **{parse: findings(parse) for parse in ("lines", "junit", "sarif", "report")},
    "failure": lambda text: rejection("p", SimpleNamespace(exit_code=1, stdout=text, stderr=text)),
    "error": lambda text: as_agent_error(RuntimeError(f"litellm.APIError: {text}")),
    "refused": refused_by_server,
    "retry_after": lambda text: retry_after_s(headers(text), text),
    "written": lambda text: to_yaml({"a": text}),
    "mentions": lambda text: in_template(f"{{{{ {text} }}}}{text}"),
    "template": parse_template,
    "guard": parse_guard,
    **{
        f"{name}_filter": filtered(name)
        for name in ("title", "wordcount", "untrusted", "truncate", "format")
    },
}  # type: ignore[arg-type]


PARSING = (
    "without_code", "section", "title", "code_blocks", "fields", "json_in_text", "written_call",
)  # fmt: skip
"""Those that read Markdown, which takes some microseconds a character."""


def texts(size: int, around: int, turn: int | None = None) -> Iterator[tuple[str, str]]:
    """Hard texts of about this length, each with what tells it; in a `turn` half of them, once."""
    for place, (before, behind) in enumerate(AROUND[:around]):
        for number, unit in enumerate(UNITS):
            if turn is None or (turn + number) % (2 * around) == 2 * place:
                yield (
                    f"{before!r} {unit!r}… {behind!r}",
                    before + unit * (size // len(unit)) + behind,
                )


def main(size: int, seconds: float, around: int, each: str, names: list[str]) -> None:
    for number, name in enumerate(names):
        for told, text in texts(size, around, number if each == "turn" else None):
            print(name, told, flush=True)
            # Its default is to end the process, also in the middle of a pattern.
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
            with contextlib.suppress(Exception):
                SCANNERS[name](text)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:])
