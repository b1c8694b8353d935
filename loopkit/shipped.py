"""The machines and schemas that come with the package, as files."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path


def shipped(name: str) -> Path:
    """The folder `machines` or `schemas`: in the package, or in a clone that is used as it is."""
    inside = Path(str(files("loopkit") / name))
    return inside if inside.is_dir() else inside.parents[1] / name


def shipped_machines() -> Mapping[str, Path]:
    """Each machine's file by its name, in the order of names.

    A machine's scenario is beside it, and what it reads in a folder of its name.
    """
    paths = sorted(shipped("machines").glob("*.yaml"))
    return {path.stem: path for path in paths if ".scenario" not in path.suffixes}
