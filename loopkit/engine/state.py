"""The state of a run: changed by its events in order, and by nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter, methodcaller
from types import MappingProxyType
from typing import Any, Literal

from loopkit.engine.events import (
    Adding,
    Alerted,
    Artifact,
    Captured,
    Deferral,
    Event,
    Feedback,
    Finished,
    HumanAnswer,
    Intended,
    Isolated,
    Merging,
    Suspended,
    Usage,
    Waiting,
)
from loopkit.engine.findings import Report, Verdict
from loopkit.engine.log import EMPTY, Log
from loopkit.engine.rounds import Earlier, Round, Rounds, attempt_at
from loopkit.engine.tasks import Child, Exchange, Task, is_of_program
from loopkit.engine.telemetry import Counting, Figures
from loopkit.values import Mutable, field

_TEXT, _COPY = attrgetter("text"), methodcaller("__copy__")
NOTHING: Mapping[Any, Any] = MappingProxyType({})
"""Shared by all runs, because a change of a mapping puts another one in its place."""
Status = Literal["new", "running", "waiting", "suspended", "finished", "cancelled"]
ENDED: tuple[Status, ...] = ("finished", "cancelled")
"""In which status nothing can come any more."""


class RunState(Mutable):
    """Where a run stands. `apply` changes it, and nobody else."""

    run: str = ""
    machine: str = ""
    definition: str = ""
    """Digest of the definition that holds now."""
    repairs: int = 0
    """How often that became another one."""
    script: str | None = None
    folder: str = ""
    status: Status = "new"
    input: dict[str, Any] = {}
    state: str = ""
    visit: int = 0
    entered_by: str | None = None
    is_revision: bool = False
    """Whether that was a revise edge."""
    visits: Mapping[str, int] = NOTHING
    attempts: Mapping[str, int] = NOTHING
    """How often each state has completed its work, content faults included."""
    counters: Mapping[str, int] = NOTHING
    times_kept: Mapping[str, int] = NOTHING
    """How often each state has kept what it had made."""
    artifacts: Mapping[str, Artifact] = NOTHING
    versions: Mapping[str, int] = NOTHING
    """How often each artifact has been written, by whomever."""
    phase: str = ""
    """The phase that its events have named last."""
    error: str = ""
    """Why the last work came to nothing, where it did."""
    left_because: str = ""
    """What ended the last loop, where that was not that its work was accepted."""
    answers: Mapping[str, HumanAnswer] = NOTHING
    facts: Mapping[str, Mapping[str, Any]] = NOTHING
    """What each state's last completed work left for guards."""
    made_from: Mapping[str, tuple[str, str]] = NOTHING
    """By artifact, the state that wrote it last, and a digest of what that depended on, where the
    state may be kept."""
    reports: Mapping[str, Report] = NOTHING
    """Of each validate state the last one, or the one of the version that became current again."""
    verdicts: Mapping[str, Verdict] = NOTHING
    """Of each validate state the last one, as guards read it."""
    last_report: Report | None = None
    rounds: Log[Round] = EMPTY
    """Of all validate states, oldest first."""
    returns: Mapping[int, int] = NOTHING
    """By the number of a round: that of the one to which the run had gone back before it."""
    rounds_at: Mapping[str, Rounds] = NOTHING
    """The same of each validate state."""
    pending: Mapping[str, tuple[Feedback, ...]] = NOTHING
    """Feedback that waits for the state it is addressed to, which has to work even where all of it
    has gone to others."""
    deferred: Mapping[str, tuple[Deferral, ...]] = NOTHING
    """By state: what was found for it in other states, and waits until it works again."""
    delivered: Mapping[str, tuple[Deferral, ...]] = NOTHING
    """By state: what it has been told of that, and has not worked on yet."""
    revised: Mapping[str, int] = NOTHING
    """How often each state was sent feedback about its work."""
    tasks: dict[str, Task] = {}
    asked_at: dict[tuple[str, str], int] = {}
    """How many pieces of work each agent has had at each place."""
    offered: Mapping[str, str] = NOTHING
    """By `SERVER.TOOL`, the digests of tools of MCP servers as they were first offered."""
    open_calls: dict[str, Intended] = {}
    """Intended, and neither answered nor failed nor in doubt."""
    doubts: Mapping[str, Intended] = NOTHING
    """In doubt, and waiting for a person's word."""
    refused: frozenset[str] = frozenset()
    """Tasks of calls in doubt that must not be made again."""
    children: Mapping[str, dict[str, Child]] = NOTHING
    """By state and key: of each item the child that was begun last."""
    baselines: Mapping[tuple[str, str], Mapping[str, frozenset[str]]] = NOTHING
    """By state and validator, then by rule: the ids of what its command found at first."""
    captured: dict[str, Captured] = {}
    """By task: the folder that is its artifact, as it was before."""
    originals: Mapping[tuple[str, str], str] = NOTHING
    """By artifact that is a folder, and where that is: its tree before the first attempt."""
    isolate: Literal["none", "copy", "worktree"] = "none"
    """In which tree of its own a child works, whatever its machine says."""
    isolated: Mapping[str, Isolated] = NOTHING
    """By workspace: the tree in which the run works instead, until it is merged."""
    merging: Mapping[str, Merging] = NOTHING
    """Those that are being merged."""
    merged: frozenset[str] = frozenset()
    """The workspaces into which the run was merged."""
    unrestored: Mapping[str, Artifact] = NOTHING
    """Folders that have to become what they were in the round that was picked as the best."""
    restored_in: str = ""
    """The state in which folders last became that."""
    conversations: dict[tuple[str, str], Log[Exchange]] = {}
    """All committed exchanges of each authoring state with each of its agents."""
    adding: Adding | None = None
    """The last text that was to be added to a file."""
    usage: Usage = Usage()
    counted: Log[Event] | None = EMPTY
    """The events that its figures need; none where its machine never asks for them."""
    counting: Counting = field(default_factory=Counting)
    """What is known of these figures."""
    alerted: Alerted | None = None
    """The alert that it has raised."""
    limits: Mapping[str, Any] = NOTHING
    """Limits that were raised since the start."""
    then_used: bool = False
    route: Log[str] = EMPTY
    """The edges taken, in order."""
    question: Waiting | None = None
    suspended: Suspended | None = None
    finished: Finished | None = None
    seq: int = 0

    @property
    def figures(self) -> Figures:
        """What its events say of its defects; not to be changed."""
        assert self.counted is not None
        return self.counting.figures(self.counted)

    @property
    def is_over(self) -> bool:
        """Whether nothing can come any more."""
        return self.status in ENDED

    @property
    def awaited(self) -> str | None:
        """The key of the call that somebody outside has to answer, while the run waits for it."""
        wanted = self.question.wanted if self.question is not None else None
        return wanted.call if wanted is not None else None

    @property
    def waits_for_children(self) -> bool:
        """Whether it stopped because children of it wait for a person."""
        return self.suspended is not None and self.suspended.reason == "waiting"

    def copy(self) -> RunState:
        """A state behind which work may complete; this one stays as it is.

        What only calls change is shared: of a macrostep's events none does. So are the mappings,
        which a change replaces.
        """
        other: RunState = _COPY(self)
        return other

    def tasks_of(self, agent: str) -> int:
        """How many pieces of work an agent has had, at whatever place."""
        count = 0
        for (asked, _), tasks in self.asked_at.items():
            if asked == agent:
                count += tasks
        return count

    @property
    def era(self) -> str:
        """What keeps names of calls and questions apart from those under an earlier definition."""
        return f":{self.repairs}" if self.repairs else ""

    @property
    def committed(self) -> Usage:
        """What has been spent and what open calls have reserved."""
        total = self.usage
        for intent in self.open_calls.values():
            total = total.plus(intent.reserved.as_held)
        return total

    def rounds_before(
        self, state: str, artifact: Artifact, made_from: Mapping[str, int]
    ) -> Earlier:
        """The rounds of a validate state before the one that judges this attempt."""
        rounds = self.rounds_at.get(state) or Rounds()
        return rounds.before(attempt_at(artifact.author, artifact.attempt, made_from))

    def best_round(self, of: str | None = None) -> Round | None:
        """The best complete round: of the state named, else of the last validated one."""
        state = of or (self.rounds[-1].report.state if self.rounds else None)
        rounds = self.rounds_at.get(state) if state else None
        return rounds.best() if rounds else None

    def artifacts_at(self, best: Round) -> dict[str, Artifact]:
        """The artifacts of a round, with what came only later and what a person has edited since.

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
        """How often the command of a `run` state came to an end, with a result or without.

        A tool is `AGENT.TOOL`.
        """
        tasks = (t for key, t in self.tasks.items() if t.agent == state and is_of_program(key))
        return sum(task.settled for task in tasks)

    def feedback_for(self, state: str) -> str:
        """The feedback that waits for a state, older first."""
        return "\n\n".join(map(_TEXT, self.pending.get(state, ())))
