"""Diagrams as a browser draws them, with its own fonts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loopkit.cli import invoke as run
from tests.support import MACHINES
from tests.support_browser import Browser

TOO_WIDE = """
() => [...document.querySelectorAll("g.state")].flatMap(state => {
    const box = state.querySelector(":scope > rect").getBoundingClientRect()
    return [...state.querySelectorAll(":scope > text")]
        .filter(text => {
            const shown = text.getBoundingClientRect()
            return shown.left < box.left || shown.right > box.right
                || shown.top < box.top || shown.bottom > box.bottom
        })
        .map(text => text.textContent)
})
"""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("pictures")
    written = [folder / f"{path.stem}.svg" for path in MACHINES]
    for machine, picture in zip(MACHINES, written, strict=True):
        assert run(["diagram", str(machine), "-f", "svg", "-o", str(picture)]) == 0
    return written


def test_what_a_state_says_stays_inside_of_its_box(browser: Browser, pictures: list[Path]) -> None:
    async def outside(page: Any) -> dict[str, list[str]]:
        found = {}
        for picture in pictures:
            await page.goto(picture.as_uri())
            assert await page.locator("g.state > text").count() > 0
            found[picture.stem] = await page.evaluate(TOO_WIDE)
        return {name: texts for name, texts in found.items() if texts}

    assert browser.run(outside) == {}
