"""Limits: a call is refused if its maximum does not fit into what is left.

An account holds for several runs together. What comes from outside is limited too: a text is kept
only as far as it can be stored and printed.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from math import ceil
from typing import Any

from loopkit.agents.model.pricing import USUAL_ANSWER, needs_caps
from loopkit.agents.port import AnswerCaps, Message, Request
from loopkit.drive.active import ActiveRun, Line
from loopkit.engine.payloads import PromptSize, Ran
from loopkit.engine.records import Failure, RefusedCall, Usage
from loopkit.engine.state import RunState
from loopkit.text.run_ids import resume_line
from loopkit.values import Value

COUNTED = ("agent_calls", "tool_calls", "tokens", "cost_usd")

HELD = {"tokens": "held_tokens", "cost_usd": "held_usd"}
"""The field of a usage with the part of an amount that is only reserved."""

SMALL_USD = 0.0001
"""Amounts below this are shown with more digits: four of them would all be zeros."""


class LimitReached(Exception):
    """A limit leaves no room for the next piece of work."""

    reserved = Usage()
    """The maximum of the next call."""
    call: RefusedCall | None = None
    """The call that was not made, if it was a call."""
    commands: tuple[Ran, ...] = ()
    """The runs of command validators in the same round."""
    time_s = 0.0
    """Seconds of the unfinished work that no call accounts for."""

    def __init__(
        self,
        name: str,
        limit: float,
        spent: float,
        asked: float | None = 0.0,
        held: float = 0.0,
        owner: str = "",
    ) -> None:
        """`owner` says whose limit it is, if it is not the run's own."""
        self.name = name
        self.limit = limit
        self.spent = spent
        self.asked = asked
        self.held = held
        self.owner = owner
        whose = f" of {owner}" if owner else ""
        used, most = _amount(name, spent - held), _amount(name, limit)
        message = f"the limit `{name}`{whose} leaves no room: {used} of {most} used"
        if held:
            # Of calls in flight, in doubt or uncounted: it leaves no room, but nobody spent it yet.
            message += f", up to {_amount(name, held)} held"
        if asked is None:
            message += ", and what the next call can cost is not known"
        elif asked and spent < limit:
            message += f", and the next call can take up to {_amount(name, asked)}"
        super().__init__(message)

    def failure(self, run: str) -> Failure:
        return Failure("limit", str(self), self.remedy(run), refused=self.call)

    def remedy(self, run: str) -> str:
        if self.asked is None and self.call is not None:
            price = resume_line(run, "--price", f"{self.call.agent}=USD")
            return f"with what a million of its tokens cost instead of USD: {price}"
        return f"raise it: {resume_line(run, *option_to_raise(self))}"


class AnswerCutOff(LimitReached):
    """An answer was cut off at the cap that it got because of a limit."""

    def __init__(self, message: str, remedy: str) -> None:
        Exception.__init__(self, f"`max_tokens` reached: {message}")
        self._remedy = remedy
        self.owner = ""

    def remedy(self, run: str) -> str:
        return self._remedy


def room_for(limits: Mapping[str, Any], committed: Usage, reservation: Usage) -> float | None:
    """The seconds of work that are left for a call, or None without a limit.

    Raises LimitReached if the maximum of the call does not fit.
    """
    for name in COUNTED:
        if (limit := limits.get(name)) is None:
            continue
        spent, asked = getattr(committed, name), getattr(reservation, name)
        if asked == 0:
            continue
        # An unknown cost is never free: it can't be shown to fit.
        if spent is None or asked is None or spent + asked > limit + 1e-9:
            held = getattr(committed, HELD.get(name, ""), 0)
            raise LimitReached(name, limit, spent or 0, asked, held if spent else 0)
    return time_left(limits, committed)


def has_room(limits: Mapping[str, Any], used: Usage, most: Usage) -> bool:
    try:
        room_for(limits, used, most)
    except LimitReached:
        return False
    return True


def least_usage(run: RunState, in_flight: Collection[str]) -> Usage:
    """The least that a run can have used once its calls in flight are settled.

    A call in doubt, or one that is not in flight, will not be settled: it counts as used.
    """
    least = run.usage
    for key, intent in run.open_calls.items():
        reserved = intent.reserved
        if key in in_flight:
            # It may turn out to cost nothing, but stays a call.
            reserved = reserved.replace(tokens=0, cost_usd=0.0)
        least = least.plus(reserved)
    return least


def time_left(limits: Mapping[str, Any], committed: Usage) -> float | None:
    """The seconds of work that are left, or None without a limit; raises LimitReached at zero."""
    limit = limits.get("time")
    if limit is None:
        return None
    if committed.time_s >= limit:
        raise LimitReached("time", limit, committed.time_s)
    return float(limit - committed.time_s)


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


