"""What is published: its name, what a wheel holds, the hooks of pre-commit and the action."""

from __future__ import annotations

from loopkit.shipped import shipped, shipped_machines
from tests.support import ROOT


def test_the_shipped_files_of_a_clone_are_its_own() -> None:
    machines = shipped_machines()
    assert machines["release_notes"] == ROOT / "machines/release_notes.yaml"
    assert {path.parent for path in machines.values()} == {ROOT / "machines"}
    assert len(machines) >= 10
    assert not any("scenario" in name for name in machines)
    assert (shipped("schemas") / "machine.schema.json").is_file()
