"""Thoughts are taken out of an answer, and nothing else is."""

from __future__ import annotations

import json
import sys
import time

import pytest

from loopkit.engine.events import Replied
from loopkit.text.thoughts import set_apart
from tests.support import Desk, console_lines, scenario

ANALYSIS = "<|channel|>analysis<|message|>"
COMMAND = "<|START_THINKING|>One.<|END_THINKING|>"
SKY = "<|begin_of_thought|>One.<|end_of_thought|>\n\n"
CASES = [
    ("Sure!\n<think>One.</think>\nTwo.", "Sure!\n\nTwo.", "One."),
    ("Sure! <thinking>One.</thinking> Two.", "Sure!  Two.", "One."),
    ("<Thought>One.</thought>\n\n<reasoning>Two.</reasoning>\nThree.", "Three.", "One.\n\nTwo."),
    ("[THINK]One.[/THINK]Two.", "Two.", "One."),
    ("◁think▷One.◁/think▷Two.", "Two.", "One."),
    ("<seed:think>One.</seed:think>Two。<think>Three.</think>", "Two。", "One.\n\nThree."),
    (f"{COMMAND}<|START_RESPONSE|>Two.<|END_RESPONSE|>", "Two.", "One."),
    ("<unused94>thought\nOne.<unused95>Two.", "Two.", "One."),
    (f"{SKY}<|begin_of_solution|>\nTwo.\n<|end_of_solution|>", "Two.\n", "One."),
    ("<think>\n\n</think>\n\nTwo.", "Two.", ""),
    ("<think>One.", "", "One."),
    ("Two.\n<think>One.", "Two.\n", "One."),
    ("One.\n</think>\n\nTwo.", "Two.", "One."),
    ("One.\r\n</think>\r\nTwo.", "Two.", "One."),
    ("```py\nOne.\n</think>\n```py\nTwo.\n```", "```py\nTwo.\n```", "```py\nOne."),
    ("One.\n</think>\nTwo.\n</think>\nThree.", "Three.", "One.\n\nTwo."),
    ("<think>1\n<think>2</think>\n3</think>Two.", "Two.", "1\n<think>2</think>\n3"),
    ("<think>I write `</think>` next.</think>Two.", "Two.", "I write `</think>` next."),
    (f"{ANALYSIS}One.<|end|><|channel|>final<|message|>Two.<|return|>", "Two.", "One."),
    (f"{ANALYSIS}One.<|end|><|start|>assistant<|channel|>final<|message|>Two.", "Two.", "One."),
    ("<|channel|>commentary to=f <|constrain|>json<|message|>{}<|call|>", "", "{}"),
    ("analysisOne.assistantfinalTwo.", "Two.", "One."),
    ("```\n<think>a\n```\n<think>One.</think>Two.", "```\n<think>a\n```\nTwo.", "One."),
    ("```\nnever closed\n<think>One.</think>\nTwo.", "```\nnever closed\n\nTwo.", "One."),
]  # fmt: skip
UNTOUCHED = [
    "Two.",
    "`<think>` is closed by `</think>`.",
    "Write between <think> and </think>.",
    "The mark </think> ends it.",
    "~~~\n<think>a\n~~~\n",
    '{"a": "<think>b</think>"}',
    'It is this: {"a": "<think>", "b": ["<think>b</think>"]}, as I said.',
]


@pytest.mark.parametrize(("text", "answer", "thoughts"), CASES)
def test_what_stands_between_the_marks_is_no_answer(text: str, answer: str, thoughts: str) -> None:
    assert set_apart(text) == (answer, thoughts)
    assert set_apart(text, "keep") == (text, "")


@pytest.mark.parametrize("text", UNTOUCHED)
def test_a_mark_that_the_answer_speaks_of_stays(text: str) -> None:
    assert set_apart(text) == (text, "")


def test_marks_of_an_agent_replace_the_known_ones() -> None:
    text = "<plan>One.</plan><think>Two.</think>"
    assert set_apart(text, ("<plan>", "</plan>")) == ("<think>Two.</think>", "One.")


@pytest.mark.parametrize(
    "text", ["```x\n", "<think>", ': "a', ": <think> ", "`a", "[ ", "</think>\n"]
)
def test_a_long_text_of_marks_is_read_in_time(text: str) -> None:
    started = time.process_time()
    set_apart(text * 40_000 + "\n<think>")
    assert time.process_time() - started < 2


MACHINE = """
loopkit: 1
agents:
  writer: {AGENT}
  critic: {model: openai/gpt-5-mini}
states:
  write: {agent: writer, prompt: Write., output: line, next: check}
  check:
    validate: line
    by: [{not_matches: tide}, {judge: critic, rubric: [It is calm.]}]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success, result: line}
  failed: {final: failure, result: line}
"""
TEXT = "No tide.\n</think>\n\nThe harbour sleeps."
PASS = '<think>{"verdict": "fail", "findings": []}</think>\n{"verdict": "pass", "findings": []}'
PROGRAM = json.dumps([sys.executable, "-c", f"print({TEXT!r})"])


@pytest.mark.parametrize("agent", ["model: openai/gpt-5-mini", f"command: {PROGRAM}"])
def test_an_author_and_a_judge_are_read_without_them(desk: Desk, agent: str) -> None:
    spoken = {"writer": [TEXT]} if "model" in agent else {}
    script = scenario(agents={**spoken, "critic": [PASS]})
    played = desk.play(MACHINE.replace("AGENT", agent), script)
    assert played.outcome == "done"
    assert played.result["line"].strip() == "The harbour sleeps."
    written, judged = played.of(Replied)
    assert (written.raw.strip(), written.thoughts) == (TEXT, "No tide.")
    assert judged.raw == PASS
    assert "answered with 8 characters of thoughts" in "\n".join(console_lines(played))


def test_an_agent_may_keep_them(desk: Desk) -> None:
    machine = MACHINE.replace("AGENT", "model: openai/gpt-5-mini, thoughts: keep")
    played = desk.play(machine, scenario(agents={"writer": [TEXT], "critic": []}))
    assert played.outcome == "failed"
    assert played.result["line"] == TEXT


def test_an_answer_that_is_all_thought_is_a_content_fault(desk: Desk) -> None:
    machine = MACHINE.replace("AGENT", "model: openai/gpt-5-mini")
    played = desk.play(machine, scenario(agents={"writer": ["<think>Hm."], "critic": []}))
    [report] = played.reports
    assert [finding.message for finding in report.findings] == ["the answer is all thought"]


@pytest.mark.parametrize("marks", ["drop", "[<a>]", '["", b]'])
def test_marks_that_are_no_pair_are_a_mistake(desk: Desk, marks: str) -> None:
    machine = MACHINE.replace("AGENT", f"model: openai/gpt-5-mini, thoughts: {marks}")
    [problem] = desk.problems(machine)
    assert "thoughts" in str(problem)
