"""The active run, whose state only appended events change, and what it waits for or shares."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import time
import warnings
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from errno import EEXIST
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from loopkit.agents.port import AgentPort, Person, PlayedCommands
from loopkit.drive.breakers import Breakers
from loopkit.drive.limits import Budget, Line, WaitFor
from loopkit.drive.retries import CallFailed
from loopkit.drive.stored_runs import Stored
from loopkit.engine.changes import apply
from loopkit.engine.events import (
    Event,
    Failed,
    InDoubt,
    Replied,
    Suspended,
    Waiting,
)
from loopkit.engine.macrostep import Engine, Macrostep
from loopkit.engine.payloads import HumanAnswer
from loopkit.engine.records import encode
from loopkit.engine.state import RunState
from loopkit.journal.contents import Contents
from loopkit.journal.errors import ClaimLost, JournalError, MessageWaits
from loopkit.journal.journal import Claim, Journal
from loopkit.journal.records import MAX_TEXT_BYTES, NewRecord, Settlement, refuse_text
from loopkit.language.agents.tools import McpServer
from loopkit.machine.program import Program
from loopkit.outside.mcp.connection import Address, Connection, ServerFailed, program, website
from loopkit.outside.processes import command_environment, environment_in
from loopkit.outside.redaction import Redact
from loopkit.outside.trees import make_own_folder
from loopkit.outside.workspace import OutsideWorkspace, resolve_inside
from loopkit.scenario.cases import Scenario
from loopkit.text.run_ids import is_child

if TYPE_CHECKING:
    from loopkit.drive.claimed_runs import ClaimedRuns


class Servers:
    """Connections by server and by the folder of the work that uses it.

    No two runs share one: a server may remember what it was asked before.
    """

    __slots__ = ("_connections",)

    def __init__(self) -> None:
        self._connections: dict[tuple[str, Path], Connection] = {}

    def connection(self, name: str, server: McpServer, folder: Path) -> Connection:
        """The connection with a server; raises ServerFailed if a variable of it is not set."""
        known = self._connections.get((name, folder))
        if known is None:
            known = Connection(name, _address(name, server, folder), server.timeout)
            self._connections[name, folder] = known
        return known

    async def close(self) -> None:
        while self._connections:
            _, connection = self._connections.popitem()
            await connection.close()


def _address(name: str, server: McpServer, folder: Path) -> Address:
    if server.command is not None:
        env = environment_in(folder, command_environment(server.env))
        return program(server.command, env, folder)
    try:
        return website(server.url or "", server.headers_with(os.environ))
    except KeyError as error:
        message = f"MCP server `{name}`: the environment variable `{error.args[0]}` is not set"
        raise ServerFailed(message, transient=False) from error


@lru_cache(maxsize=64)
def _path(folder: str) -> Path:
    """The folder itself, whatever links lead to it when it is first asked for."""
    return Path(os.path.realpath(folder))


CANCEL = "cancel"
"""The kind of a message that asks a run to end."""
INBOX_SECONDS = 1.0
FOLDER = "workspaces"
_LONGEST_ID = 1_000
_LET_GO_S = 2.0
"""How long a workspace may stay locked after its process is gone."""


class Clock(Protocol):
    """Time, so that tests need not wait for it."""

    def now(self) -> float:
        """Unix time in seconds."""
        ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class RealClock:
    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self.now = now or time.time

    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(asyncio.sleep)


Listener = Callable[[Stored], None]
Mark: TypeAlias = tuple[RunState, int]
"""A state, and how many events had been staged then."""
History: TypeAlias = Callable[[str], Awaitable[Sequence[Stored]]]
"""Reads the events of a run so far; none for a run that is not stored yet."""


class Observer(Protocol):
    """Watches all runs of an app, children among them."""

    async def listener(self, active: ActiveRun, history: History) -> Listener:
        """The listener that gets each event of a run from now on."""
        ...

    async def close(self) -> None:
        """Pass on the events that are left; no more will follow."""
        ...


class Stopped(Exception):
    """The run was asked to stop while it paused, or is aborted: then a call may be left open."""

    def __init__(self, time_s: float = 0.0) -> None:
        """`time_s` are the seconds of the unfinished work that no record has yet."""
        self.time_s = time_s
        super().__init__()


class AskedAboutDoubt(Exception):
    """The run goes on when a person has said what becomes of a call in doubt."""


class ChildrenStopped(Exception):
    """Children have stopped before their end, and the run can't go on without them."""

    def __init__(self, suspended: Suspended) -> None:
        super().__init__(suspended.message)
        self.suspended = suspended


