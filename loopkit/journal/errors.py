"""Errors of journals: refused and failed requests, each with its remedy."""

from __future__ import annotations

from loopkit.journal.owner import Owner


class JournalError(Exception):
    """Something that the journal refused or could not do; the message says what and why."""


class UnknownRun(JournalError):
    """No run of that name is in the journal."""

    def __init__(self, run: str) -> None:
        super().__init__(f"there is no run `{run}`; `loopkit runs ls` lists all runs")


class UnknownDefinition(JournalError):
    """No definition of that digest is in the journal."""

    def __init__(self, digest: str) -> None:
        super().__init__(f"no definition with the digest {digest!r} is stored")


class RunExists(JournalError):
    """A run of that name is in the journal already."""

    def __init__(self, run: str) -> None:
        super().__init__(f"run {run!r} exists already; resume it, or choose another name")


class RunBusy(JournalError):
    """The run has an owner, and the owner's process is alive."""

    def __init__(self, run: str, owner: Owner) -> None:
        super().__init__(f"run {run!r} is being driven by {owner}; wait for it, or stop it")
        self.owner = owner


class ClaimLost(JournalError):
    """The claim has ended: it was released, or another process has claimed the run."""


class SequenceConflict(JournalError):
    """The run has other records than the writer expected."""

    def __init__(self, run: str, *, expected: int, found: int) -> None:
        super().__init__(
            f"run {run!r} stands at record {found} and not at {expected}; "
            f"nothing was written: read it again before going on"
        )


class NotInInbox(JournalError):
    """A message that was to be consumed does not wait in the inbox of its run."""

    def __init__(self, run: str, message_id: str) -> None:
        super().__init__(
            f"message {message_id!r} does not wait in the inbox of run {run!r}; "
            f"it was consumed before, or never posted: nothing was written"
        )


class MessageWaits(JournalError):
    """A message that has to be read first waits in the inbox, so nothing was written."""

    def __init__(self, run: str) -> None:
        super().__init__(f"a message waits in the inbox of run {run!r}: nothing was written")


class JournalUnusable(JournalError):
    """The storage failed: full, damaged, locked, read-only, or of a newer version."""


class NoJournal(JournalUnusable):
    """Nothing is stored in a folder yet."""

    def __init__(self, place: str) -> None:
        super().__init__(f"there is no journal {place} yet; the first run makes it")


class OnlyRead(JournalUnusable):
    """A write was requested of a journal that was opened only to be read."""

    def __init__(self, place: str) -> None:
        super().__init__(f"the journal {place} was opened only to be read")


class RunUnreadable(JournalError):
    """The records of one run cannot be read; those of other runs may be intact."""

    def __init__(self, message: str, cause: str) -> None:
        super().__init__(message)
        self.cause = cause


class RunDamaged(RunUnreadable):
    """The records of one run are not what was written."""

    def __init__(self, run: str, cause: str) -> None:
        remedy = "restore the journal from a copy, or start a new run"
        super().__init__(f"run {run!r} is damaged: {cause}; {remedy}", cause)


class RunOfOtherVersion(RunUnreadable):
    """Another version of loopkit wrote to the run, most likely a newer one."""

    def __init__(self, run: str, cause: str) -> None:
        remedy = "use that version, or upgrade this one"
        message = f"run {run!r} is of another version of loopkit: {cause}; {remedy}"
        super().__init__(message, cause)
