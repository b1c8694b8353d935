"""The `command` rule: a program judges."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from loopkit.language.agents import ErrorRule, Retry
from loopkit.language.noun import Argv, Duration, Text, Texts, _tuple, fault
from loopkit.language.validators.judge import ReportMap
from loopkit.language.validators.rule import FixedRule
from loopkit.language.validators.verdict import VerdictReading

Parse = Literal["exit_code", "lines", "junit", "sarif", "report"]


class CommandError(ErrorRule):
    """Which end of a program means that it came to no verdict, and whether to try again."""

    error_class: Literal["transient", "fatal"] = Field(alias="class")
    """`transient`: another try may help; `fatal`: none will."""


class CommandRule(FixedRule):
    """A program judges: exit 0 passes, one of `fail_codes` fails, all else is an error."""

    command: Argv
    """The program and its arguments; each is a template."""
    stdin: Text | None = None
    """A template; default is the artifact."""
    parse: Parse = "exit_code"
    """How findings are read out of what the program says."""
    file: Text | None = None
    """A template: the file of the workspace that has the report; default is stdout."""
    map: ReportMap | None = None
    """With `parse: report`: how the report is read, where it has another shape than ours."""
    verdict: VerdictReading | None = None
    """How a verdict is read out of what it prints; the strictest counts."""
    fail_codes: Annotated[tuple[int, ...], BeforeValidator(_tuple)] = (1,)
    """Exit codes that mean a defect."""
    baseline: bool = False
    """It runs once before the run's first work; what it finds then does not block later."""
    retry: Retry = Retry(attempts=1)
    """What follows where it came to no verdict and another try may help."""
    errors: Annotated[tuple[CommandError, ...], BeforeValidator(_tuple)] = ()
    """Which end of the program is no verdict, of which class; the first that fits counts."""
    timeout: Duration = 600.0
    """After that the program is ended, and there is no verdict."""
    env: Texts = ()
    """Environment variables that the program may see besides the harmless ones."""

    @property
    def grades(self) -> bool:
        return self.parse in ("lines", "sarif", "report") or self.verdict is not None

    @model_validator(mode="after")
    def _is_read(self) -> CommandRule:
        if self.map is not None and self.parse != "report":
            raise fault(
                "no-effect",
                f"`map` reads a report, and `parse` is `{self.parse}`",
                ("map",),
                help="add `parse: report`, or delete it",
            )
        if self.file is not None and self.parse == "exit_code":
            raise fault(
                "no-effect",
                "nothing reads this file: `parse` is `exit_code`",
                ("file",),
                help="say what it is: `parse: lines`, `junit`, `sarif` or `report`",
            )
        return self
