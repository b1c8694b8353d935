"""Fixtures that many tests share."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from loopkit.agents.model.client import ready
from tests.support import Desk

# The same examples each time: what fails here fails for everybody. `--hypothesis-seed=random`
# and a higher `max_examples` look for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# The many processes that tests start need not compile loopkit anew each time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(scope="session", autouse=True)
def no_other_state_folder() -> Iterator[None]:
    """Runs of tests lie where the test says, not where somebody keeps runs of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("LOOPKIT_STATE", raising=False)
        yield


@pytest.fixture(scope="session")
def litellm() -> Any:
    """LiteLLM, imported as loopkit imports it."""
    return asyncio.run(ready())


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A folder to play machines in, over a journal in memory."""
    return Desk(tmp_path)


@pytest.fixture
def durable(tmp_path: Path) -> Desk:
    """A folder to play machines in, over a journal on disk."""
    return Desk(tmp_path, in_memory=False)
