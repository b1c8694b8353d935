"""The state `render`: a template is the artifact."""

from loopkit.language.agents.calls import ErrorClass
from loopkit.language.noun import Text, Written
from loopkit.language.states.author import TemplateState
from loopkit.language.states.output import RenderOutput, RenderOutputName
from loopkit.language.states.state import Example


class RenderState(TemplateState):
    """Fills in a template: for a deterministic fallback, a merge, or an imported text."""

    render: Text
    """The template. Its text is the artifact."""
    output: RenderOutputName | None = None
    """The artifact to write. Default: one with the state's name."""
    fallback: bool = False
    """Mark the artifact and the result as a fallback."""

    kind = "render"
    example = Example({"render": "{{ plan }} And cake."})
    has_own_work = True

    @property
    def faults(self) -> tuple[ErrorClass, ...]:
        return ("fatal",)

    @property
    def work_template(self) -> str:
        return self.render

    @property
    def adds(self) -> bool:
        """Whether its text is added to what its file holds."""
        return isinstance(self.output, RenderOutput) and self.output.append

    @property
    def templates(self) -> Written:
        yield ("render",), self.render
        yield from super().templates
