"""What a server says of the cap on an answer that a limit of the run makes loopkit send: the number
that it takes, or the option's other name. The machine has no such option, so its author is not told
to mend it."""

from __future__ import annotations

import re
from typing import NamedTuple

from loopkit.agents.model.failure_cause import Received, innermost, words
from loopkit.agents.port import AgentError

STATUSES = frozenset({400, 402, 413, 422, 429})
"""With which servers refuse a cap: credit or tokens of a minute may not suffice for it either."""
_OPTION = re.compile(
    r"(?i)\bmax(?:imum)?[_ ]?(?:(?:completion|output|new)[_ ]?)?tokens(?:_to_sample)?\b"
    r"|\bnum_predict\b|\b(?:completion|output) tokens\b"
)
_NAME = re.compile(r"\bmax_(?:completion_)?tokens\b")
_SUGGESTED = re.compile(
    r"(?i)\b(?:use|try|with|mean|by|of)\W{1,3}(?:the )?\W{0,2}(max_(?:completion_)?tokens)\b"
)
_UNKNOWN_NAME = re.compile(
    r"(?i)\b(?:unsupported|unrecogni[sz]ed|unknown|unexpected|invalid) \w*\s?(?:parameter|argument"
    r"|key|field|option|property)|\bextra inputs\b|\binstead\b|\bis (?:not supported|deprecated)"
)
_SEPARATOR = re.compile(r"(?<=\d)[,_](?=\d{3}(?!\d))")
_NUMBER = re.compile(r"(?<![\w.\-/])(?:\d+\s?[-–~]\s?)?(\d+)(?![\w\-]|\.\d)")
_WINDOWS = (
    re.compile(r"\d ?\+ ?\d+ ?> ?(\d+)"),
    re.compile(r"(?i)\b(?:context|sequence)[ _](?:length|window|limit|size)\D{0,40}?(\d+)"),
    re.compile(r"\bmax_model_len\D{0,5}(\d+)"),
    re.compile(r"(?i)(\d+)(?: tokens?)? (?:maximum )?context\b"),
    re.compile(
        r"(?i)^(?=.*(?:\btotal\b|\binputs?\W? tokens? \+|\bprompt and\b|\bper min|\bTPM\b))"
        r".*?(?:<=|≤|\bexceed|\bat most|\blimit(?: of| is|:)?)\s?(\d+)"
    ),
)
"""The tokens that prompt and answer may have together."""
_EXCLUSIVE = re.compile(r"(?i)\bexclusive\b|\b(?:lower|less|smaller) than\W{1,3}\d")
_WHOLE = re.compile(r"(?i)\b(?:requested|received)\b")


class CapRefusal(NamedTuple):
    most: int | None = None
    """The longest answer in tokens that it takes, below the cap; None where it names none."""
    name: str = ""
    """The name of the option that it wants instead; empty where it wants none."""


def cap_refusal(received: Received, cap: int, sent: int) -> CapRefusal | None:
    """What an answer says of a cap, if it does; `sent` is a bound on the tokens of the prompt."""
    core = innermost(received.data)
    said = " ".join((words(core) or str(core))[:2_000].split())
    is_refused = received.status in STATUSES or received.record.get("error")
    if not is_refused or (received.status == 429 and "too large" not in said.lower()):
        return None
    return refusal_in(said, cap, sent)


def refused(cap: int, said: str, option: str) -> AgentError:
    """The error for a refusal that could not be met; `option` is that of the agent."""
    asked = f"the longest answer ({cap:,} tokens) that loopkit asks for where a limit is set"
    remedy = f"set one that it takes in `params:`, or by `--param {option}=N` when you resume"
    return AgentError("fatal", f"the provider refuses {asked}: {said}; {remedy}")


def refusal_in(said: str, cap: int, sent: int) -> CapRefusal | None:
    plain = _SEPARATOR.sub("", said)
    numbers = [int(number[1]) for number in _NUMBER.finditer(plain)]
    # No model answers with fewer tokens than 64, so a lower number says something else.
    if (name := _other_name(plain)) and not any(64 <= number < cap for number in numbers):
        return CapRefusal(name=name)
    is_named = cap in numbers or _OPTION.search(plain) is not None
    if found := next(filter(None, (pattern.search(plain) for pattern in _WINDOWS)), None):
        window = int(found[1])
        left = window - _prompt(plain, numbers, window, cap, sent)
        is_too_long = left <= 0 or not (is_named or _WHOLE.search(plain))
        return None if is_too_long else CapRefusal(most=left if left < cap else None)
    if not is_named or min(numbers, default=0) > cap:
        return None
    lower = [number for number in numbers if 0 < number < cap]
    most = max(lower) - bool(_EXCLUSIVE.search(plain)) if lower else None
    return CapRefusal(most=most)


def _other_name(said: str) -> str:
    """The name that a server wants for the option, if it does not know ours."""
    names = _NAME.findall(said)
    if not names or not _UNKNOWN_NAME.search(said):
        return ""
    suggested = _SUGGESTED.search(said)
    other = "max_completion_tokens" if names[0] == "max_tokens" else "max_tokens"
    return suggested[1].lower() if suggested else other


def _prompt(said: str, numbers: list[int], window: int, cap: int, sent: int) -> int:
    """The tokens of the prompt, as a server counts them or as an estimate."""
    others = [number for number in numbers if number not in (cap, window)]
    if (summand := next((n for n in others if n + cap in others), None)) is not None:
        return summand
    if not others:
        return min(sent // 2, window // 2)
    is_whole = _WHOLE.search(said) and others[0] > cap
    return others[0] - cap if is_whole else others[0]
