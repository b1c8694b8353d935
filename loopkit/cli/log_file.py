"""The log file: what happens in runs as lines of JSON, in the file that LOOPKIT_LOG names."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from loopkit.cli.terminal import misuse, say
from loopkit.observability.logs import LOGGER, JsonLines


class LogFile(logging.FileHandler):
    """Appends to a file until it can't be written any more; the run goes on then."""

    def __init__(self, path: str) -> None:
        try:
            super().__init__(path, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise misuse(f"LOOPKIT_LOG: {path}: {error.strerror}") from error
        self.setFormatter(JsonLines())

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - named by logging
        LOGGER.removeHandler(self)
        say(f"LOOPKIT_LOG: `{self.baseFilename}` can't be written; the log ends here")

    def close(self) -> None:
        # The unwritten rest is written once more; the failure was reported before.
        with suppress(OSError):
            super().close()


@contextmanager
def log_to(path: str) -> Iterator[None]:
    """Log everything to a file meanwhile; raises Stop if it can't be opened."""
    log_file, level = LogFile(path), LOGGER.level
    LOGGER.addHandler(log_file)
    LOGGER.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        LOGGER.removeHandler(log_file)
        LOGGER.setLevel(level)
        log_file.close()
