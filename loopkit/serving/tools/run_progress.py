"""The progress of a call that drives a run: a message for each event that the console shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from loopkit.drive.stored_event import Stored
from loopkit.engine.events import Finished, Intended
from loopkit.outside.redaction import Redact
from loopkit.serving.tools.toolbox import Progress
from loopkit.text import one_line
from loopkit.text.run_ids import is_child
from loopkit.views.family_progress import FamilyProgress

WIDTH = 300


class RunProgress:
    """Turns the events of a run and its children into progress that rises with each message.

    Its whole part counts the works that agents were asked for, as the proof does; its fraction
    rises with each message. The end of the run adds one.
    """

    def __init__(self, tell: Callable[[Progress], None], redact: Redact) -> None:
        self._tell = tell
        self._redact = redact
        self._early: list[tuple[str, Stored]] | None = []
        """Events that arrived before the history was read; None after that."""
        self._most: float | None = None
        self._family = FamilyProgress()
        self._asked: set[tuple[str, str]] = set()
        """The tasks that agents were asked for in this call, each with its run."""
        self._told = 0

    def hear(self, run: str, stored: Stored) -> None:
        """Report an event, if the console would show it."""
        if self._early is not None:
            self._early.append((run, stored))
        else:
            self._take(run, stored)

    def begin(
        self, history: Mapping[str, Sequence[Stored]], before: int, most: float | None
    ) -> None:
        """Take in the history of the runs of a family, parents first, and report the new events.

        The first `before` events of the root precede this call. `most` is the most works that a
        whole run can request from agents, if that is known.
        """
        self._most = most
        known: dict[str, int] = {}
        for run, events in history.items():
            known[run] = events[-1].seq if events else 0
            own = events if is_child(run) else [one for one in events if one.seq <= before]
            self._family.begin(run, own)
            for stored in events[len(own) :]:
                self._take(run, stored)
        early, self._early = self._early or [], None
        for run, stored in early:
            if stored.seq > known.get(run, 0):
                self._take(run, stored)

    def _take(self, run: str, stored: Stored) -> None:
        event = stored.event
        if isinstance(event, Intended) and event.is_of_agent:
            self._asked.add((run, event.task))
        lines = [line.text.strip() for line in self._family.lines(run, stored)]
        self._family.take(run, stored)
        if lines:
            self._told += 1
            is_end = isinstance(event, Finished) and not is_child(run)
            part = 1 if is_end else 1 - 1 / self._told
            self._report(len(self._asked) + part, " · ".join(lines))

    def _report(self, done: float, text: str) -> None:
        total = None
        if self._most is not None:
            # If limits were raised meanwhile, a run may request more.
            total = max(self._most + 1, done)
        self._tell(Progress(done, total, one_line(self._redact(text), WIDTH)))
