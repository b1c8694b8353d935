"""What a journal keeps: runs, records, messages and places; and what can be kept at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgspec

from loopkit.journal.errors import (
    JournalError,
    JournalUnusable,
    Owner,
    RunDamaged,
    RunOfOtherVersion,
)

CLAIMED = "claimed"
"""The type of the one record that the journal itself writes, whenever a run gets an owner."""
FORMAT = 1
"""Of the records that are written; a run that a newer loopkit writes to gets that one's format."""
MAX_INTEGER = 2**63 - 1
MAX_TEXT_BYTES = 50_000_000
_MAX_TIME_S = 1e12
_MAX_PID = 2**31 - 1


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
    """One run in a list; its damage does not prevent listing other runs."""

    run: str
    machine: str
    definition: str
    created_at: float
    updated_at: float
    """The time of the last record; if the records are damaged, of the creation."""
    seq: int
    is_driven: bool
    """Whether a living process owns it."""
    damage: RunDamaged | None = None


class History(NamedTuple):
    """A run in a list, with its records in order; without records if they are damaged."""

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


NOW = 0.0
"""As the time at which a run is due: at once."""


class Due(NamedTuple):
    """A run that somebody has to continue: since its time, or because its owner was killed."""

    run: str
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


def refuse_time(what: str, at: float) -> None:
    """Raise JournalError for a value that is not a time in Unix seconds, such as NaN."""
    if not -_MAX_TIME_S < at < _MAX_TIME_S:
        raise JournalError(f"the time of {what} is {at:g}; give Unix seconds")


def refuse_records(records: Sequence[NewRecord]) -> None:
    """Raise JournalError for the first record that cannot be stored, naming it.

    Data that is not written yet is not measured: that would cost as much as writing it.
    """
    for number, record in enumerate(records, 1):
        if isinstance(record.data, str):
            refuse_text(f"the type of record {number}", record.type)
            refuse_text(f"the data of record {number} ({record.type})", record.data)
            refuse_time(f"record {number} ({record.type})", record.at)


def refuse_format(run: str, number: int) -> None:
    """Raise RunOfOtherVersion for a run that a newer loopkit writes to."""
    if number > FORMAT:
        cause = f"its records are of format {number}, and this one knows {FORMAT}"
        raise RunOfOtherVersion(run, cause)


def refuse_impossible(run: str, seq: int, epoch: int, at: float) -> None:
    """Raise RunDamaged for an epoch or a time that cannot be: each epoch began with a record."""
    if not 1 <= epoch <= seq:
        raise RunDamaged(run, f"record {seq} has no epoch that can be: {epoch}")
    try:
        refuse_time("a record", at)
    except JournalError as error:
        raise RunDamaged(run, f"record {seq} has no time that can be") from error


def owner_of(claim: tuple[Any, ...] | None = None) -> Owner:
    """Who is named by the owner of a run and by the time and data of its newest claim."""
    try:
        name, at, data = claim or ("", 0.0, "")
        refuse_time("a claim", at)
        claimed = json.loads(data)
        if not isinstance(pid := claimed["pid"], int) or not 0 < pid <= _MAX_PID:
            raise ValueError(f"{pid!r} is the number of no process")  # noqa: TRY301
        return Owner(name, pid, str(claimed["host"]), at)
    except (TypeError, ValueError, KeyError, JournalError) as error:
        raise JournalUnusable(
            "a claim in the journal cannot be read; restore the journal from a copy"
        ) from error
