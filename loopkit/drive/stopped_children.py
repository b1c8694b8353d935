"""Children that stopped before their end: why their parent stops with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loopkit.engine.events import Suspended
from loopkit.engine.state import RunState
from loopkit.text import one_line
from loopkit.text.run_ids import place_of

MOST_TOLD = 5
"""How many children are named."""
MESSAGE_WIDTH = 120
_URGENCY = ("waiting", "limit", "fatal", "content", "transient", "interrupted")


def suspension(name: str, stopped: Mapping[str, RunState], time_s: float) -> Suspended:
    """The suspension of a state whose children stopped, with the most urgent of their reasons.

    `stopped` has the children by their keys, in the order of the list.
    """
    reason = min((_reason(child) for child in stopped.values()), key=_URGENCY.index)
    causes = [child.suspended for child in stopped.values() if child.suspended]
    remedies = [cause.remedy for cause in causes if cause.reason == reason and cause.remedy]
    resumes = [cause.resume_at for cause in causes if cause.resume_at is not None]
    return Suspended(
        state=name,
        reason=reason,
        message="; ".join(_messages(name, stopped)),
        remedy="\n".join(dict.fromkeys(remedies[:MOST_TOLD])),
        resume_at=min(resumes, default=None),
        time_s=time_s,
    )


def _reason(child: RunState) -> Any:
    if child.suspended is not None:
        return child.suspended.reason
    return "waiting" if child.status == "waiting" else "interrupted"


def _messages(name: str, stopped: Mapping[str, RunState]) -> Iterator[str]:
    """The children that wait for a person, then the first others with their reasons."""
    asking = {key: child.question for key, child in stopped.items() if child.question is not None}
    others = [key for key in stopped if key not in asking]
    if len(asking) == 1:
        [(key, question)] = asking.items()
        text = one_line(question.text, MESSAGE_WIDTH)
        yield f"`{place_of(name, key)}` waits for a person: {text}"
    elif asking:
        named = [one_line(key, MESSAGE_WIDTH) for key in list(asking)[:MOST_TOLD]]
        named += [f"{len(asking) - MOST_TOLD:,} more"] if len(asking) > MOST_TOLD else []
        yield f"{len(asking):,} items wait for a person: {', '.join(named)}"
    for key in others[:MOST_TOLD]:
        suspended = stopped[key].suspended
        why = suspended.message if suspended else "it was stopped"
        yield f"`{place_of(name, key)}`: {one_line(why, MESSAGE_WIDTH)}"
    if len(others) > MOST_TOLD:
        yield f"and {len(others) - MOST_TOLD:,} more"
