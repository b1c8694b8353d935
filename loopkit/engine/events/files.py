"""Events of files: what was there before work, trees of a run's own, texts added to a file."""

from __future__ import annotations

from typing import ClassVar, Literal

from loopkit.engine.events.event import Event


class Captured(Event, frozen=True, kw_only=True):
    """A folder or file that is an artifact, as it was before an attempt."""

    type: ClassVar[str] = "captured"
    task: str
    """The work that begins with it."""
    state: str
    artifact: str
    place: str
    """Where it is."""
    tree: str = ""
    """Of a folder: the digest under which its files are kept."""
    times: str
    """A text that is another one if anything was written since; empty where no file was."""


class Isolated(Event, frozen=True, kw_only=True):
    """A workspace has a tree of its own, in which the run works."""

    type: ClassVar[str] = "isolated"
    source: str
    """The workspace."""
    kind: Literal["copy", "worktree"]
    place: str
    """The folder in which the run works instead."""
    base: str
    """The digest of the files that it began with, under which they are kept."""


class Merging(Event, frozen=True, kw_only=True):
    """The work in an isolated tree is about to be merged into its workspace."""

    type: ClassVar[str] = "merging"
    source: str
    before: str
    """The digest of the workspace's files."""
    after: str
    """The digest of what they are to be."""


class Merged(Event, frozen=True, kw_only=True):
    """The work in an isolated tree is in its workspace."""

    type: ClassVar[str] = "merged"
    source: str
    files: tuple[str, ...] = ()
    """The paths that have changed there."""


class Restored(Event, frozen=True, kw_only=True):
    """Folders are again what they were in the round that was picked as the best."""

    type: ClassVar[str] = "restored"
    artifacts: tuple[str, ...]


class Adding(Event, frozen=True, kw_only=True):
    """A state is about to add a text to a file, which it does once."""

    type: ClassVar[str] = "adding"
    state: str
    visit: int
    file: str
    after: int
    """How many bytes the file has before."""
