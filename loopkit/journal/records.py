"""What a journal keeps: runs, records, messages and places; and what can be kept at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgspec

from loopkit.journal.errors import (
    JournalError,
    JournalUnusable,
    Owner,
    RunOfOtherVersion,
)

CLAIMED = "claimed"
"""The type of the one record that the journal itself writes, whenever a run gets an owner."""
FORMAT = 1
"""Of the records that are written; a run that a newer loopkit writes to gets that one's format."""
MAX_INTEGER = 2**63 - 1
MAX_TEXT_BYTES = 50_000_000


class Unwritten(Protocol):
    """Immutable data that can be written as JSON text at any time."""

    def to_json(self) -> str: ...


class NewRecord(msgspec.Struct, frozen=True, gc=False):
    """A record that is not stored yet: `at` in Unix seconds, `data` as JSON text or to be it."""

    type: str
    at: float
    data: str | Unwritten

    @property
    def text(self) -> str:
        return self.data if isinstance(self.data, str) else self.data.to_json()


class Record(NamedTuple):
    """A stored record: `seq` counts from 1 without gaps, `epoch` is its owner's."""

    seq: int
    epoch: int
    at: float
    type: str
    data: str


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run in a list."""

    run: str
    machine: str
    definition: str
    created_at: float
    updated_at: float
    """The time of the last record."""
    seq: int
    is_driven: bool
    """Whether a living process owns it."""


class History(NamedTuple):
    """A run in a list, with its records in order."""

    place: int
    """Its place in the order in which runs were created."""
    row: RunRow
    records: Sequence[Record]


@dataclass(frozen=True, slots=True)
class InboxMessage:
    """An answer or a cancellation that waits for the owner of its run."""

    kind: str
    message_id: str
    data: str
    at: float


class Place(tuple[int, ...]):
    """A place among all records, made by their journal: later ones are greater; `()` is first."""

    __slots__ = ()

    def __str__(self) -> str:
        return ".".join(map(str, self)) or "0"


class Placed(NamedTuple):
    place: Place
    run: str
    record: Record


class Change(msgspec.Struct, eq=False):
    """What an owner wants to be done to its run, or to a new one, whole or not at all."""

    run: str
    row: int
    """0 for a new run."""
    epoch: int
    seq: int
    """The run's last record before it."""
    records: Sequence[NewRecord] = ()
    consumes: Sequence[str] = ()
    releases: bool = False
    due: float | None = None
    unless: Sequence[str] = ()
    settles: Sequence[Settlement] = ()
    machine: str = ""
    definition: str = ""
    needs: Sequence[str] | None = None
    owner: str = ""
    """Of a new run."""
    texts: Sequence[str] = ()
    """Of the records, for a store that needs them more than once."""
    job: Any = None
    seen: int = 0
    """The version of the file at which the run is known to be like this."""

    @property
    def end(self) -> int:
        return self.seq + len(self.records)

    @property
    def created_at(self) -> float:
        """A new run is as old as the first record behind its claim, if there is one."""
        return self.records[:2][-1].at


NOW = 0.0
"""As the time at which a run is due: at once."""


class Due(NamedTuple):
    """A run that somebody has to continue: since its time, or because its owner was killed."""

    run: str
    since: float | None


class Standing(NamedTuple):
    """How many runs, children left out, have a last record of this type, but for claims."""

    last: str
    is_driven: bool
    is_due: bool
    """Whether a worker has to drive them, the first one since that time, if it is known."""
    runs: int
    since: float | None


def refuse_text(what: str, value: str) -> None:
    """Raise JournalError for lone surrogates, zero characters and more than 50 MB of UTF-8.

    Values are checked before they are stored, so that a bad one cannot fail the other appends of
    its transaction.
    """
    if value.isascii() and "\0" not in value and len(value) <= MAX_TEXT_BYTES:
        return
    if "\0" in value:
        raise JournalError(f"{what} contains a zero character at {value.index(chr(0))}; remove it")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise JournalError(
            f"{what} contains half a surrogate pair at character {error.start}; "
            "replace it before recording, for example by U+FFFD"
        ) from error
    if size > MAX_TEXT_BYTES:
        raise JournalError(
            f"{what} has {size:,} bytes, the limit is {MAX_TEXT_BYTES:,}; "
            "keep it in a file and record where"
        )


def refuse_texts(what: str, **values: str) -> None:
    """As `refuse_text`; `what` has `{}` in place of the name of each value."""
    for name, value in values.items():
        refuse_text(what.format(name), value)


def refuse_records(records: Sequence[NewRecord], consumes: Iterable[str]) -> None:
    """Raise JournalError for the first record, or id of a message, that cannot be stored.

    Data that is not written yet is not measured: that would cost as much as writing it.
    """
    for number, record in enumerate(records, 1):
        if isinstance(record.data, str):
            refuse_text(f"the type of record {number}", record.type)
            refuse_text(f"the data of record {number} ({record.type})", record.data)
    for message in consumes:
        refuse_text("the id of a consumed message", message)


def refuse_format(run: str, number: int) -> None:
    """Raise RunOfOtherVersion for a run that a newer loopkit writes to."""
    if number > FORMAT:
        cause = f"its records are of format {number}, and this one knows {FORMAT}"
        raise RunOfOtherVersion(run, cause)


def owner_of(claim: tuple[Any, ...] | None = None) -> Owner:
    """Who is named by the owner of a run and by the time and data of its newest claim."""
    try:
        name, at, data = claim or ("", 0.0, "")
        claimed = json.loads(data)
        return Owner(name, int(claimed["pid"]), str(claimed["host"]), at)
    except (TypeError, ValueError, KeyError) as error:
        raise JournalUnusable(
            "a claim in the journal cannot be read; restore the journal from a copy"
        ) from error


class AccountStanding(NamedTuple):
    """How an account stands, in USD."""

    limit: float | None
    used: float
    """Spent, or held by calls that are under way."""
    elsewhere: float
    """The part that other living processes hold for runs that they drive; it may become less."""


class Settlement(NamedTuple):
    """What a call has cost, or is charged, whatever its account has held for it."""

    key: str
    account: str
    usd: float


class Circuit(NamedTuple):
    failures: int
    """Transient failures in a row."""
    closed_s: float
    """The seconds for which nobody may call."""


class Rate(NamedTuple):
    """The calls that may be made of a provider; None for any number."""

    at_once: int | None = None
    a_minute: int | None = None

    @property
    def _burst(self) -> int:
        return max((self.a_minute or 0) // 4, 1)

    @property
    def interval_s(self) -> float:
        """What each call uses up of a minute, of which a quarter may be used in advance."""
        return 60.001 / ((self.a_minute or 1) - self._burst + 1)

    def grant(self, wanted: int, held: int, ahead_s: float) -> tuple[int, float]:
        """How many calls may be made besides those `held`, and in how many seconds one more."""
        granted, wait_s = wanted, 0.0
        if self.at_once is not None:
            granted = min(granted, self.at_once - held)
        if self.a_minute is not None:
            left = self._burst - ahead_s / self.interval_s
            granted, wait_s = min(granted, int(left + 1e-6)), (1 - left % 1) * self.interval_s
        return max(granted, 0), wait_s
