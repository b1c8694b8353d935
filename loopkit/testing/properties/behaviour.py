"""A behaviour: an input, and a reply, result or answer at each place of a machine."""

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
from loopkit.testing.properties.resumption import check_same_end
from loopkit.testing.properties.run_properties import (
    Broken,
    check_bounds,
    check_limits,
    check_never_stuck,
    check_paid_once,
)
from loopkit.testing.properties.values import value_of
from loopkit.testing.suites import Machines

FEW = 5_000
"""The most configurations with which bounds are computed for each input by itself."""
CUTS = 3
"""The most runs of one behaviour that are cut off and resumed."""


class BrokenProperty(AssertionError):
    """A run that breaks a property of all runs; the message has the case that plays it."""


class Stage:
    """A machine with what all its behaviours share."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded

    def __repr__(self) -> str:
        return self.loaded.source.document.file

    def prepare(self) -> None:
        """Build what all behaviours share before the first one, whose time is measured."""
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
        """The bounds of runs with this input; of runs with any input, if those take long."""
        known = self._bounds
        return self._explore(inputs) if (known.configurations or FEW + 1) <= FEW else known

    @cached_property
    def _bounds(self) -> Bounds:
        return self._explore({})

    @cached_property
    def _analysis(self) -> Analysis:
        return Analysis.of_machine(self.loaded.machine)

    def _explore(self, inputs: Mapping[str, Any]) -> Bounds:
        return explore(self._analysis, price=lambda *_: MOST_USD, inputs=inputs)


class Behaviour:
    """An input of a machine, and the replies in its run, made up when they are asked for."""

    def __init__(self, stage: Stage, inputs: Mapping[str, Any], data: st.DataObject) -> None:
        self._stage = stage
        self._inputs = inputs
        self._draw: Draw = data.draw

    def __repr__(self) -> str:
        return f"<behaviour with the input {dict(self._inputs)}>"

    def holds(self) -> None:
        """Play it, and up to three times more, cut off and resumed; raises BrokenProperty.

        Nothing real is called, and pauses pass at once.
        """
        stage = self._stage
        company = Company(stage.lines, self._draw, PlayedParts())
        whole = self._play(company, Cut())
        said = deepcopy(company.said)
        self._refuse(self._broken_in(whole), said)
        for cut in self._cuts(whole.cut.appends):
            where = f"cut off {cut}, and resumed"
            broken = self._broken_by_resume(whole, self._play(company.again(), cut))
            self._refuse(((name, f"{where}: {what}") for name, what in broken), said)

    def _cuts(self, appends: int) -> list[Cut]:
        """The places at which the run is cut off, each in a run of its own."""
        if not appends:
            return []
        moments = st.sampled_from(["after", "before"])
        places = st.tuples(st.integers(1, appends), moments)
        drawn = self._draw(st.lists(places, min_size=1, max_size=CUTS, unique=True))
        return [Cut(at, moment) for at, moment in drawn]

    def _play(self, company: Company, cut: Cut) -> Performance:
        played: list[Performance] = []

        async def play() -> None:
            # Kept instead of returned: asyncio prints the result of its main task.
            played.append(await self._stage.theatre.play(self._complete, company, cut))

        asyncio.run(play())
        return played[0]

    def _broken_in(self, done: Performance) -> Iterator[Broken]:
        yield from check_never_stuck(done)
        yield from check_limits(done, self._stage.graph)
        yield from check_paid_once(done)
        yield from check_bounds(done, self._stage.bounds(self._complete))

    def _broken_by_resume(self, whole: Performance, cut: Performance) -> Iterator[Broken]:
        yield from check_never_stuck(cut)
        yield from check_paid_once(cut)
        if not self._stage.loaded.children:
            # Which child reaches a limit first, or stops the others, may differ each time.
            yield from check_same_end(whole, cut, self._stage.loaded.machine)

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
        case = {**given, **said.as_case_parts(self._stage.bill)}
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
