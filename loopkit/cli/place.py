"""Where the journal of a command is."""

from __future__ import annotations

from pathlib import Path

import click

from loopkit.cli.terminal import USAGE, Stop
from loopkit.journal.files import is_url, state_folder


def journal_place() -> Path | str:
    """The URL that is given with the command or in the environment, or else the state folder."""
    context = click.get_current_context(silent=True)
    url = context and context.find_root().params.get("journal")
    return journal_url(url) if url else state_folder()


def journal_url(url: str) -> str:
    """The URL of a journal; it is not told, because it may hold a password."""
    if not is_url(url):
        raise Stop(
            USAGE,
            "error: a journal (`--journal`, `LOOPKIT_JOURNAL`) is given as "
            "`postgresql://HOST/DATABASE?schema=NAME`; a state folder by `LOOPKIT_STATE`",
        )
    return url
