"""The state of a run, with its tasks and children: changed by its events in order alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby, islice
from typing import Any, Literal

from loopkit.engine.events import (
    Adding,
    Alerted,
    Captured,
    ChildEnded,
    ChildStarted,
    Event,
    Failed,
    Finished,
    Intended,
    Isolated,
    Merging,
    Protected,
    Replied,
    Setting,
    Suspended,
    Waiting,
)
from loopkit.engine.findings import Report, Verdict
from loopkit.engine.payloads import Artifact, Deferral, Feedback, HumanAnswer
from loopkit.engine.records import Record, Usage
from loopkit.engine.rounds import Round, Rounds, attempt_at, best_of
from loopkit.engine.telemetry import Figures
from loopkit.values import NOTHING, Mutable, Value

Status = Literal["new", "running", "waiting", "suspended", "finished", "cancelled"]
ENDED: tuple[Status, ...] = ("finished", "cancelled")
"""The statuses in which no more events can come."""
_TOOL = ":tool:"
_FRESH: dict[str, Any] = {"given_up": (), "tries": 0, "unread": 0, "failed": None}
"""The fields of a task whose tries are reset."""


class Exchange(Value, frozen=True):
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
    started: ChildStarted
    ended: ChildEnded | None = None


class GivenUp(Value, frozen=True):
    """A callee that failed before a fallback was asked."""

    fallback: int
    """Which of the agent's fallbacks it was; 0 is the agent itself."""
    tries: int
    failed: Failed | None
    """Its last try, if it is known to have failed."""


class Task(Record, frozen=True, kw_only=True):
    """One piece of work for an agent or a command: its tries, re-asks and replies."""

    agent: str
    """The agent, or the state of a command; for a tool, `AGENT.TOOL`."""
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
    """Calls that were answered or have certainly ended otherwise."""
    doubted: int = 0
    """Calls in doubt; one that is made again has the same key."""
    exchanges: tuple[Exchange, ...] = ()
    tool_calls: int = 0
    renewed: int = 0
    """Exchanges before the last resume, which no longer count against re-asks."""
    failed: Failed | None = None
    session: str | None = None
    """The session in which a program has begun to work on it, and can go on."""

    def after_intent(self, event: Intended) -> Task:
        if event.fallback != self.fallback:
            lost = GivenUp(self.fallback, self.tries, self.failed)
            given_up = (*self.given_up, lost) if self.tries else self.given_up
            tried = {**_FRESH, "fallback": event.fallback, "given_up": given_up}
            return self.replace(**tried, sent=self.sent + 1)
        return self.replace(sent=self.sent + 1)

    def after_reply(self, exchange: Exchange) -> Task:
        return self.replace(
            **_FRESH,
            settled=self.settled + 1,
            exchanges=(*self.exchanges, exchange),
            session=None,
            tool_calls=self.tool_calls + len(exchange.reply.tool_calls),
        )

    def after_failure(self, event: Failed) -> Task:
        """The task once a try of it has failed, and with it perhaps its session."""
        exchanges, renewed = self.exchanges, self.renewed
        if event.begins_anew:
            first = exchanges[renewed:][:1]
            others = exchanges[renewed + 1 :]
            whole = [one.replace(prompt=event.begins_anew, opening=None) for one in first]
            exchanges, renewed = (*whole, *others), 0
        return self.replace(
            tries=self.tries + 1,
            unread=self.unread + event.unreadable,
            settled=self.settled + 1,
            exchanges=exchanges,
            renewed=renewed,
            failed=event,
            session=None if event.begins_anew else self.session,
        )

    def after_resume(self, renewed: int) -> Task:
        """The task with new tries; its first `renewed` exchanges no longer count.

        If no callee gave an answer, the agent itself is asked first again.
        """
        fallback = 0 if self.given_up or self.failed else self.fallback
        return self.replace(**_FRESH, fallback=fallback, renewed=renewed)


