"""Storable values: valid Unicode, times that are times, bounded sizes.

Values are checked before a store gets them, so that a bad one cannot fail the other appends of its
transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loopkit.journal.errors import JournalError
from loopkit.journal.port import NewRecord

MAX_INTEGER = 2**63 - 1
"""The greatest integer that SQLite takes."""
MAX_TEXT_BYTES = 50_000_000
_MAX_TIME_S = 1e12


def refuse_text(what: str, value: str) -> None:
    """Raise `JournalError` for lone surrogates, zero characters and more than 50 MB of UTF-8."""
    if value.isascii() and "\0" not in value and len(value) <= MAX_TEXT_BYTES:
        return
    if "\0" in value:
        raise JournalError(f"{what} contains a zero character at {value.index(chr(0))}; remove it")
    if (size := _utf8_size(what, value)) > MAX_TEXT_BYTES:
        raise JournalError(
            f"{what} has {size:,} bytes, the limit is {MAX_TEXT_BYTES:,}; "
            f"keep it in a file and record where"
        )


def refuse_time(what: str, at: float) -> None:
    """Raise `JournalError` for a value that is not a time in Unix seconds, such as NaN."""
    if not -_MAX_TIME_S < at < _MAX_TIME_S:
        raise JournalError(f"the time of {what} is {at:g}; give Unix seconds")


def refuse_records(records: Sequence[NewRecord]) -> None:
    """Raise `JournalError` for the first record that cannot be stored, naming it."""
    # A step of a run stores several; for usual ones no message is made.
    texts = "".join([record.type + record.text for record in records])
    are_usual = texts.isascii() and "\0" not in texts and len(texts) <= MAX_TEXT_BYTES
    if are_usual and not [True for record in records if not -_MAX_TIME_S < record.at < _MAX_TIME_S]:
        return
    for number, record in enumerate(records, 1):
        refuse_text(f"the type of record {number}", record.type)
        refuse_text(f"the data of record {number} ({record.type})", record.text)
        refuse_time(f"record {number} ({record.type})", record.at)


def refuse_messages(ids: Iterable[str]) -> None:
    """Raise `JournalError` for the first id of a message that cannot be stored."""
    for message_id in ids:
        refuse_text("the id of a consumed message", message_id)


def _utf8_size(what: str, value: str) -> int:
    try:
        return len(value.encode())
    except UnicodeEncodeError as error:
        raise JournalError(
            f"{what} contains half a surrogate pair at character {error.start}; "
            f"replace it before recording, for example by U+FFFD"
        ) from error
