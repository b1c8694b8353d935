"""Budgets: a call is made only if the most that it can take fits into what is left.

A run is a budget, and so are a run together with its children, and a batch. What is used in one is
used in its parent, too. Several processes that run a batch have an account for it in the journal.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil, inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from loopkit.agents.model.pricing import USUAL_ANSWER, needs_caps
from loopkit.agents.port import AnswerCaps, Request
from loopkit.engine.payloads import Ran
from loopkit.engine.records import Failure, RefusedCall, Usage
from loopkit.journal.port import SharedLimits
from loopkit.text.run_ids import resume_line

if TYPE_CHECKING:
    from loopkit.drive.active import ActiveRun

COUNTED = ("agent_calls", "tool_calls", "tokens", "cost_usd")

HELD = {"tokens": "held_tokens", "cost_usd": "held_usd"}
"""The field of a usage with the part of an amount that is only reserved."""

SMALL_USD = 0.0001
"""Amounts below this are shown with more digits: four of them would all be zeros."""

WaitFor: TypeAlias = Callable[[Callable[[], Awaitable[object]]], Awaitable[None]]
Quote: TypeAlias = Callable[[Request], Usage]


@dataclass(eq=False, repr=False)
class LimitReached(Exception):
    """A limit leaves no room for the next piece of work."""

    name: str
    limit: float
    spent: float
    asked: float | None = 0.0
    held: float = 0.0
    budget: Budget | None = None
    """The budget whose limit it is, if it is not the run's own."""
    reserved: Usage = Usage()
    """The maximum of the next call."""
    call: RefusedCall | None = None
    commands: tuple[Ran, ...] = ()
    """The runs of command validators in the same round."""
    time_s: float = 0.0
    """Seconds of the unfinished work that no call accounts for."""

    def __post_init__(self) -> None:
        whose = f" of {self.budget.owner}" if self.budget else ""
        used, most = (_amount(self.name, each) for each in (self.spent - self.held, self.limit))
        message = f"the limit `{self.name}`{whose} leaves no room: {used} of {most} used"
        if self.held:
            # Of calls in flight, in doubt or uncounted: it leaves no room, but nobody spent it yet.
            message += f", up to {_amount(self.name, self.held)} held"
        if self.asked is None:
            message += ", and what the next call can cost is not known"
        elif self.asked and self.spent < self.limit:
            message += f", and the next call can take up to {_amount(self.name, self.asked)}"
        super().__init__(message)

    def failure(self, run: str) -> Failure:
        return Failure("limit", str(self), self.remedy(run), refused=self.call)

    def remedy(self, run: str) -> str:
        option = option_to_raise(self)
        if self.budget is not None and self.budget.run is None:
            return f"run {self.budget.owner} again with a higher limit: {' '.join(option)}"
        if self.asked is None and self.call is not None and self.budget is None:
            price = resume_line(run, "--price", f"{self.call.agent}=USD")
            return f"with what a million of its tokens cost instead of USD: {price}"
        return f"raise it: {resume_line(self.budget.owner if self.budget else run, *option)}"

    @property
    def as_own(self) -> LimitReached:
        return LimitReached(self.name, self.limit, self.spent, self.asked, self.held)


class AnswerCutOff(LimitReached):
    """An answer was cut off at the cap that it got because of a limit."""

    def __init__(self, message: str, remedy: str) -> None:
        Exception.__init__(self, f"`max_tokens` reached: {message}")
        self._remedy = remedy

    def remedy(self, run: str) -> str:
        return self._remedy


def option_to_raise(reached: LimitReached) -> tuple[str, str]:
    """The option that raises a limit, so that the next call fits."""
    # Twice the old limit, or more.
    needed = max(2 * reached.limit, reached.spent + (reached.asked or 0.0))
    if reached.name == "cost_usd":
        return "--max-cost", f"{max(ceil(needed * 100), 1) / 100:.2f}"
    unit = "s" if reached.name == "time" else ""
    return "--set", f"limits.{reached.name}={max(ceil(needed), 1)}{unit}"


