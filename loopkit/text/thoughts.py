"""The thoughts that a model writes around its answer, such as `<think>…</think>`.

A mark counts where a line or a sentence begins. In a fence, between backticks and in a string of
JSON it belongs to the answer; so does all of a text that is JSON.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, TypeAlias

from loopkit.text.json_text import NoJson, parse_json

Marks: TypeAlias = tuple[str, str]
"""The text that opens a thought, and the one that closes it."""

_WORDS = "(?i:(?:seed:)?think|thinking|thoughts?|reasoning)"
# Qwen, DeepSeek and many others; Mistral; Kimi; Sky-T1; Gemma; MedGemma; Command.
_OTHERS = {
    "[THINK]": "[/THINK]", "◁think▷": "◁/think▷", "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|channel>thought": "<channel|>", "<unused94>thought": "<unused95>",
    "<|START_THINKING|>": "<|END_THINKING|>",
}  # fmt: skip
_OPENING = "|".join([rf"<{_WORDS}>", *map(re.escape, _OTHERS)])
_CLOSING = "|".join([rf"</{_WORDS}>", *map(re.escape, _OTHERS.values())])
# gpt-oss: each message has a channel, and only that of `final` is the answer. A server that leaves
# out the marks runs their words together. Sky-T1 and Command have marks around the answer as well.
_MESSAGE = (
    r"(?:<\|start\|>[^<\n]*)?<\|channel\|>\s*(?P<channel>\w+)[^<]*(?:<\|constrain\|>[^<]*)?"
    r"<\|message\|>|\A(?P<bare>analysis)(?=.*assistantfinal)"
    r"|<\|(?P<answer>begin_of_solution|START_RESPONSE)\|>"
)
_END_OF_MESSAGE = re.compile(
    r"<\|(?:end|return|call|end_of_solution|END_RESPONSE)\|>|(?=<\|(?:start|channel)\|>)"
    r"|assistantfinal|\Z"
)
_CODE = (
    r"^ {0,3}(?P<fence>`{3,}+|~{3,}+)[^\n]*\n(?:(?! {0,3}(?P=fence))[^\n]*\n)*+"
    r" {0,3}(?P=fence)[`~]*[ \t\r]*$"
    r"|(?<!`)(?P<ticks>``?)(?!`)[^`\n]+(?P=ticks)"
    r'|[\[{,:]\s*+"(?:[^"\\\n]|\\.)*+"(?=\s*[,:}\]])'
)
_NEAR = 200
"""The characters before a mark that are looked at."""


@cache
def _patterns(marks: Marks | None) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A pattern for any mark, and one for a mark or what protects it."""
    opening, closing = (_OPENING, _CLOSING) if marks is None else map(re.escape, marks)
    message = _MESSAGE if marks is None else r"(?P<channel>(?P<bare>(?P<answer>(?!))))"
    alone = rf"^[ \t]*(?P<alone>{closing})[ \t\r]*$"
    scanned = f"{_CODE}|{message}|{alone}|(?P<open>{opening})"
    flags = re.MULTILINE | re.DOTALL
    return re.compile(f"{message}|{opening}|{closing}", re.DOTALL), re.compile(scanned, flags)


def set_apart(text: str, marks: Marks | Literal["keep"] | None = None) -> tuple[str, str]:
    """The text without its thoughts, and the thoughts; the text unchanged where it has none.

    `marks` are looked for instead of the known ones; with `keep` there are none. A thought that is
    never closed has all that follows. A closing mark that was never opened and is alone on its line
    closes a thought that began with the text.
    """
    if marks == "keep":
        return text, ""
    any_mark, scanned = _patterns(marks)
    if not any_mark.search(text) or not isinstance(parse_json(text), NoJson):
        return text, ""
    kept: list[str] = []
    thoughts: list[str] = []
    at = position = 0
    last = {one[0].lower(): one.start() for one in any_mark.finditer(text)}
    while mark := scanned.search(text, position):
        start, position = mark.span()
        if mark["channel"] or mark["bare"] or mark["answer"]:
            end = _END_OF_MESSAGE.search(text, position)
            assert end is not None
            kept.append(text[at:start])
            part = kept if mark["channel"] == "final" or mark["answer"] else thoughts
            part.append(text[position : end.start()])
            at = position = end.end()
        elif mark["alone"]:
            thoughts.append("".join([*kept, text[at:start]]))
            kept, at = [], position
        elif opening := mark["open"]:
            closing = marks[1] if marks else _OTHERS.get(opening, f"{opening[0]}/{opening[1:]}")
            is_closed = position <= last.get(closing.lower(), -1)
            if _may_begin(text, at, start, is_closed=is_closed):
                kept.append(text[at:start])
                closed, at = _end_of_thought(text, position, opening, closing)
                thoughts.append(text[position:closed])
                position = at
    if not at:
        return text, ""
    answer = "".join([*kept, text[at:]]).lstrip()
    return answer, "\n\n".join(filter(None, map(str.strip, thoughts)))


def _may_begin(text: str, at: int, start: int, *, is_closed: bool) -> bool:
    """Whether a thought may begin there; the answer goes on at `at`."""
    before = text[max(at, start - _NEAR) : start].rstrip(" \t\r")
    return not before or before[-1] in "\n.!?…。！？" or (is_closed and before[-1] in ":,>：，")


def _end_of_thought(text: str, begin: int, opening: str, closing: str) -> tuple[int, int]:
    """Where a thought ends, and where the text goes on; the end of the text if it is never closed.

    A thought that is opened inside it is a part of it.
    """
    pair = re.compile(f"{re.escape(closing)}|(?P<open>{re.escape(opening)})", re.IGNORECASE)
    depth, last = 1, (len(text), len(text))
    for mark in pair.finditer(text, begin):
        if text[mark.start() - 1] + text[mark.end() : mark.end() + 1] in ("``", '""', "''"):
            continue
        if not mark["open"]:
            depth, last = depth - 1, mark.span()
        elif _may_begin(text, begin, mark.start(), is_closed=True):
            depth += 1
        if depth == 0:
            break
    return last
