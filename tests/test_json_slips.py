"""Four slips in an author's JSON are mended, and nothing else is."""

from __future__ import annotations

import time

import pytest

from loopkit.engine.events import Suspended, Worked
from loopkit.text.json_text import extract_json, mend
from tests.support import Desk, console_lines, scenario


@pytest.mark.parametrize(
    ("text", "mended", "slips"),
    [
        ('{"a": [1, 2,],}', '{"a": [1, 2]}', ["trailing commas"]),
        ("{'a': 'it\\'s \"b\"'}", '{"a": "it\'s \\"b\\""}', ["single quotes"]),
        ('{"a": "http://b", /* 1, */ "c": 1 // d\n}', '{"a": "http://b", "c": 1}', ["comments"]),
        ('{"a": "1\n2"}', '{"a": "1\\n2"}', ["line breaks in a text"]),
        ("It's {'a':1} or\n[1,]", 'It\'s {"a": 1} or\n[1]', ["single quotes", "trailing commas"]),
    ],
)  # fmt: skip
def test_a_slip_is_mended_and_named(text: str, mended: str, slips: list[str]) -> None:
    assert mend(text) == (mended, tuple(slips))


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        "{a: 1,}",
        '{"a": 1 "b": 2,}',
        '{"a": 1,, "b": 2}',
        "[,]",
        '{"a": 1, "a": 2,}',
        '{"a": "b "c" d",}',
        "{'a': 'it's'}",
        '{"a": True,}',
        '{"a": NaN,}',
        '{"a": +1,}',
        '{"a": .5,}',
        '{"a": 01,}',
        '{"a": 0x1F,}',
        '{"a": 1e999,}',
        '{"a": "\\q",}',
        '{"a": "\t",}',
        '{"a": 1, # b\n}',
        "[" * 65 + "1," + "]" * 65,
        '{"a": 1,} {"b": ',
        '{"a": [1,',
        "see [1] or {'a'}",
    ],
)
def test_any_other_fault_stays(text: str) -> None:
    assert mend(text) == (text, ())


@pytest.mark.parametrize("part", ["[", "{'", '["a",', "[1,]", "/*", "[//", "['\n", '{"a": "b",}'])
def test_a_long_text_of_slips_is_read_in_time(part: str) -> None:
    started = time.process_time()
    for text in (part * 50_000, "[" * 60 + part * 50_000 + "x"):
        mend(text)
    assert time.process_time() - started < 5


def test_the_only_value_that_fits_is_taken() -> None:
    def fits(value: object) -> bool:
        return isinstance(value, list) or (isinstance(value, dict) and "a" in value)

    assert extract_json('{"b": 1} becomes {"a": 2}, or {"a": 2}', fits) == {"a": 2}
    assert extract_json('From {"b": 1}:\n[{"c": 1}]', fits) == [{"c": 1}]
    for text in ('{"a": 1} or {"a": 2}', '{"b": 1} or {"c": 2}', '{"a": 1} or {"b": {"c": oops'):
        assert not fits(extract_json(text, fits))


MACHINE = """
loopkit: 1
agents:
  writer: {model: openai/gpt-5-mini, schema: {name: str, age: int}}
  critic: {model: openai/gpt-5-mini}
states:
  write: {agent: writer, prompt: Who is it?, output: person, next: check}
  check:
    validate: person
    by: [{judge: critic, rubric: [It is Bo.], reask: 0}]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success, result: person}
  failed: {final: failure, result: person}
"""
SLIPPED = "It's {'name': 'Ida'}. No: {'name': 'Bo', 'age': 41,}"
PASS = '{"verdict": "pass", "findings": []}'


def test_an_event_says_what_was_mended(desk: Desk) -> None:
    played = desk.play(MACHINE, scenario(agents={"writer": [SLIPPED], "critic": [PASS]}))
    assert played.result == {"person": {"name": "Bo", "age": 41}}
    artifact = played.of(Worked)[0].artifact
    assert artifact is not None
    assert (artifact.text, artifact.mended) == (SLIPPED, ("single quotes", "trailing commas"))
    assert "mended: single quotes, trailing commas" in "\n".join(console_lines(played))


def test_a_report_or_a_cut_off_answer_is_never_mended(desk: Desk) -> None:
    agents = {"writer": ['{"name": "Bo", "age": 41}'], "critic": [PASS.replace("]}", "],}")]}
    [suspended] = desk.play(MACHINE, scenario(agents=agents)).of(Suspended)
    assert suspended.reason == "content"
    for cut in ({"reply": SLIPPED, "cut_off": True}, {"reply": '{"name": "Bo'}):
        played = desk.play(MACHINE, scenario(agents={"writer": [cut], "critic": []}))
        assert played.outcome == "failed"
        message = played.reports[0].findings[0].message
        assert "cut off" in message or "starting at line 1, column 10" in message