def _amount(name: str, number: float) -> str:
    """An amount with the unit of its limit: `$0.0050`, `19,011`, `0.4 s`."""
    if name == "cost_usd":
        return f"${number:.6f}" if 0 < number < SMALL_USD else f"${number:,.4f}"
    plain = f"{number:,.4f}".rstrip("0").rstrip(".")
    return f"{plain} s" if name == "time" else plain


def require_room(
    limits: Mapping[str, Any], committed: Usage, asked: Usage, budget: Budget | None = None
) -> float:
    """The seconds left for a call; raises LimitReached, of that budget, if it does not fit."""
    for name in COUNTED:
        most, limit = getattr(asked, name), limits.get(name)
        if limit is None or most == 0:
            continue
        spent = getattr(committed, name)
        # An unknown cost is never free: it can't be shown to fit.
        if spent is None or most is None or spent + most > limit + 1e-9:
            held = getattr(committed, HELD.get(name, ""), 0) if spent else 0
            raise LimitReached(name, limit, spent or 0, most, held, budget)
    limit = _seconds(limits)
    if committed.time_s >= limit:
        raise LimitReached("time", limit, committed.time_s, budget=budget)
    return limit - committed.time_s


def _seconds(limits: Mapping[str, Any]) -> float:
    limit = limits.get("time")
    return inf if limit is None else float(limit)