class SharedLimitReached(LimitReached):
    """A limit that several runs share leaves no room."""

    def __init__(self, account: Account, reached: LimitReached) -> None:
        self.account = account
        super().__init__(
            reached.name, reached.limit, reached.spent, reached.asked, reached.held, account.owner
        )

    def remedy(self, run: str) -> str:
        if isinstance(self.account, FamilyAccount):
            return f"raise it: {resume_line(self.owner, *option_to_raise(self))}"
        return f"run {self.owner} again with a higher limit: {' '.join(option_to_raise(self))}"

    @property
    def as_own(self) -> LimitReached:
        """The error for the run whose own limit it is."""
        return LimitReached(self.name, self.limit, self.spent, self.asked, self.held)


class Account:
    """What runs have spent together, and limits that hold for all of them."""

    def __init__(
        self, limits: Mapping[str, Any], owner: str, within: Account | None = None
    ) -> None:
        """`owner` says in messages whose limits these are.

        What is spent here is spent `within` another account, too.
        """
        self.owner = owner
        self.reached: SharedLimitReached | None = None
        """The error with which a call was refused because it had no room here."""
        self._limits = limits
        self._within = within
        self._at_rest = Usage()
        """The committed usage of the runs that are not driven at the moment."""
        self.driven: dict[str, ActiveRun] = {}
        """The runs that are driven at the moment."""
        self.lines: list[Line] = [] if within is None else within.lines
        """The lines of the driven runs: a call settled in one may free room for another."""

    @property
    def limits(self) -> Mapping[str, Any]:
        return self._limits

    @property
    def all_around(self) -> Iterator[Account]:
        yield self
        if self._within is not None:
            yield from self._within.all_around

    def book(self, committed: Usage) -> None:
        """Count the committed usage of a run that is not driven, and of all its children.

        An account that this one is within has counted it with the run whose account this is.
        """
        self._at_rest = self._at_rest.plus(committed)

    def strike(self, committed: Usage) -> None:
        """Stop counting usage that was booked."""
        self._at_rest = self._at_rest.minus(committed)
        if self._within is not None:
            self._within.strike(committed)

    @contextmanager
    def driving(self, active: ActiveRun) -> Iterator[None]:
        """Count a run while it is driven; anything it had committed has to be booked before."""
        active.account, active.line = self, Line(self.lines)
        self.lines.append(active.line)
        try:
            with self.counting(active):
                yield
        finally:
            self.lines.remove(active.line)

    @contextmanager
    def counting(self, active: ActiveRun) -> Iterator[None]:
        """Count the committed usage that the run's state has, instead of what was booked."""
        run = active.state.run
        self._at_rest = self._at_rest.minus(active.state.committed)
        self.driven[run] = active
        try:
            with nullcontext() if self._within is None else self._within.counting(active):
                yield
        finally:
            del self.driven[run]
            self._at_rest = self._at_rest.plus(active.state.committed)

    @property
    def used(self) -> Usage:
        return self._with_driven([active.state.usage for active in self.driven.values()])

    def require_room(self, reserved: Usage) -> float | None:
        """The seconds of work that are left for a call, or None without a limit.

        Raises SharedLimitReached if the call does not fit.
        """
        left = None if self._within is None else self._within.require_room(reserved)
        if not self.limits:
            return left
        committed = [active.state.committed for active in self.driven.values()]
        try:
            here = room_for(self.limits, self._with_driven(committed), reserved)
        except LimitReached as reached:
            raise SharedLimitReached(self, reached) from reached
        return _smaller(left, here)

    def may_have_room(self, most: Usage) -> bool:
        """Whether a call can fit once the calls in flight, of all driven runs, are settled."""
        if self._within is not None and not self._within.may_have_room(most):
            return False
        least = [least_usage(one.state, one.line.in_flight) for one in self.driven.values()]
        return has_room(self.limits, self._with_driven(least), most)

    @property
    def is_calling(self) -> bool:
        return any(line.in_flight for line in self.lines)

    def _with_driven(self, driven: list[Usage]) -> Usage:
        total = self._at_rest
        for usage in driven:
            total = total.plus(usage)
        return total


