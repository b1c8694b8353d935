"""Sizes of prompts: how many characters each attempt and each judge was sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from loopkit.engine.events import Entered, Event, Intended, PromptSize
from loopkit.text import plural

MOST_PROMPTS = 20
"""How many prompts are listed, the last ones."""
PARTS = {"system": "system", "turns": "earlier turns", "schemas": "schemas"}


def prompt_lines(events: Iterable[Event]) -> Iterator[str]:
    """The largest call of each attempt and of each judge's round, in the order of the run."""
    sizes = _by_work(events)
    if not sizes:
        return
    yield "prompts:"
    if (earlier := len(sizes) - MOST_PROMPTS) > 0:
        yield f"  … {plural(earlier, 'earlier one')}"
    for work, calls in list(sizes.items())[-MOST_PROMPTS:]:
        often = f", {plural(len(calls), 'call')}" if len(calls) > 1 else ""
        yield f"  {work}: {_in_words(max(calls, key=lambda size: size.total))}{often}"


def _by_work(events: Iterable[Event]) -> dict[str, list[PromptSize]]:
    """The sizes of the prompts of each piece of work, by its name."""
    sizes: dict[str, list[PromptSize]] = {}
    attempt = 0
    for event in events:
        match event:
            case Entered():
                attempt = event.attempt
            case Intended(role="author") if event.size.total:
                sizes.setdefault(f"{event.state}, attempt {attempt}", []).append(event.size)
            case Intended(role="judge") if event.size.total:
                work = f"{event.state} ({event.asked_at}), round {attempt}"
                sizes.setdefault(work, []).append(event.size)
            case _:
                pass
    return sizes


def _in_words(size: PromptSize) -> str:
    parts = [f"{name} {getattr(size, key):,}" for key, name in PARTS.items() if getattr(size, key)]
    beside = f" ({', '.join(parts)})" if parts else ""
    return f"{plural(size.total, 'character', ',')}{beside}"
