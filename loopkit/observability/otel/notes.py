"""Notes about telemetry for whoever runs a command."""

from __future__ import annotations

import sys
from contextlib import suppress

from loopkit.text import one_line

WIDTH = 300


def note(text: str) -> None:
    """Print a line to standard error, if it is open."""
    # A stream that is closed is None, with which `print` would write to standard output.
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print(one_line(text, WIDTH), file=sys.stderr, flush=True)