class WorkspaceTaken(CallFailed):
    """Another run works in the workspace; this run has to wait, even if an edge catches errors."""


class Inboxes:
    """Looks into the inboxes of all runs that are driven here, once a second and at once."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._followed: dict[str, ActiveRun] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self._mailed: frozenset[str] = frozenset()

    def may_hold(self, run: str) -> bool:
        """Whether a message for a run waited when it was last looked for."""
        return run in self._mailed

    @contextmanager
    def heeding_cancellation(self, active: ActiveRun) -> Iterator[None]:
        """Abort a run as soon as its inbox asks for its end; a child is aborted by its root.

        A timer comes first, because most runs in memory end before a task would have begun.
        """
        if is_child(active.claim.run):
            yield
            return
        self._followed[active.claim.run] = active
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INBOX_SECONDS, self._begin)
        try:
            yield
        finally:
            del self._followed[active.claim.run]
            if not self._followed:
                self._timer.cancel()
                if self._looking is not None:
                    self._looking.cancel()
                self._timer = self._looking = None

    def _begin(self) -> None:
        self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while True:
            # A journal that can't be read now stops the driver itself, if it lasts.
            with suppress(JournalError):
                self._mailed = frozenset(await self._journal.mailed())
                for run in self._mailed:
                    active = self._followed.get(run)
                    messages = await active.claim.inbox() if active else ()
                    if active and any(message.kind == CANCEL for message in messages):
                        active.abort()
            await asyncio.sleep(INBOX_SECONDS)


class Occupancy:
    """The workspaces in which runs of one app work; who drives these keeps them apart."""

    def __init__(self) -> None:
        self._locks: dict[Path, int] = {}
        self._runs: dict[Path, set[str]] = {}
        self._places: dict[tuple[Path, str], Path] = {}
        self.makes_folders = False
        """Whether missing workspaces are made, as where a scenario is tested."""

    def find(self, root: Path, relative: str, used: Callable[[Path], bool]) -> Path:
        """The real place of a workspace, which stays what it was when a run first asked for it.

        `used` tells whether a run has used a place in an earlier process. Raises OutsideWorkspace.
        """
        place = resolve_inside(root, relative)
        named = root / os.path.normpath(relative)
        first = self._places.setdefault((root, relative), named if used(named) else place)
        if place != first:
            message = f"workspace {relative!r} leads through a link to {str(place)!r} now"
            raise OutsideWorkspace(f"{message}; put the folder {str(first)!r} back")
        return place

    async def enter(self, state: Path, workspace: Path, run: str) -> None:
        """Keep other apps out of a workspace until the run leaves it.

        `state` is the state folder. The kernel frees the lock when the process ends, or a moment
        later: a program that it was starting when it was killed shares the lock until it has
        started. Raises WorkspaceTaken.
        """
        until = time.monotonic() + _LET_GO_S
        while workspace not in self._locks:
            try:
                self._locks[workspace] = _lock(state, workspace, run)
            except WorkspaceTaken:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(_LET_GO_S / 100)
        self._runs.setdefault(workspace, set()).add(run)

    def leave(self, run: str) -> None:
        """Unlock every workspace in which no other run of this app works."""
        for workspace, runs in list(self._runs.items()):
            runs.discard(run)
            if not runs:
                del self._runs[workspace]
                os.close(self._locks.pop(workspace))


def _lock(state: Path, workspace: Path, run: str) -> int:
    place, descriptor = state / FOLDER, -1
    try:
        place = make_own_folder(state, FOLDER)
        place /= hashlib.sha256(os.fsencode(workspace)).hexdigest()[:32]
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        _refuse_strange(os.fstat(descriptor))
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, run.encode()[:_LONGEST_ID], 0)
    except BlockingIOError as error:
        first = os.read(descriptor, _LONGEST_ID).decode(errors="replace")
        os.close(descriptor)
        raise WorkspaceTaken(
            "transient",
            f"run {first} works in the workspace {str(workspace)!r}; resume this one when it has "
            "stopped, or write `isolate: copy` under `workspace:` so that each works by itself",
        ) from error
    except OSError as error:
        if descriptor >= 0:
            os.close(descriptor)
        raise CallFailed("fatal", f"{str(place)!r} can't be used: {error.strerror}") from error
    return descriptor


def _refuse_strange(status: os.stat_result) -> None:
    """Raise OSError for a file that is not only ours: what is written would be elsewhere, too."""
    if not S_ISREG(status.st_mode) or status.st_nlink > 1:
        raise OSError(EEXIST, "it is another kind of file, or has another name elsewhere")


class Gate:
    """Lets in one of the `serial` states at a time, and no other state beside an `alone` one."""

    def __init__(self, serial: Collection[str], alone: Collection[str]) -> None:
        self._serial = frozenset(serial)
        self._alone = frozenset(alone)
        self._serial_line, self._line = Line(), Line()
        self._is_serial_taken = False
        self._working = 0
        self._is_closed = False
        """Whether an `alone` state is working."""

    @asynccontextmanager
    async def open_for(self, state: str, wait_for: WaitFor) -> AsyncIterator[None]:
        """Entered while a state works. Raises Stopped if the run is stopped before it may."""
        is_serial = state in self._serial
        if is_serial:
            await self._serial_line.enter(self._take_turn, wait_for)
        try:
            if self._alone:
                await self._line.enter(lambda: self._let_in(state), wait_for)
            try:
                yield
            finally:
                if self._alone:
                    self._working -= 1
                    self._is_closed = False
                    self._line.move_up()
        finally:
            if is_serial:
                self._is_serial_taken = False
                self._serial_line.move_up()

    def _take_turn(self) -> bool:
        if self._is_serial_taken:
            return False
        self._is_serial_taken = True
        return True

    def _let_in(self, state: str) -> bool:
        is_alone = state in self._alone
        if self._is_closed or (is_alone and self._working):
            return False
        self._working += 1
        self._is_closed = is_alone
        return True


@dataclass(slots=True)
class ActiveRun:
    program: Program
    engine: Engine
    claim: Claim
    clock: Clock
    agents: Mapping[str, AgentPort]
    commands: PlayedCommands
    person: Person
    children: ClaimedRuns
    """The runs of this process, in which it begins, drives and cancels its children."""
    scenario: Scenario | None = None
    breakers: Breakers = field(default_factory=Breakers)
    """Shared by all runs of this process, or of the journal."""
    redact: Redact = str
    """Removes the environment's secrets from the output of agents and commands."""
    listeners: Sequence[Listener] = ()
    due: float | None = None
    """The Unix time at which a run that waits has to be continued."""
    asked_before: str = ""
    """The question that was open when the run was claimed; empty if none was."""
    notify: Sequence[str] = ()
    """The program that is started when the run stops; empty for none."""
    alarm: asyncio.Task[str] | None = None
    """Reports an alert while the run goes on; its result says why that failed."""
    state: RunState = field(default_factory=RunState)
    stopping: bool = False
    """Set by the first Ctrl-C: finish the step, then stop."""
    is_due_again: bool = False
    """Whether others may go on with the run at once where it is stopped before its end."""
    aborting: bool = False
    lost: ClaimLost | None = None
    """Set where the run is cancelled: end the work in hand as well."""
    _in_hand: set[asyncio.Timeout] = field(default_factory=set)
    """The deadlines of calls and rules in hand, which an abort brings forward."""
    _stops: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with it, for whoever waits."""
    budget: Budget = field(default_factory=Budget)
    """Its limits, within those that it shares with other runs."""
    contents: Contents = field(default_factory=Contents)
    """The files of its folders, version by version."""
    occupancy: Occupancy = field(default_factory=Occupancy)
    """The workspaces that runs of other apps must not use."""
    servers: Servers | None = None
    """The MCP servers that it is connected to, once a tool of one was needed."""
    may_merge: Callable[[], bool] = lambda: True
    """Whether it is the run's turn to merge its work."""
    trees_above: Mapping[str, str] = field(default_factory=dict)
    """By workspace: the trees of its ancestors, in which it works too."""
    gate: Gate | None = None
    """Decides which of its states and its siblings' may work at the same time."""
    isolating: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a tree of the run's own is made."""
    keeps_texts: bool = True
    _staged: list[Event] = field(default_factory=list)
    """The events that the next append writes."""
    _texts: list[str] = field(default_factory=list)
    """The staged events as texts, if the journal keeps texts."""
    _settled: list[Settlement] = field(default_factory=list)
    """What staged events have settled of an account that other processes use as well."""

    @property
    def folder(self) -> Path:
        """The folder at which the paths of workspaces start."""
        return _path(self.state.folder)

    @property
    def limits(self) -> Mapping[str, Any]:
        """The limits in force: those of the machine, and those raised since."""
        raised = self.state.limits
        return {**self.program.limits, **raised} if raised else self.program.limits

    def stop(self) -> None:
        """Stop after the current step, or at once if the run only waits for its next try."""
        self.stopping = True
        self._stops.set()

    def lose(self, loss: ClaimLost) -> None:
        """Stop at once, because others may take the run over."""
        self.lost = loss
        self.abort()

    def abort(self) -> None:
        """Stop at once: whatever is waited for ends, programs with all that they have started."""
        self.aborting = True
        self.stop()
        for deadline in self._in_hand:
            if not deadline.expired():
                deadline.reschedule(0)

    @asynccontextmanager
    async def in_hand(self, seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
        """Entered for work; raises TimeoutError after `seconds`, and Stopped at an abort."""
        # What has begun is ended in the usual way, although the abort came before.
        deadline = asyncio.timeout(0 if self.aborting else seconds)
        self._in_hand.add(deadline)
        try:
            async with deadline:
                yield deadline
        except TimeoutError:
            if self.aborting:
                raise Stopped from None
            raise
        finally:
            self._in_hand.discard(deadline)

    async def wait_for_stop(self) -> None:
        if not self.stopping:
            await self._stops.wait()

    async def pause(self, seconds: float) -> None:
        await self.wait_for(lambda: self.clock.sleep(seconds))

    async def wait_for(self, wait: Callable[[], Awaitable[object]]) -> None:
        """Wait with nothing in flight; raises Stopped as soon as the run is asked to stop."""
        if self.stopping:
            raise Stopped
        waits = {asyncio.ensure_future(wait()), asyncio.ensure_future(self._stops.wait())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in waits:
                waiting.cancel()
        if self._stops.is_set():
            raise Stopped

    def stage(self, *events: Event) -> None:
        """Apply events, for the next append to write; raises JournalError, and stages none then."""
        if self.keeps_texts:
            self._texts += _as_texts(events)
        account = self.budget.outermost.account
        for event in events:
            if account is not None and isinstance(event, Replied | Failed | InDoubt):
                reserved = self.state.open_calls[event.key].reserved
                usage = event.charge(reserved) if isinstance(event, InDoubt) else event.usage
                self._settled.append(Settlement(event.key, account.name, usage.cost_usd or 0.0))
            apply(self.state, event, self._staged)

    def take(self, step: Macrostep) -> None:
        if self.keeps_texts:
            self._texts += _as_texts(step.events)
        self._staged += step.events
        self.state = step.run

    def mark(self) -> Mark:
        return self.state, len(self._staged)

    def roll_back(self, mark: Mark) -> None:
        """Discard what was staged since the mark; none of it may have been written."""
        state, staged = mark
        self.state = state.copy()
        del self._staged[staged:], self._texts[staged:]

    async def append(
        self, *events: Event, consumes: Sequence[str] = (), unless: Sequence[str] = ()
    ) -> None:
        """Make events durable, together with those staged before.

        Raises MessageWaits, and leaves all of them staged, if messages of the kinds `unless` wait.
        """
        if events:
            self.stage(*events)
        batch, texts, settled = self._staged, self._texts, self._settled
        if not batch and not consumes:
            return
        at = self.clock.now()
        self._staged, self._texts, self._settled = [], [], []
        kept: Sequence[Any] = texts if self.keeps_texts else batch
        records = [NewRecord(e.type, at, one) for e, one in zip(batch, kept, strict=True)]
        # Nothing follows the end: the same commit releases the run.
        over = self.state.is_over
        # A process may be killed while it asks the person at its terminal.
        asked = [one.expires_at for one in batch if isinstance(one, Waiting)]
        due = asked[-1] if asked else None
        try:
            seq = await self.claim.append(
                records, consumes, releases=over, due=due, unless=unless, settles=settled
            )
        except MessageWaits:
            self._staged, self._texts = batch + self._staged, texts + self._texts
            self._settled = settled + self._settled
            raise
        for number, event in enumerate(batch if self.listeners else (), seq - len(batch) + 1):
            stored = Stored(number, self.claim.epoch, at, event)
            for listen in self.listeners:
                self._tell(listen, stored)

    def _tell(self, listen: Listener, stored: Stored) -> None:
        try:
            listen(stored)
        except Exception as error:  # noqa: BLE001 - no run may fail because of who looks on
            self.listeners = tuple(one for one in self.listeners if one is not listen)
            told = f"{self.claim.run}: a listener has failed, and hears no more: {error!r}"
            warnings.warn(told, RuntimeWarning, stacklevel=2)


def _as_texts(events: Iterable[Event]) -> list[str]:
    """The JSON texts of events; raises JournalError if one is too long."""
    written: list[str] = []
    for event in events:
        data = encode(event)
        if len(data) > MAX_TEXT_BYTES:
            refuse_text(f"the record `{event.type}`", data.decode())
        written.append(data.decode())
    return written


class NobodyThere:
    async def answer(self, engine: Engine, run: RunState) -> HumanAnswer | None:
        return None
