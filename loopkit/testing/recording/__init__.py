"""Real runs as cases of scenario files, which replay them offline to the same events."""

from loopkit.testing.recording.case import NotRecordable
from loopkit.testing.recording.recording import Recording, record
from loopkit.testing.recording.target import Target, target

__all__ = [
    "NotRecordable",
    "Recording",
    "Target",
    "record",
    "target",
]
