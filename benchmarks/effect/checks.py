"""What judges the answers: programs that say what is wrong, as a plug-in of a machine, too."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any

Spec = Mapping[str, Any]
MEMORY = 512 * 1024 * 1024
SECONDS = 5
MOST_NAMED = 3
"""Failing calls that are told at a time."""


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+(?:['’-]\w+)*", text)


def sentences_of(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?])\s+", text.strip()) if words_of(part)]


def lines_of(text: str) -> list[str]:
    return [line for line in text.strip().splitlines() if line.strip()]


COUNTED: dict[str, tuple[str, Callable[[str], int]]] = {
    "words": ("words", lambda text: len(words_of(text))),
    "sentences": ("sentences", lambda text: len(sentences_of(text))),
    "lines": ("lines", lambda text: len(lines_of(text))),
    "characters": ("characters", lambda text: len(text.strip())),
}


def _counts(text: str, spec: Spec) -> Iterator[str]:
    for name, (noun, count) in COUNTED.items():
        if name in spec:
            (low, high), has = spec[name], count(text)
            wanted = f"{low}" if low == high else f"{low} to {high}"
            if not low <= has <= high:
                yield f"It has {has} {noun}; {wanted} are asked for."
    for line in lines_of(text) if "each_line" in spec else ():
        if len(words_of(line)) > spec["each_line"]:
            yield f"The line '{line.strip()}' has more than {spec['each_line']} words."


def _wording(text: str, spec: Spec) -> Iterator[str]:
    used = {word.lower() for word in words_of(text)}
    for word in spec.get("uses", ()):
        if word.lower() not in used:
            yield f"The word '{word}' is missing."
    for word in spec.get("avoids", ()):
        if word.lower() in used:
            yield f"The word '{word}' stands in it."
    for part in spec.get("keeps", ()):
        if part not in text:
            yield f"'{part}' is missing."


def _form(text: str, spec: Spec) -> Iterator[str]:
    if not text.strip().startswith(spec.get("begins", "")):
        yield f"It does not begin with '{spec['begins']}'."
    if not text.strip().endswith(spec.get("ends", "")):
        yield f"It does not end with '{spec['ends']}'."
    if spec.get("case") == "lower" and text != text.lower():
        yield "It has capital letters."
    if spec.get("case") == "upper" and text != text.upper():
        yield "It has small letters."


def text_findings(text: str, spec: Spec) -> list[str]:
    """What is wrong with a text: lengths, words to use and to leave out, its beginning and end."""
    return [*_counts(text, spec), *_wording(text, spec), *_form(text, spec)]


def code_in(text: str) -> str:
    """The program in an answer: its first block of code, or all of it."""
    block = re.search(r"```(?:python|py)?[ \t]*\n(.*?)(?:\n```|\Z)", text, re.DOTALL)
    return block[1] if block else text


RUN_CASES = """
import json, sys
code, cases = json.load(sys.stdin)
space, found = {}, []
try:
    exec(compile(code, "answer", "exec"), space)
except BaseException as error:
    found.append(f"The code can't be run: {type(error).__name__}: {error}.")
    cases = []
for call, expected in cases:
    try:
        got = eval(call, space)
        if got != eval(expected):
            found.append(f"{call} returned {got!r}; {expected} is right.")
    except BaseException as error:
        found.append(f"{call} raised {type(error).__name__}: {error}; {expected} is right.")
sys.__stdout__.write("\\n" + json.dumps(found))
"""


def _confine() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def code_findings(text: str, spec: Spec) -> list[str]:
    """What the program in an answer does wrong; it runs in a process of its own."""
    given = json.dumps([code_in(text), spec["cases"]])
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", RUN_CASES], check=False,
            input=given, capture_output=True, text=True, timeout=2 * SECONDS, preexec_fn=_confine,
        )  # fmt: skip
        found: list[str] = json.loads(done.stdout.rpartition("\n")[2])
    except (subprocess.TimeoutExpired, ValueError):
        return ["The code did not end in time."]
    return found[:MOST_NAMED]


def record_findings(data: Any, spec: Spec) -> list[str]:
    """What is wrong with a booking that was read from a text; its form is right by now."""
    found = []
    for name in ("guest", "room"):
        if data[name].lower() not in spec["text"].lower():
            found.append(f"`{name}` is {data[name]!r}, which the text does not say.")
    try:
        nights = (date.fromisoformat(data["leaves"]) - date.fromisoformat(data["arrives"])).days
    except ValueError:
        return [*found, "`arrives` and `leaves` are not both dates as 2024-05-31."]
    if nights != spec["nights"]:
        found.append(
            f"`arrives` and `leaves` are {nights} nights apart; the text says {spec['nights']}."
        )
    if data["guests"] != spec["guests"]:
        found.append(f"`guests` is {data['guests']}; the text names another number.")
    return found


def long_findings(text: str, spec: Spec) -> list[str]:
    return code_findings(text, spec) if "cases" in spec else text_findings(text, spec)


FIND: dict[str, Callable[[Any, Spec], list[str]]] = {
    "A": record_findings,
    "B": code_findings,
    "C": text_findings,
    "D": long_findings,
}
"""What judges an answer, by the kind of its task."""


def judge(artifact: Any, context: Any) -> list[str]:
    """The plug-in of the machines."""
    return FIND[context.input["kind"]](artifact, context.input["spec"])
