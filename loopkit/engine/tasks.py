"""Tasks: what a run knows about the calls for one piece of work, and about its children."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, islice
from typing import Any

from loopkit.engine.events import ChildEnded, ChildStarted, Failed, Intended, Replied
from loopkit.engine.log import Log
from loopkit.engine.records import Record
from loopkit.values import Value


class Exchange(Value, frozen=True):
    """A prompt and its reply, both committed."""

    prompt: str
    reply: Replied
    opening: Exchange | None = None
    """For a revision: the newest exchange before it that stated the task."""
    task: str = ""
    """The piece of work that it belongs to."""
    goes_on: bool = False
    """Whether tool results were sent instead of the prompt."""
    tool_calls_before: int = 0
    """How many tools were called in this piece of work before it."""


class Child(Value, frozen=True):
    """A run of another machine that a state has begun."""

    started: ChildStarted
    ended: ChildEnded | None = None


class GivenUp(Value, frozen=True):
    """A callee that failed before a fallback was asked."""

    fallback: int
    """Which of the agent's fallbacks it was; 0 is the agent itself."""
    tries: int
    failed: Failed | None
    """Its last try, if it is known to have failed."""


def last_turns(exchanges: Sequence[Exchange], most: int) -> list[list[Exchange]]:
    """The last turns of a conversation, oldest first: the exchanges of one piece of work each."""
    turns = (list(turn) for _, turn in groupby(reversed(exchanges), key=lambda each: each.task))
    return [turn[::-1] for turn in islice(turns, most)][::-1]


def opening_of_last_turn(exchanges: Log[Exchange]) -> Exchange:
    """The exchange with which the last turn of a conversation began; there has to be one."""
    last = exchanges.last
    for exchange in reversed(exchanges):
        if exchange.task != last.task:
            break
        last = exchange
    return last


def tool_task(author: str, number: int) -> str:
    """The task of the tool call with this number in its author's work."""
    return f"{author}{_TOOL}{number}"


def is_of_program(task: str) -> bool:
    """Whether a piece of work is that of a command or a tool, and not of an agent."""
    return task.endswith(":run") or _TOOL in task


_TOOL = ":tool:"


class Task(Record, frozen=True, kw_only=True):
    """One piece of work for an agent or a command: its tries, re-asks and replies."""

    agent: str
    place: str
    index: int
    """How many tasks this agent had before."""
    place_index: int
    """How many of them at this place."""
    sent: int = 0
    """Calls that were intended, for the next key."""
    fallback: int = 0
    """Which of the agent's fallbacks was asked last; 0 is the agent itself."""
    given_up: tuple[GivenUp, ...] = ()
    """The callees before it, since the last reply or resume."""
    tries: int = 0
    """Its failed tries since then, which count against its retries."""
    unread: int = 0
    """The failed tries with an answer that could not be read."""
    settled: int = 0
    """Calls that were answered or have certainly failed."""
    exchanges: tuple[Exchange, ...] = ()
    tool_calls: int = 0
    """The tools that were called in all of them."""
    renewed: int = 0
    """Exchanges before the last resume, which no longer count against re-asks."""
    failed: Failed | None = None
    """The last try, if it failed."""

    @property
    def declared_as(self) -> str:
        """The agent or state whose work it is, as the machine names it; for a tool, its agent."""
        return self.agent.partition(".")[0]

    def after_intent(self, event: Intended) -> Task:
        """The task once a call is about to be made, to the same callee or the next one."""
        if event.fallback != self.fallback:
            lost = GivenUp(self.fallback, self.tries, self.failed)
            given_up = (*self.given_up, lost) if self.tries else self.given_up
            tried = {**_FRESH, "fallback": event.fallback, "given_up": given_up}
            return self.replace(**tried, sent=self.sent + 1)
        return self.replace(sent=self.sent + 1)

    def after_reply(self, exchange: Exchange) -> Task:
        """The task once it has an answer."""
        # Said in full, because this is done in every step and takes a tenth of a `replace`.
        return Task(
            agent=self.agent,
            place=self.place,
            index=self.index,
            place_index=self.place_index,
            sent=self.sent,
            fallback=self.fallback,
            settled=self.settled + 1,
            exchanges=(*self.exchanges, exchange),
            tool_calls=self.tool_calls + len(exchange.reply.tool_calls),
            renewed=self.renewed,
        )

    def after_failure(self, event: Failed) -> Task:
        """The task once a try of it has failed."""
        return self.replace(
            tries=self.tries + 1,
            unread=self.unread + event.unreadable,
            settled=self.settled + 1,
            failed=event,
        )

    def after_resume(self, renewed: int) -> Task:
        """The task with new tries; its first `renewed` exchanges no longer count.

        If no callee gave an answer, the agent itself is asked first again.
        """
        is_lost = bool(self.given_up or self.failed)
        fallback = 0 if is_lost else self.fallback
        return self.replace(**_FRESH, fallback=fallback, renewed=renewed)


_FRESH: dict[str, Any] = {
    "given_up": (),
    "tries": 0,
    "unread": 0,
    "failed": None,
}
"""The fields of a task whose tries are reset."""
