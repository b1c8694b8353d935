"""What the parser reads otherwise than ruamel."""

import pytest

from loopkit.document.parser import events


@pytest.mark.parametrize(("text", "values"), [
    ("{ ?topic: str }", ["?topic", "str"]), ("{a: ?b}", ["a", "?b"]), ("[?a, ??b]", ["?a", "??b"]),
    ("{? topic: str}", ["topic", "str"]), ("{a: b, ?}", ["a", "b", "", ""]),
])  # fmt: skip
def test_a_question_mark_belongs_to_a_text_unless_a_blank_follows(
    text: str, values: list[str]
) -> None:
    assert [event.value for event in events(text) if hasattr(event, "value")] == values
