"""Fixtures that many tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A folder to play machines in, over a journal in memory."""
    return Desk(tmp_path)


@pytest.fixture
def durable(tmp_path: Path) -> Desk:
    """A folder to play machines in, over a journal on disk."""
    return Desk(tmp_path, in_memory=False)
