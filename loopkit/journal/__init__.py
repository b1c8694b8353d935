"""Records of runs, durable and in order; `port` says what every store promises."""

from loopkit.journal.port import (
    CLAIMED,
    Claim,
    ClaimLost,
    InboxMessage,
    Journal,
    JournalError,
    JournalUnusable,
    NewRecord,
    Owner,
    Record,
    RunBusy,
    RunExists,
    RunRow,
    SequenceConflict,
    UnknownDefinition,
    UnknownRun,
)

__all__ = [
    "CLAIMED",
    "Claim",
    "ClaimLost",
    "InboxMessage",
    "Journal",
    "JournalError",
    "JournalUnusable",
    "NewRecord",
    "Owner",
    "Record",
    "RunBusy",
    "RunExists",
    "RunRow",
    "SequenceConflict",
    "UnknownDefinition",
    "UnknownRun",
]
