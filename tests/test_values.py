"""Values: what records and states share without copying it."""

from __future__ import annotations

import pytest

from loopkit.engine.events import Worked
from loopkit.engine.records import read_record
from loopkit.values import NOTHING


def test_records_share_one_empty_mapping_which_can_not_be_filled() -> None:
    made = Worked(state="draft", visit=1, outcome="done")
    read = read_record(Worked, '{"state": "draft", "visit": 1, "outcome": "done"}')
    assert made.facts is read.facts is made.restored is NOTHING
    assert made == read == read_record(Worked, made.to_json())
    with pytest.raises(TypeError, match="shared empty mapping"):
        made.facts["valid"] = True
    assert not NOTHING
