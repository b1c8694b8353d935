"""Tasks: what a run knows of the calls for one piece of work, and of its children."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, islice
from typing import Any

from loopkit.engine.events import ChildEnded, ChildStarted, Failed, Intended, Replied
from loopkit.engine.records import Record
from loopkit.values import Value


class Exchange(Value, frozen=True):
    """A prompt and its reply, both committed."""

    prompt: str
    reply: Replied
    opening: Exchange | None = None
    """Where it was a revision: the newest one before it that said what the task is."""
    task: str = ""
    """The piece of work that it belongs to."""
    goes_on: bool = False
    """What tools gave was sent, and not the prompt."""
    tool_calls_before: int = 0
    """How many tools were called in this piece of work before it."""


class Child(Value, frozen=True):
    """A run of another machine that a state has begun."""

    started: ChildStarted
    ended: ChildEnded | None = None


class GivenUp(Value, frozen=True):
    """One who was asked in vain, before a fallback was."""

    fallback: int
    """Which of the agent's fallbacks it was; 0 is the agent itself."""
    tries: int
    failed: Failed | None
    """Its last try, where it is known to have failed."""


def last_turns(told: Sequence[Exchange], most: int) -> list[list[Exchange]]:
    """The last turns of a conversation, oldest first: the exchanges of one piece of work each."""
    turns = (list(turn) for _, turn in groupby(reversed(told), key=lambda each: each.task))
    return [turn[::-1] for turn in islice(turns, most)][::-1]


def opening_of_last_turn(told: Sequence[Exchange]) -> Exchange:
    """The exchange with which the last turn of a conversation began; there has to be one."""
    last = told[-1]
    for exchange in reversed(told):
        if exchange.task != last.task:
            break
        last = exchange
    return last


def tool_task(author: str, number: int) -> str:
    """The piece of work that a call of a tool is, the how manieth of its author's work."""
    return f"{author}{_TOOL}{number}"


def is_of_program(task: str) -> bool:
    """Whether a piece of work is no agent's, but that of a command or a tool."""
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
    """Those before it, since the last reply or resume."""
    tries: int = 0
    """Its failed ones since then: what its retry budget counts."""
    unread: int = 0
    """Of these, the ones that brought an answer that could not be read."""
    settled: int = 0
    """Calls that were answered or failed for certain."""
    exchanges: tuple[Exchange, ...] = ()
    tool_calls: int = 0
    """The tools that were called in all of them."""
    renewed: int = 0
    """Exchanges before the last resume, which no longer count against re-asks."""
    failed: Failed | None = None
    """The last try, where it failed."""

    @property
    def declared_as(self) -> str:
        """The agent or the state of the machine whose work it is; of a tool, its agent."""
        return self.agent.partition(".")[0]

    def after_intent(self, event: Intended) -> Task:
        """The task once a call is to be made, by whom it was asked before or by the next one."""
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
        """The task with new tries; so many of its answers count no longer.

        Where nobody gave an answer, the agent itself is asked first again.
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
"""Of a task whose tries all count anew."""