class FamilyAccount(Account):
    """The limits of a run, which hold for it and its children together."""

    def __init__(self, active: ActiveRun) -> None:
        super().__init__({}, active.state.run, active.account)
        self._active = active
        self._since = 0.0
        self._unsaid_s = 0.0

    @property
    def limits(self) -> Mapping[str, Any]:
        return self._active.limits

    @contextmanager
    def counting(self, active: ActiveRun) -> Iterator[None]:
        if not self.driven:
            self._since = self._now()
        try:
            with super().counting(active):
                yield
        finally:
            if not self.driven:
                self._unsaid_s += self._now() - self._since

    def add_time(self, seconds: float) -> None:
        """Count seconds in which children worked before, and that no record has yet."""
        self._unsaid_s += seconds

    def take_time(self) -> float:
        """Return and reset the seconds in which any child worked and that no record has yet."""
        seconds, self._unsaid_s, self._since = self._at_work_s, 0.0, self._now()
        return seconds

    @property
    def _at_work_s(self) -> float:
        return self._unsaid_s + (self._now() - self._since if self.driven else 0.0)

    def _with_driven(self, driven: list[Usage]) -> Usage:
        own = self._active.state.usage
        total = super()._with_driven([own, *driven])
        # Children work at the same time: what counts is when any of them does.
        return total.replace(time_s=own.time_s + self._at_work_s)

    def _now(self) -> float:
        return self._active.clock.monotonic()


def size_of(request: Request, *, goes_on: bool) -> PromptSize:
    """The size of a request in characters; `goes_on` if it has no prompt of its own."""
    prompt = 0 if goes_on else len(request.prompt)
    if not request.model:
        return PromptSize(prompt=prompt)
    system = _message_chars(m for m in request.messages if m.role == "system")
    schemas = [tool.schema for tool in request.tools]
    schemas += [request.schema] if request.schema is not None else []
    described = sum(len(tool.name) + len(tool.description) for tool in request.tools)
    return PromptSize(
        system=system,
        turns=max(0, _message_chars(request.messages) - system - prompt),
        prompt=prompt,
        schemas=described + sum(len(json.dumps(each, ensure_ascii=False)) for each in schemas),
    )


def _message_chars(messages: Iterable[Message]) -> int:
    return sum(
        len(message.content) + sum(len(call.arguments) for call in message.tool_calls)
        for message in messages
    )


Quote = Callable[[Request], Usage]


class Room(Value, frozen=True):
    reserved: Usage
    left_s: float | None = None
    """Seconds of work that are left for it; None without a limit."""


def find_room(active: ActiveRun, quote: Quote, request: Request) -> Room | None:
    """The room for a call; sets the longest answer if nothing else has set it.

    None if it has to wait for other calls, whose reservations may turn out to be too high. The
    answer is only made shorter if there is no call to wait for. A call that can report any amount
    needs something left of each limit on it, and waits for other such calls: only what one of them
    reports alone can exceed a limit. Raises LimitReached and AgentError.
    """
    limits = active.limits
    request.cap, request.caps = None, None
    if not limits and active.account is None:
        request.is_limited = False
        return Room(quote(request))
    request.is_limited = _is_limited(active, limits)
    reserved, unbounded = quote(request), _unbounded(active, request.agent)
    asked = reserved
    for name, least_left in unbounded.items():
        if getattr(reserved, name) == 0:
            asked = asked.replace(**{name: least_left})
    try:
        left_s = _room(active, limits, asked).left_s
        return None if _is_reporting(active, unbounded) else Room(reserved, left_s)
    except LimitReached as reached:
        caps = request.caps
        least = asked if caps is None else _with_cap(quote, request, caps.least)
        if _may_have_room(active, least):
            return None
        room = None if caps is None else _room_for_shorter(active, quote, request, caps)
        if room is not None:
            return room
        reached.reserved = reserved
        if isinstance(reached, SharedLimitReached):
            reached.account.reached = reached
        raise


def _is_limited(active: ActiveRun, limits: Mapping[str, Any]) -> bool:
    """Whether cost or tokens are limited, so that every answer needs a maximum length."""
    shared = active.account.all_around if active.account is not None else ()
    return needs_caps(limits) or any(needs_caps(account.limits) for account in shared)


def _unbounded(active: ActiveRun, agent: str) -> Mapping[str, float]:
    known = active.program.machine.agents.get(agent)
    return known.unbounded if known is not None else {}


def _is_reporting(active: ActiveRun, amounts: Collection[str]) -> bool:
    """Whether a call in flight can report any of these amounts under a limit of this run."""
    if not amounts:
        return False
    sharing: list[tuple[Mapping[str, Any], Collection[ActiveRun]]] = [(active.limits, (active,))]
    for account in active.account.all_around if active.account is not None else ():
        sharing.append((account.limits, account.driven.values()))
    return any(
        limits.get(name) is not None and name in _unbounded(run, run.state.open_calls[key].agent)
        for limits, runs in sharing
        for run in runs
        for key in run.line.in_flight
        for name in amounts
    )


def _room(active: ActiveRun, limits: Mapping[str, Any], reserved: Usage) -> Room:
    """Room in the limits of the run, and in those that it shares; raises LimitReached."""
    left_s = room_for(limits, active.state.committed, reserved) if limits else None
    if active.account is not None:
        left_s = _smaller(left_s, active.account.require_room(reserved))
    return Room(reserved, left_s)


