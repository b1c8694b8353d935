"""The state `machine`: another machine runs once, as a run of its own."""

from collections.abc import Mapping

from loopkit.language.guard import GuardType
from loopkit.language.states.children import EXAMPLE, ChildrenState
from loopkit.language.states.state import Example


class MachineState(ChildrenState):
    """Runs another machine once. Its result is the artifact."""

    kind = "machine"
    example = Example(
        {"machine": "child.yaml", "input": {"text": "{{ plan }}"}}, files={"child.yaml": EXAMPLE}
    )

    @property
    def about(self) -> str:
        return f"machine {self.machine.file}"

    @property
    def facts(self) -> Mapping[str, GuardType]:
        return {"outcome": GuardType("str", values=self.outcomes)}
