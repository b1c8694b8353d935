"""The `command` rule: a program judges."""

from math import inf
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from loopkit.language.agents.calls import ErrorRule, Retry
from loopkit.language.noun import FROM_LIST, Argv, Duration, PlainText, Text, Texts, Written, fault
from loopkit.language.validators.report_map import ReportMap
from loopkit.language.validators.rule import Example, FixedRule
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
    file: PlainText | None = None
    """A template: the file of the workspace that has the report; default is stdout."""
    map: ReportMap | None = None
    """With `parse: report`: how the report is read, where it has another shape than ours."""
    verdict: VerdictReading | None = None
    """How a verdict is read out of what it prints; the strictest counts."""
    fail_codes: Annotated[tuple[int, ...], FROM_LIST] = (1,)
    """Exit codes that mean a defect."""
    baseline: bool = False
    """It runs once before the run's first work; what it finds then does not block later."""
    retry: Retry = Retry(attempts=1)
    """What follows where it came to no verdict and another try may help."""
    errors: Annotated[tuple[CommandError, ...], FROM_LIST] = ()
    """Which end of the program is no verdict, of which class; the first that fits counts."""
    timeout: Duration = 600.0
    """After that the program is ended, and there is no verdict."""
    env: Texts = ()
    """Environment variables that the program may see besides the harmless ones."""

    kind = "command"
    played = "command"
    may_be_lost = True
    keeps_output = True
    example = Example({"command": ["grep", "tea"]}, passes="Some tea.", fails="Some water.")

    @property
    def program(self) -> tuple[str, ...]:
        return self.command

    @property
    def has_baseline(self) -> bool:
        return self.baseline

    @property
    def grades(self) -> bool:
        return self.parse in ("lines", "sarif", "report") or self.verdict is not None

    @property
    def names_origins(self) -> bool:
        return self.parse == "report" and (self.map is None or self.map.names_origins)

    @property
    def forgives(self) -> bool:
        return self.baseline

    @property
    def read_codes(self) -> frozenset[str] | None:
        if self.parse in ("lines", "sarif"):
            return None
        if self.verdict is not None and self.verdict.given_codes is None:
            return None
        if self.parse == "report":
            return self.map.given_codes if self.map is not None else None
        return frozenset()

    @property
    def most_findings(self) -> float:
        return 1 if self.parse == "exit_code" and self.verdict is None else inf

    @property
    def tells_more(self) -> bool:
        return self.parse == "report"

    @property
    def templates(self) -> Written:
        for index, argument in enumerate(self.command):
            yield ("command", index), argument
        if self.stdin is not None:
            yield ("stdin",), self.stdin
        if self.file is not None:
            yield ("file",), self.file

    @model_validator(mode="after")
    def _is_read(self) -> Self:
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
