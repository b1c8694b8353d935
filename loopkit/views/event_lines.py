"""Events as lines of JSON, the same wherever they are printed or sent."""

from __future__ import annotations

import json

from loopkit.drive.stored_event import Stored


def event_line(run: str, stored: Stored) -> str:
    """An event as one line of JSON: its place in the journal, then its fields."""
    place = {"run": run, "seq": stored.seq, "epoch": stored.epoch, "time": stored.at}
    head = {**place, "type": stored.event.type}
    return json.dumps({**head, **stored.event.plain()}, ensure_ascii=False)
