"""Telemetry: the defects of a run, and what it took to correct them, as a fold over its events."""

from loopkit.engine.telemetry.counting import Counting
from loopkit.engine.telemetry.defect import Defect, Override, Phase, Tally
from loopkit.engine.telemetry.figures import Figures, round_usd, usd_without_held

__all__ = [
    "Counting",
    "Defect",
    "Figures",
    "Override",
    "Phase",
    "Tally",
    "round_usd",
    "usd_without_held",
]