class RunState(Mutable):
    """The state of a run. Only `apply` changes it.

    Work can complete in a copy while this state stays as it is: what only events of calls change is
    shared, because a macrostep has none of these, and so are the mappings, which are replaced and
    never changed.
    """

    run: str = ""
    machine: str = ""
    definition: str = ""
    repairs: int = 0
    """How often the definition was replaced."""
    script: str | None = None
    folder: str = ""
    status: Status = "new"
    input: dict[str, Any] = {}
    state: str = ""
    visit: int = 0
    entered_by: str | None = None
    is_revision: bool = False
    """Whether the active state was entered by a revise edge."""
    visits: dict[str, int] = NOTHING
    attempts: dict[str, int] = NOTHING
    """How often each state has completed its work, content faults included."""
    counters: Mapping[str, int] = NOTHING
    times_kept: Mapping[str, int] = NOTHING
    artifacts: dict[str, Artifact] = NOTHING
    versions: dict[str, int] = NOTHING
    """How often each artifact has been written, by any author."""
    on_disk: Mapping[str, tuple[str, int]] = NOTHING
    """By path, the artifact that its file or folder holds, and the version."""
    phase: str = ""
    """The phase that its last event with a phase named."""
    error: str = ""
    """Why the last work failed; empty if it did not."""
    left_because: str = ""
    """Why the last loop ended; empty if its work was accepted."""
    answers: Mapping[str, HumanAnswer] = NOTHING
    facts: dict[str, Mapping[str, Any]] = NOTHING
    """The facts of each state's last completed work."""
    made_from: Mapping[str, tuple[str, str]] = NOTHING
    """By artifact, the state that wrote it last, and a digest of what that work depended on, if the
    state may be kept."""
    reports: dict[str, Report] = NOTHING
    """The last report of each validate state, or that of the version that is current again."""
    verdicts: dict[str, Verdict] = NOTHING
    """The last verdict of each validate state, as guards read it."""
    last_report: Report | None = None
    rounds: tuple[Round, ...] = ()
    """The rounds of all validate states, oldest first."""
    returns: Mapping[int, int] = NOTHING
    """By the number of a round: the number of the round that the run had gone back to before."""
    rounds_at: dict[str, Rounds] = NOTHING
    pending: Mapping[str, tuple[Feedback, ...]] = NOTHING
    """Feedback that waits for its addressee, which has to work even if all of it has gone to
    others."""
    deferred: Mapping[str, tuple[Deferral, ...]] = NOTHING
    """By state: findings of other states that wait until it works again."""
    delivered: Mapping[str, tuple[Deferral, ...]] = NOTHING
    """By state: the deferrals that it has been sent and has not worked on yet."""
    revised: Mapping[str, int] = NOTHING
    """How often each state was sent feedback about its work."""
    tasks: dict[str, Task] = {}
    asked_at: dict[str, dict[str, int]] = {}
    """By agent: how many pieces of work it has had at each place."""
    in_words: frozenset[tuple[str, str]] = frozenset()
    """The agents, each with a model, whose schema is asked for in words."""
    cut_short: frozenset[str] = frozenset()
    """The agents of which a server has read only a part of a prompt."""
    offered: Mapping[str, str] = NOTHING
    """By `SERVER.TOOL`, the digests of tools of MCP servers as they were first offered."""
    open_calls: dict[str, Intended] = {}
    """Intended, and neither answered nor failed nor in doubt."""
    doubts: Mapping[str, Intended] = NOTHING
    """Calls in doubt that wait for a person's decision."""
    doubt_reasons: Mapping[str, str] = NOTHING
    """By call in doubt: why it was ended; none for one whose process died."""
    refused: frozenset[str] = frozenset()
    """Tasks of calls in doubt that must not be made again."""
    children: Mapping[str, dict[str, Child]] = NOTHING
    """By state and key: the child of each item that was begun last."""
    baselines: Mapping[tuple[str, str], Mapping[str, frozenset[str]]] = NOTHING
    """By state and validator, then by rule: the ids of the findings in its baseline."""
    captured: dict[str, Captured] = {}
    """By task: the file or folder that is its artifact, as it was before."""
    protected: Protected | None = None
    """The protected files before the attempt whose changes of them are not undone yet."""
    originals: Mapping[tuple[str, str], str] = NOTHING
    """By artifact that is a folder, and its place: its tree before the first attempt."""
    isolate: Literal["none", "copy", "worktree"] = "none"
    """The kind of tree in which a child works, which overrides its machine."""
    isolated: Mapping[str, Isolated] = NOTHING
    """By workspace: the tree in which the run works instead, until it is merged."""
    merging: Mapping[str, Merging] = NOTHING
    merged: frozenset[str] = frozenset()
    unrestored: Mapping[str, Artifact] = NOTHING
    """Folders that have to be restored as of the round that was picked as the best."""
    restored_in: str = ""
    conversations: dict[tuple[str, str], tuple[Exchange, ...]] = {}
    """All committed exchanges of each authoring state with each of its agents."""
    adding: Adding | Setting | None = None
    """The last addition of a text to a file."""
    usage: Usage = Usage()
    counted: tuple[Event, ...] | None = ()
    """The events that its figures need; None if its machine never asks for figures."""
    alerted: Alerted | None = None
    limits: Mapping[str, Any] = NOTHING
    """Limits that were raised since the start."""
    then_used: bool = False
    route: tuple[str, ...] = ()
    """The edges taken, in order."""
    question: Waiting | None = None
    suspended: Suspended | None = None
    finished: Finished | None = None

    @property
    def figures(self) -> Figures:
        """The figures of its defects, counted anew."""
        assert self.counted is not None
        figures = Figures()
        for event in self.counted:
            figures.take(event)
        return figures

    @property
    def is_over(self) -> bool:
        return self.status in ENDED

    @property
    def awaited(self) -> str | None:
        """The key of the call that somebody outside has to answer, while the run waits for it."""
        wanted = self.question.wanted if self.question is not None else None
        return wanted.call if wanted is not None else None

    @property
    def waits_for_children(self) -> bool:
        return self.suspended is not None and self.suspended.reason == "waiting"

    @property
    def era(self) -> str:
        """A suffix that keeps calls and questions apart from those under an earlier definition."""
        return f":{self.repairs}" if self.repairs else ""

    @property
    def calls_in_flight(self) -> Mapping[str, Intended]:
        """The open calls that loopkit makes itself, which a request for a delivery is not."""
        return {key: call for key, call in self.open_calls.items() if key != self.awaited}

    @property
    def committed(self) -> Usage:
        total = self.usage
        for intent in self.open_calls.values():
            total = total.plus(intent.reserved.as_held)
        return total

    def rounds_before(self, state: str, artifact: Artifact, made_from: Mapping[str, int]) -> Rounds:
        rounds = self.rounds_at.get(state) or Rounds()
        return rounds.before(attempt_at(artifact.author, artifact.attempt, made_from))

    def best_round(self, of: str | None = None) -> Round | None:
        """The best complete round: of the state named, else of the last validated one."""
        state = of or (self.rounds[-1].report.state if self.rounds else None)
        rounds = self.rounds_at.get(state) if state else None
        return best_of(rounds) if rounds else None

    def artifacts_at(self, best: Round) -> dict[str, Artifact]:
        """The artifacts of a round, with those made only later and those edited by a person since.

        An edit is no longer one once the state of the round has judged it.
        """
        rounds = self.rounds_at[best.report.state]
        edits = {
            name: artifact
            for name, artifact in self.artifacts.items()
            if artifact.edited and all(one.snapshot.get(name) != artifact for one in rounds)
        }
        return {**self.artifacts, **best.snapshot, **edits}

    def runs_of(self, state: str) -> int:
        """How often the command of a `run` state ended, with a result or without.

        A tool is `AGENT.TOOL`.
        """
        tasks = (t for key, t in self.tasks.items() if t.agent == state and is_of_program(key))
        return sum(task.settled for task in tasks)

    def feedback_for(self, state: str) -> str:
        return "\n\n".join(one.text for one in self.pending.get(state, ()))


def last_turns(exchanges: Sequence[Exchange], most: int) -> list[list[Exchange]]:
    """The last turns of a conversation, oldest first: the exchanges of one piece of work each."""
    turns = (list(turn) for _, turn in groupby(reversed(exchanges), key=lambda each: each.task))
    return [turn[::-1] for turn in islice(turns, most)][::-1]


def opening_of_last_turn(exchanges: Sequence[Exchange]) -> Exchange:
    """The exchange with which the last turn of a conversation began; there has to be one."""
    last = exchanges[-1]
    for exchange in reversed(exchanges):
        if exchange.task != last.task:
            break
        last = exchange
    return last


def author_task(state: str, visit: int) -> str:
    return f"{state}:{visit}:author"


def tool_task(author: str, number: int) -> str:
    return f"{author}{_TOOL}{number}"


def is_of_program(task: str) -> bool:
    return task.endswith(":run") or _TOOL in task