def seconds_left(active: ActiveRun) -> float | None:
    """Seconds of work that are left in the limits of a run, and in those that it shares.

    None without a limit. Raises LimitReached.
    """
    left_s = time_left(active.limits, active.state.committed)
    return _smaller(left_s, _room_in_account(active))


def out_of_time(active: ActiveRun, spent_s: float = 0.0) -> LimitReached:
    """The limit on time that ended work: the run's own, or one that it shares.

    `spent_s` are seconds of that work that no event has.
    """
    spent, limit = active.state.committed.time_s + spent_s, active.limits.get("time")
    if limit is None or spent < limit:
        try:
            _room_in_account(active)
        except LimitReached as reached:
            return reached
    return LimitReached("time", spent if limit is None else limit, spent)


def _room_in_account(active: ActiveRun) -> float | None:
    """The seconds of work that are left; a refusal stops all runs that share the limit."""
    try:
        return active.account.require_room(Usage()) if active.account is not None else None
    except SharedLimitReached as reached:
        reached.account.reached = reached
        raise


def _smaller(first: float | None, second: float | None) -> float | None:
    return min((each for each in (first, second) if each is not None), default=None)


def _may_have_room(active: ActiveRun, most: Usage) -> bool:
    """Whether other calls are in flight, and the call may fit once they are settled."""
    in_flight, account = active.line.in_flight, active.account
    if not in_flight and (account is None or not account.is_calling):
        return False
    fits = has_room(active.limits, least_usage(active.state, in_flight), most)
    return fits and (account is None or account.may_have_room(most))


def _room_for_shorter(
    active: ActiveRun, quote: Quote, request: Request, caps: AnswerCaps
) -> Room | None:
    """Room for the longest answer that fits; None if not even the shortest does."""

    def room_at(cap: int) -> Room | None:
        reserved = _with_cap(quote, request, cap)
        try:
            return _room(active, active.limits, reserved)
        except LimitReached:
            return None

    lengths = range(caps.least, caps.usual + 1)
    fitting = bisect_left(lengths, True, key=lambda cap: room_at(cap) is None)
    return room_at(lengths[fitting - 1]) if fitting else None


def _with_cap(quote: Quote, request: Request, cap: int) -> Usage:
    request.cap = cap
    return quote(request)


def room_for_longer(active: ActiveRun, agent: str, quote: Quote, request: Request) -> str:
    """The remedy for an answer that was cut off at a cap: the command line to resume with."""
    # A played answer has no cap; the usual one is used.
    caps, cut_at = request.caps, request.cap or USUAL_ANSWER
    cap = max(2 * cut_at, caps.usual if caps else 0)
    if caps is not None and caps.most is not None:
        cap = min(cap, caps.most)
    if request.fallback:
        return f"write `max_tokens: {cap}` into `params:` of `{request.model}`, among `fallbacks:`"
    longer, run = _with_cap(quote, request, cap), active.state
    arguments = ["--param", f"{agent}.max_tokens={cap}"]
    for name in HELD:
        try:
            only = {name: active.limits.get(name)}
            room_for(only, run.committed, longer)
        except LimitReached as reached:
            arguments += option_to_raise(reached)
    return f"raise it: {resume_line(run.run, *arguments)}"


LONGEST_ANSWER = 1_500_000
"""Characters. A template prints 2,000,000, and an answer stands in prompts beside other texts.

Whatever they are, they are fewer bytes than can be stored."""
MOST_BYTES = 10_000_000
"""Of a text as JSON, where a control character takes six; a record holds several texts."""
MOST_FILE_BYTES = 20_000_000
"""Of an output file as JSON: room for all that can be read, but for many control characters."""
LONGEST_NAME = 10_000
"""Characters of a session or a model."""
LONGEST_TOOL = 64
"""Characters of the name of a tool that a model made up; providers take no more."""
KEPT_CHARS = 100_000
"""Characters kept of a text that is too long, half from each end."""
_MOST_BYTES_A_CHAR = 6


def fits(text: str) -> bool:
    """Whether a text can be stored, together with others that are as long."""
    return len(text) * _MOST_BYTES_A_CHAR <= MOST_BYTES or size_as_json(text) <= MOST_BYTES


def size_as_json(text: str) -> int:
    """The bytes of a text as it is stored."""
    return len(json.dumps(text, ensure_ascii=False).encode())


def is_answer(text: str) -> bool:
    """Whether a text can be stored and printed into the prompts that follow."""
    return len(text) <= LONGEST_ANSWER


def shorten(text: str, most: int = KEPT_CHARS) -> str:
    """Both ends of a text, with a line between them that says how much is missing."""
    half = most // 2
    missing = len(text) - 2 * half
    return f"{text[:half]}\n[{missing:,} characters left out]\n{text[-half:]}"
