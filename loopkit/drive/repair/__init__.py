"""Repairs: a run goes on with another definition, if that fits what it has done so far."""

from loopkit.drive.repair.mend import AS_IT_IS, Definition, Mend, repair

__all__ = ["AS_IT_IS", "Definition", "Mend", "repair"]
