"""The `command` rule: a program judges."""

from math import inf
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from loopkit.language.section import (
    FROM_LIST,
    Argv,
    Duration,
    ErrorRule,
    PlainText,
    Retry,
    Text,
    Variables,
    Written,
    fault,
    templates_of,
)
from loopkit.language.validators.report_map import ReportMap, VerdictReading
from loopkit.language.validators.rule import FixedRule

Parse = Literal["exit_code", "lines", "junit", "sarif", "report"]


class CommandError(ErrorRule):
    """An exit code or output that means that the program gave no verdict, and whether to retry."""

    error_class: Literal["transient", "fatal"] = Field(alias="class")
    """`transient`: another try may help; `fatal`: it will not."""


class CommandRule(FixedRule):
    """Runs a program as a validator: exit code 0 passes, one of `fail_codes` fails, any other is an
    error."""

    command: Argv
    """The program and its arguments; each is a template."""
    stdin: Text | None = None
    """A template for the program's stdin. Default: the artifact."""
    parse: Parse = "exit_code"
    """How to read findings from the program's output."""
    file: PlainText | None = None
    """A template for the path of the report in the workspace. Default: the report is stdout."""
    map: ReportMap | None = None
    """With `parse: report`: how to read a report that is not in the standard form."""
    verdict: VerdictReading | None = None
    """How to read a verdict from the program's output. The strictest verdict counts."""
    fail_codes: Annotated[tuple[int, ...], FROM_LIST] = (1,)
    """The exit codes that mean a defect."""
    baseline: bool = False
    """Run the program once before the run's first work; defects found then do not block later."""
    retry: Retry = Retry(attempts=1)
    """How to retry the program if it gave no verdict and another try may help."""
    errors: Annotated[tuple[CommandError, ...], FROM_LIST] = ()
    """The exit codes and output that mean that there is no verdict, each with its class. The first
    match counts."""
    timeout: Duration = 600.0
    """The time after which the program is killed; there is no verdict then."""
    env: Variables = ()
    """Environment variables to pass on, besides the harmless ones."""

    kind = "command"
    played = "command"
    may_be_lost = True
    keeps_output = True

    @property
    def grades(self) -> bool:
        return self.parse in ("lines", "sarif", "report") or self.verdict is not None

    @property
    def names_origins(self) -> bool:
        return self.parse == "report" and (self.map is None or self.map.names_origins)

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
        yield from templates_of("command", self.command, self.stdin)
        yield from self.written("file")

    @model_validator(mode="after")
    def _is_read(self) -> Self:
        if self.map is not None and self.parse != "report":
            message = f"`map` reads a report, and `parse` is `{self.parse}`"
            remedy = "add `parse: report`, or delete it"
            raise fault("no-effect", message, ("map",), help=remedy)
        if self.file is not None and self.parse == "exit_code":
            message = "nothing reads this file: `parse` is `exit_code`"
            remedy = "say what it is: `parse: lines`, `junit`, `sarif` or `report`"
            raise fault("no-effect", message, ("file",), help=remedy)
        return self
