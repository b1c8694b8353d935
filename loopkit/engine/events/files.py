"""Events of files: what was there before work, trees of a run's own, texts added to a file."""

from __future__ import annotations

from typing import ClassVar, Literal

from loopkit.engine.events.event import Event


class Captured(Event, frozen=True, kw_only=True):
    """A folder or file that is an artifact, as it was before an attempt."""

    type: ClassVar[str] = "captured"
    area: ClassVar[str] = "files"
    task: str
    """The work that begins at this point."""
    state: str
    artifact: str
    place: str
    """The path of the folder or file."""
    tree: str = ""
    """For a folder: the digest under which its files are stored."""
    times: str
    """A fingerprint that changes with every write; empty if there was no file."""


class Isolated(Event, frozen=True, kw_only=True):
    """A workspace gets a tree of its own, in which the run works."""

    type: ClassVar[str] = "isolated"
    area: ClassVar[str] = "files"
    source: str
    """The path of the workspace."""
    kind: Literal["copy", "worktree"]
    place: str
    """The path of the folder in which the run works instead."""
    base: str
    """The digest of the initial files, under which they are stored."""


class Merging(Event, frozen=True, kw_only=True):
    """The work in an isolated tree is about to be merged into its workspace."""

    type: ClassVar[str] = "merging"
    area: ClassVar[str] = "files"
    source: str
    before: str
    """The digest of the workspace's files before the merge."""
    after: str
    """The digest of the workspace's files after the merge."""


class Merged(Event, frozen=True, kw_only=True):
    """The work in an isolated tree has been merged into its workspace."""

    type: ClassVar[str] = "merged"
    area: ClassVar[str] = "files"
    source: str
    files: tuple[str, ...] = ()
    """The paths that have changed in the workspace."""


class Restored(Event, frozen=True, kw_only=True):
    """Folders have been restored to the round that was picked as the best."""

    type: ClassVar[str] = "restored"
    area: ClassVar[str] = "files"
    artifacts: tuple[str, ...]


class Adding(Event, frozen=True, kw_only=True):
    """A state is about to append a text to a file. It does this once."""

    type: ClassVar[str] = "adding"
    area: ClassVar[str] = "files"
    state: str
    visit: int
    file: str
    after: int
    """The size of the file in bytes before the text is appended."""