class Line:
    """What waits for its turn, in order; it holds nothing meanwhile."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Event] = []

    async def enter(self, is_admitted: Callable[[], bool], wait_for: WaitFor) -> None:
        """Return as soon as the caller is admitted, in the same turn of the event loop.

        This is checked when no other waits before it, and again whenever the line moves up.
        """
        if not self._waiting and is_admitted():
            return
        news = asyncio.Event()
        self._waiting.append(news)
        try:
            await wait_for(news.wait)
            while not is_admitted():
                news.clear()
                await wait_for(news.wait)
        finally:
            self._waiting.remove(news)
            self.move_up()

    def move_up(self) -> None:
        if self._waiting:
            self._waiting[0].set()


def _committed(run: ActiveRun) -> Usage:
    return run.state.committed


class Account(NamedTuple):
    """The money of a batch, of which several processes spend."""

    of: SharedLimits
    name: str


class Reservation(NamedTuple):
    usage: Usage
    """The most that the call can take."""
    left_s: float
    """Seconds of work that are left for it."""


@dataclass(eq=False)
class Budget:
    """Limits, and what is used and reserved within them."""

    owner: str = ""
    """Whose limits they are, in messages."""
    own_limits: Mapping[str, Any] = field(default_factory=dict)
    """The limits, if they are not those of a run."""
    run: ActiveRun | None = None
    parent: Budget | None = None
    line: Line = field(default_factory=Line)
    """The calls of the run that wait for room."""
    in_flight: list[str] = field(default_factory=list)
    """Keys of the calls that the run is making. Each of them ends."""
    reached: LimitReached | None = None
    """The error with which a call of a run within was refused because it had no room here."""
    at_rest: Usage = Usage()
    """The committed usage of the runs within that are not driven at the moment."""
    driven: dict[str, ActiveRun] = field(default_factory=dict)
    """The runs within that are driven at the moment, children of children among them."""
    unsaid_s: float = 0.0
    """Seconds until `since` in which any of them worked and that no record has yet."""
    since: float = 0.0
    account: Account | None = None
    """For a batch that other processes run as well."""
    elsewhere_usd: float = 0.0
    """What calls of other processes hold of it, which may turn out to be less."""

    @property
    def limits(self) -> Mapping[str, Any]:
        return self.own_limits if self.run is None else self.run.limits

    @property
    def around(self) -> tuple[Budget, ...]:
        """The budgets that it is part of, the outermost first."""
        return () if self.parent is None else (*self.parent.around, self.parent)

    @property
    def outermost(self) -> Budget:
        return self.parent.outermost if self.parent is not None else self

    async def refresh(self) -> bool:
        """See what other processes have used of the account; false if there is none."""
        standing = self.account and await self.account.of.standing(self.account.name)
        if standing is None:
            return False
        self.own_limits = {} if standing.limit is None else {"cost_usd": standing.limit}
        own = sum(run.state.committed.cost_usd or 0.0 for run in self.runs)
        self.at_rest = self.at_rest.replace(cost_usd=max(standing.used - own, 0.0))
        self.elsewhere_usd = standing.elsewhere
        return True

    @property
    def runs(self) -> list[ActiveRun]:
        driven = list(self.driven.values())
        return driven if self.run is None else [self.run, *driven]

    def book(self, committed: Usage) -> None:
        """Count the committed usage of a run that is not driven, and of all its children.

        The budgets around this one have counted it with the run that this one belongs to.
        """
        self.at_rest = self.at_rest.plus(committed)

    def strike(self, committed: Usage) -> None:
        for budget in (self, *self.around):
            budget.at_rest = budget.at_rest.minus(committed)

    @contextmanager
    def driving(self, active: ActiveRun) -> Iterator[None]:
        """Count a run while it is driven by what its state has, instead of what was booked.

        Anything that it had committed has to be booked before.
        """
        active.budget.parent = self
        budgets = (self, *self.around)
        for budget in budgets:
            budget.count_time()
            budget.at_rest = budget.at_rest.minus(active.state.committed)
            budget.driven[active.state.run] = active
        try:
            yield
        finally:
            for budget in budgets:
                budget.count_time()
                del budget.driven[active.state.run]
                budget.at_rest = budget.at_rest.plus(active.state.committed)

    def count_time(self) -> float:
        """The seconds in which any child worked and that no record has yet."""
        now = 0.0 if self.run is None else self.run.clock.monotonic()
        self.unsaid_s += now - self.since if self.driven else 0.0
        self.since = now
        return self.unsaid_s

    def take_time(self) -> float:
        """Return and reset these seconds."""
        seconds, self.unsaid_s = self.count_time(), 0.0
        return seconds

    def total(self, usage_of: Callable[[ActiveRun], Usage]) -> Usage:
        total = self.at_rest
        if usage_of is least_usage and self.elsewhere_usd:
            total = total.minus(Usage(cost_usd=self.elsewhere_usd))
        for run in self.runs:
            total = total.plus(usage_of(run))
        if self.run is None:
            return total
        # Children work at the same time: what counts is when any of them does.
        return total.replace(time_s=self.run.state.usage.time_s + self.count_time())

    @property
    def used(self) -> Usage:
        return self.total(lambda run: run.state.usage)

    def require(
        self,
        asked: Usage,
        usage_of: Callable[[ActiveRun], Usage] = _committed,
        but: Budget | None = None,
    ) -> float:
        """The seconds left for a call; raises LimitReached if it does not fit here or around."""
        left_s = inf
        for budget in (self, *self.around):
            if budget.limits and budget is not but:
                whose = None if budget is self else budget
                total = budget.total(usage_of)
                left_s = min(left_s, require_room(budget.limits, total, asked, whose))
        return left_s

    def has_room(
        self,
        asked: Usage,
        usage_of: Callable[[ActiveRun], Usage] = _committed,
        but: Budget | None = None,
    ) -> bool:
        try:
            self.require(asked, usage_of, but)
        except LimitReached:
            return False
        return True

    def left_s(self) -> float:
        """The seconds of work that are left; raises LimitReached."""
        try:
            return self.require(Usage())
        except LimitReached as reached:
            raise noted(reached) from None

    def out_of_time(self, spent_s: float = 0.0) -> LimitReached:
        """The limit on time, own or around, that ended work; no event has its `spent_s` yet."""
        spent = self.used.time_s + spent_s
        limit = _seconds(self.limits)
        if spent < limit:
            try:
                self.left_s()
            except LimitReached as reached:
                return reached
        return LimitReached("time", min(limit, spent), spent)

    def reserve(self, quote: Quote, request: Request) -> Reservation | None:
        """The reservation for a call; sets the longest answer if nothing else has set it.

        None if it has to wait for other calls, whose reservations may turn out to be too high. The
        answer is only made shorter if there is no call to wait for. A call that can report any
        amount needs something left of each limit on it, and waits for other such calls: only what
        one of them reports alone can exceed a limit. Raises LimitReached and AgentError.
        """
        request.cap = None
        request.caps = None
        request.is_limited = False
        if self.parent is None and not self.limits:
            return Reservation(quote(request), inf)
        budgets = (self, *self.around)
        request.is_limited = any(needs_caps(budget.limits) for budget in budgets)
        reserved = quote(request)
        reports = _reports(self.run, request.agent)
        unknown = {name: least for name, least in reports.items() if getattr(reserved, name) == 0}
        asked = reserved.replace(**unknown) if unknown else reserved
        try:
            left_s = self.require(asked)
        except LimitReached as reached:
            caps = request.caps
            least = asked if caps is None else _with_cap(quote, request, caps.least)
            are_others = any(run.budget.in_flight for run in self.all_runs)
            if (are_others or self.outermost.elsewhere_usd) and self.has_room(least, least_usage):
                return None
            if caps is not None and (shorter := self._reserve_shorter(quote, request, caps)):
                return shorter
            reached.reserved = reserved
            raise
        is_first = not any(budget.is_reporting(reports) for budget in budgets)
        return Reservation(reserved, left_s) if is_first else None

    def settle(self, key: str) -> None:
        """Let others have what a call leaves that has ended, with an answer or without one."""
        if key in self.in_flight:
            self.in_flight.remove(key)
            for run in self.all_runs:
                run.budget.line.move_up()

    @property
    def all_runs(self) -> list[ActiveRun]:
        """The driven runs of the outermost budget: a call settled in one may free room here."""
        return self.runs if self.parent is None else self.parent.all_runs

    def is_reporting(self, amounts: Mapping[str, float]) -> bool:
        """Whether a call in flight can report any of these amounts under a limit of this budget."""
        limited = [name for name in amounts if self.limits.get(name) is not None]
        return bool(limited) and any(
            name in _reports(run, run.state.open_calls[key].agent)
            for run in self.runs
            for key in run.budget.in_flight
            for name in limited
        )

    def _reserve_shorter(
        self, quote: Quote, request: Request, caps: AnswerCaps
    ) -> Reservation | None:
        """The reservation for the longest answer that fits; None if not even the shortest does."""

        def is_too_long(cap: int) -> bool:
            return not self.has_room(_with_cap(quote, request, cap))

        lengths = range(caps.least, caps.usual + 1)
        if not (fitting := bisect_left(lengths, True, key=is_too_long)):
            return None
        reserved = _with_cap(quote, request, lengths[fitting - 1])
        return Reservation(reserved, self.require(reserved))


def remedy_for_longer(active: ActiveRun, quote: Quote, request: Request) -> str:
    # A played answer has no cap; the usual one is used.
    caps, cut_at = request.caps, request.cap or USUAL_ANSWER
    cap = max(2 * cut_at, caps.usual if caps else 0)
    if caps is not None and caps.most is not None:
        cap = min(cap, caps.most)
    if request.fallback:
        return f"write `max_tokens: {cap}` into `params:` of `{request.model}`, among `fallbacks:`"
    longer, run = _with_cap(quote, request, cap), active.state
    arguments = ["--param", f"{request.agent}.max_tokens={cap}"]
    for name in HELD:
        try:
            require_room({name: active.limits.get(name)}, run.committed, longer)
        except LimitReached as reached:
            arguments += option_to_raise(reached)
    return f"raise it: {resume_line(run.run, *arguments)}"


def least_usage(run: ActiveRun) -> Usage:
    """The least that a run can have used once its calls in flight are settled.

    A call in doubt, or one that is not in flight, will not be settled: it counts as used.
    """
    least = run.state.usage
    for key, intent in run.state.open_calls.items():
        reserved = intent.reserved
        if key in run.budget.in_flight:
            # It may turn out to cost nothing, but stays a call.
            reserved = reserved.replace(tokens=0, cost_usd=0.0)
        least = least.plus(reserved)
    return least


def noted(reached: LimitReached) -> LimitReached:
    """The error, noted where it stops all runs that share the limit."""
    if reached.budget is not None:
        reached.budget.reached = reached
    return reached


def _reports(run: ActiveRun | None, agent: str) -> Mapping[str, float]:
    """The amounts that a call to an agent can report without bounds: the least that each needs."""
    known = run.program.machine.agents.get(agent) if run is not None else None
    return known.unbounded if known is not None else {}


def _with_cap(quote: Quote, request: Request, cap: int) -> Usage:
    request.cap = cap
    return quote(request)
