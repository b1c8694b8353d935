"""Records of runs, durable and in order; `port` says what every store promises."""

from loopkit.journal.errors import (
    ClaimLost,
    JournalError,
    JournalUnusable,
    MessageWaits,
    NoJournal,
    OnlyRead,
    RunBusy,
    RunDamaged,
    RunExists,
    RunOfOtherVersion,
    RunUnreadable,
    SequenceConflict,
    UnknownDefinition,
    UnknownRun,
)
from loopkit.journal.order import Place, Placed, RecordOrder
from loopkit.journal.owner import Owner
from loopkit.journal.port import (
    CLAIMED,
    Claim,
    History,
    InboxMessage,
    Journal,
    NewRecord,
    Record,
    RunRow,
)

__all__ = [
    "CLAIMED",
    "Claim",
    "ClaimLost",
    "History",
    "InboxMessage",
    "Journal",
    "JournalError",
    "JournalUnusable",
    "MessageWaits",
    "NewRecord",
    "NoJournal",
    "OnlyRead",
    "Owner",
    "Place",
    "Placed",
    "Record",
    "RecordOrder",
    "RunBusy",
    "RunDamaged",
    "RunExists",
    "RunOfOtherVersion",
    "RunRow",
    "RunUnreadable",
    "SequenceConflict",
    "UnknownDefinition",
    "UnknownRun",
]
