"""`command`: a program judges, by its exit code and by what it reports."""

from loopkit.validators.command.check import baseline_of, check_command
from loopkit.validators.command.output import tail

__all__ = ["baseline_of", "check_command", "tail"]
