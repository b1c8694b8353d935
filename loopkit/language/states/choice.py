"""The state without a key of its own: it decides at once."""

from loopkit.language.states.state import Example, WorkingState


class ChoiceState(WorkingState):
    """No work: decides at once."""

    kind = "choice"
    example = Example({})
    doing = "choosing"
    knows_before = True
