"""Expectations of cases, rewritten to what their runs do now."""

from loopkit.testing.updating.surgery import NotWritten
from loopkit.testing.updating.update import Update, update

__all__ = ["NotWritten", "Update", "update"]
