"""Expectations of cases, rewritten to what their runs do now."""

from loopkit.testing.updating.update import Update, update
from loopkit.testing.updating.yaml_edits import NotWritten

__all__ = ["NotWritten", "Update", "update"]
