"""The state without a key of its own: it decides at once."""

from loopkit.language.states.state import Example, WorkingState


class ChoiceState(WorkingState):
    """Does no work: only decides which transition to take."""

    kind = "choice"
    example = Example({})
    doing = "choosing"
    knows_before = True
