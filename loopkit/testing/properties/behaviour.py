"""A behaviour: an input, and people and programs who say something in each place of a machine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import Any

from loopkit.document import to_yaml
from loopkit.engine.macrostep import Engine
from loopkit.language.datatypes import conform, parse_record
from loopkit.language.load import Loaded
from loopkit.machine.graph import Graph
from loopkit.machine.program import Program
from loopkit.proof.bounds import Analysis, Bounds, explore
from loopkit.testing.playbill import Playbill
from loopkit.testing.played_parts import PlayedParts
from loopkit.testing.properties.company import Company
from loopkit.testing.properties.cut import Cut
from loopkit.testing.properties.library import strategies as st
from loopkit.testing.properties.lines import MOST_USD, Draw, Lines
from loopkit.testing.properties.playing import Performance, Theatre
from loopkit.testing.properties.resumption import ends_the_same
from loopkit.testing.properties.run_properties import (
    Broken,
    limits_respected,
    never_stuck,
    paid_once,
    within_bounds,
)
from loopkit.testing.properties.values import value_of
from loopkit.testing.suites import Machines

FEW = 5_000
"""Up to so many configurations the bounds are computed for each input by itself."""
CUTS = 3
"""Runs of one behaviour that are cut off and resumed, at most."""


class BrokenProperty(AssertionError):
    """A run of a machine that no run should be; the message has the case that plays it."""


class Stage:
    """A machine with all that its behaviours share."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded

    def __repr__(self) -> str:
        return self.loaded.source.document.file

    def prepare(self) -> None:
        """Make what all share before the first behaviour, whose time is measured."""
        self.theatre  # noqa: B018 - a property that is kept
        self.bounds({})

    @cached_property
    def graph(self) -> Graph:
        return Graph(self.loaded.machine)

    @cached_property
    def program(self) -> Program:
        return Program(self.loaded.machine, self.loaded.digest)

    @cached_property
    def bill(self) -> Playbill:
        return Playbill(self.graph)

    @cached_property
    def theatre(self) -> Theatre:
        return Theatre(self.loaded, self.bill, Engine(self.program))

    @cached_property
    def lines(self) -> Lines:
        return Lines(self.program)

    def bounds(self, inputs: Mapping[str, Any]) -> Bounds:
        """What runs with this input can take; where that takes long to tell, runs with any."""
        known = self._bounds
        return self._explored(inputs) if (known.configurations or FEW + 1) <= FEW else known

    @cached_property
    def _bounds(self) -> Bounds:
        return self._explored({})

    @cached_property
    def _analysis(self) -> Analysis:
        return Analysis.of_machine(self.loaded.machine)

    def _explored(self, inputs: Mapping[str, Any]) -> Bounds:
        return explore(self._analysis, price=lambda *_: MOST_USD, inputs=inputs)


class Behaviour:
    """An input of a machine, and whatever is said in its run, made up as it is asked for."""

    def __init__(self, stage: Stage, inputs: Mapping[str, Any], data: st.DataObject) -> None:
        self._stage = stage
        self._inputs = inputs
        self._draw: Draw = data.draw

    def __repr__(self) -> str:
        return f"<behaviour with the input {dict(self._inputs)}>"

    def holds(self) -> None:
        """Play it, and up to three times more, cut off and resumed; raises BrokenProperty.

        Nothing real is asked, and pauses pass at once.
        """
        stage = self._stage
        company = Company(stage.lines, self._draw, PlayedParts())
        whole = self._played(company, Cut())
        said = deepcopy(company.said)
        self._refuse(self._of_one(whole), said)
        for cut in self._cuts(whole.cut.appends):
            where = f"cut off {cut}, and resumed"
            broken = self._of_resumed(whole, self._played(company.again(), cut))
            self._refuse(((name, f"{where}: {what}") for name, what in broken), said)

    def _cuts(self, appends: int) -> list[Cut]:
        """Where the run is cut off, each time by itself."""
        if not appends:
            return []
        moments = st.sampled_from(["after", "before"])
        places = st.tuples(st.integers(1, appends), moments)
        drawn = self._draw(st.lists(places, min_size=1, max_size=CUTS, unique=True))
        return [Cut(at, moment) for at, moment in drawn]

    def _played(self, company: Company, cut: Cut) -> Performance:
        played: list[Performance] = []

        async def play() -> None:
            # Kept instead of returned: asyncio prints the result of its main task.
            played.append(await self._stage.theatre.play(self._complete, company, cut))

        asyncio.run(play())
        return played[0]

    def _of_one(self, done: Performance) -> Iterator[Broken]:
        yield from never_stuck(done)
        yield from limits_respected(done, self._stage.graph)
        yield from paid_once(done)
        yield from within_bounds(done, self._stage.bounds(self._complete))

    def _of_resumed(self, whole: Performance, cut: Performance) -> Iterator[Broken]:
        yield from never_stuck(cut)
        yield from paid_once(cut)
        if not self._stage.loaded.children:
            # Which child comes first to a limit, or stops the others, may be another each time.
            yield from ends_the_same(whole, cut, self._stage.loaded.machine)

    @cached_property
    def _complete(self) -> dict[str, Any]:
        filled, _ = conform(dict(self._inputs), parse_record(self._stage.loaded.machine.input))
        return filled if isinstance(filled, dict) else {}

    def _refuse(self, broken: Iterator[Broken], said: PlayedParts) -> None:
        for name, what in broken:
            file = self._stage.loaded.source.document.file
            raise BrokenProperty(
                f"{file}: {name}: {what}\n\nThis case plays it; it goes below `cases:`, with what "
                f"has to come of it:\n\n{self._case(said)}"
            )

    def _case(self, said: PlayedParts) -> str:
        given = {"input": dict(self._inputs)} if self._inputs else {}
        case = {**given, **said.written(self._stage.bill)}
        return f"{to_yaml({'made up': case}, 2)}    expect:\n"


def behaviours(machine: str | Path) -> st.SearchStrategy[Behaviour]:
    """Behaviours of the machine in a file, with an input that it takes.

    Raises ProblemsFound where the machine has errors.
    """
    return behaviours_on(Stage(Machines().machine(Path(machine))))


def behaviours_on(stage: Stage) -> st.SearchStrategy[Behaviour]:
    """Behaviours of one machine."""
    stage.prepare()
    return _behaviours(stage)


@st.composite
def _behaviours(draw: st.DrawFn, stage: Stage) -> Behaviour:
    fields = parse_record(stage.loaded.machine.input)
    return Behaviour(stage, draw(value_of(fields, ("some text",))), draw(st.data()))
