"""The state `run`: a command writes an artifact."""

from collections.abc import Mapping

from loopkit.language.agents.agent import Workspace
from loopkit.language.agents.calls import ErrorClass, OnInDoubt
from loopkit.language.facts import INT
from loopkit.language.guard import GuardType
from loopkit.language.noun import Argv, Duration, Text, Texts, Written
from loopkit.language.states.author import AuthorState
from loopkit.language.states.output import Output, OutputName
from loopkit.language.states.state import Example


class CommandState(AuthorState):
    """Runs a command. Its stdout is the artifact; a non-zero exit code is not an error."""

    run: Argv
    """The program and its arguments; each is a template. No shell is involved."""
    stdin: Text | None = None
    """A template for the program's stdin. Default: no input."""
    output: OutputName | None = None
    """The artifact to write. Default: one with the state's name."""
    fallback: bool = False
    """Mark the artifact and the result as a fallback."""
    timeout: Duration = 600.0
    """The time after which the program is killed."""
    env: Texts = ()
    """Environment variables to pass on, besides the harmless ones."""
    on_in_doubt: OnInDoubt | None = None
    """The policy for a call in doubt, which may have been made before a crash. Default: `ask`."""
    workspace: Workspace | None = None
    """The folder in which the program runs."""

    kind = "run"
    example = Example({"run": ["cat"], "stdin": "{{ plan }}"})
    call = "run"
    has_own_work = True
    works_outside = True
    said = ("exit_code",)
    beside = ("stderr",)

    @property
    def faults(self) -> tuple[ErrorClass, ...]:
        return ("transient", *(("content",) if self.may_leave_none else ()), "fatal")

    @property
    def about(self) -> str:
        return " ".join((self.kind, *self.run))

    @property
    def templates(self) -> Written:
        yield from ((("run", index), text) for index, text in enumerate(self.run))
        if self.stdin is not None:
            yield ("stdin",), self.stdin
        yield from super().templates

    @property
    def facts(self) -> Mapping[str, GuardType]:
        return {"exit_code": INT}

    @property
    def may_leave_none(self) -> bool:
        written = self.output
        return isinstance(written, Output) and written.may_be_missing
