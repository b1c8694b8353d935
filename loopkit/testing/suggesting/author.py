"""What an author answers, so that those who judge it later find what they should."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from loopkit.engine.ledger import normalised
from loopkit.engine.state import RunState
from loopkit.language import AgentState, JudgeRule, Rule, ValidateState
from loopkit.language.datatypes import DataType, facts_of, parse_fields
from loopkit.language.json_schema import fits
from loopkit.machine.graph import artifact_of
from loopkit.machine.program import Program
from loopkit.proof.outcomes import OTHER_TEXT, Row
from loopkit.testing.suggesting.judged import Bench, version
from loopkit.testing.suggesting.texts import Texts, named_in
from loopkit.testing.suggesting.values import Hints, values
from loopkit.testing.suggesting.wants import Want
from loopkit.text.json_text import NoJson, parse_json

MOST_TRIED = 150
"""How many answers are looked at for one attempt."""


class NoWords(Exception):
    """No answer was found with which a run goes the wanted way; the message says what for."""

    def __init__(self, message: str, wants: Sequence[Want]) -> None:
        super().__init__(message)
        self.wants = wants
        """The reports, or the work itself, for which it was looked for."""


@dataclass(frozen=True)
class Writing:
    """One attempt of an author on a way."""

    program: Program
    run: RunState
    state: str
    """The author."""
    own: Sequence[Want]
    """What its own work should come to; nothing where no guard of its reads that."""
    ahead: Sequence[Want]
    """The reports on what it writes, before it is written anew."""
    known: Sequence[str]
    """Answers that a person wrote for it."""
    before: Sequence[str]
    """Its versions on this way, as `normalised` has them."""
    becomes: Callable[[Any], Any] = field(default=lambda answer: answer)
    """What the artifact is for an answer, where that is not the answer itself."""

    @property
    def is_faulty(self) -> bool:
        """Whether the answer should be none that anybody can judge; raises NoWords."""
        faulty = [want.by == "artifact" for want in self.ahead]
        if any(faulty) and not all(faulty):
            raise NoWords(f"no answer of `{self.state}` is faulty for one report alone", self.ahead)
        return any(faulty)

    def answer(self) -> Any:
        """A text, or data where the agent has a schema; raises NoWords."""
        fitting = islice(self._fitting(), MOST_TRIED)
        spare: Any = None
        for answer, is_new in fitting:
            if is_new is not self._wants_old:
                return answer
            spare = answer if spare is None else spare
        if spare is None or self._wants_old:
            message = f"no answer of `{self.state}` was found {self._purpose}"
            raise NoWords(message, self.ahead or self.own)
        return spare

    @property
    def datatype(self) -> DataType | None:
        """The type of its answers, where they are data."""
        state = self.program.machine.states[self.state]
        if not isinstance(state, AgentState):
            return None
        schema = self.program.machine.agents[state.agent].schema_
        return parse_fields(schema) if schema else None

    @property
    def _wants_old(self) -> bool:
        return any(want.is_stalled for want in self.ahead)

    @property
    def _purpose(self) -> str:
        told = [f"in which `{want.step.source}` finds {_told(want)}" for want in self.ahead]
        return " and ".join(told) or f"with {self._row}"

    def _fitting(self) -> Iterator[tuple[Any, bool]]:
        """Answers with which all reports can be as wanted, and whether each is a new version."""
        bench = Bench(self.program, self.run)
        for answer in islice(self._candidates(), MOST_TRIED):
            made = version(self.program, self.run, self.state, self.becomes(answer))
            if all(bench.finds(want, made) for want in self.ahead):
                yield answer, normalised(made) not in self.before

    def _candidates(self) -> Iterator[Any]:
        datatype = self.datatype
        if datatype is None:
            yield from self._texts()
            return
        words, numbers = named_in(self._rules)
        hints = Hints(str(self._number), words, numbers)
        fixed = {name: value for name, value in self._fixed.items() if value != OTHER_TEXT}
        again = self.before if self._wants_old else ()
        data = [parse_json(text) for text in (*again, *self.known)]
        found = [one for one in data if not isinstance(one, NoJson)]
        usable = (one for one in found if fits(one, datatype.schema))
        for value in chain(usable, values(datatype, hints, fixed)):
            if self._has_facts(value):
                yield value

    def _texts(self) -> Iterator[str]:
        texts = Texts(self._rules, self.program.machine.patterns, self._number)
        if self._wants_old:
            yield from self.before
        yield from self.known
        yield from texts.made()

    @property
    def _row(self) -> Row:
        return {name: value for want in self.own for name, value in want.row.items()}

    @property
    def _number(self) -> int:
        return self.run.attempts.get(self.state, 0) + 1

    @property
    def _fixed(self) -> dict[str, object]:
        """The facts that are wanted, with the author's word on whether it can be done."""
        state = self.program.machine.states[self.state]
        declares = isinstance(state, AgentState) and self.program.machine.agents[state.agent]
        flag = declares.infeasible if declares else None
        gives_up = any(want.by == "author" for want in self.ahead)
        return {**({flag: gives_up} if flag else {}), **self._row}

    def _has_facts(self, value: object) -> bool:
        datatype = self.datatype
        facts = facts_of(value, datatype) if datatype is not None else {}
        wanted = self._fixed.items()
        return all(facts.get(name) == fact for name, fact in wanted if fact != OTHER_TEXT)

    @property
    def _rules(self) -> list[Rule]:
        """The rules of all who judge it, without judges."""
        machine, found = self.program.machine, list[Rule]()
        written = artifact_of(machine, self.state)
        names = {want.step.source for want in self.ahead}
        for name, state in machine.states.items():
            if isinstance(state, ValidateState) and state.validate_ == written and name in names:
                for rules in self.program.validators_of(state).values():
                    found += [rule for rule in rules if not isinstance(rule, JudgeRule)]
        return found


def _told(want: Want) -> str:
    if want.is_stalled:
        return "no progress"
    return f"the verdict `{want.verdict}`" if want.verdict else "what is wanted"


def as_reply(answer: Any) -> dict[str, Any]:
    """The call with which an agent gives an answer."""
    return {"reply": answer} if isinstance(answer, str) else {"data": answer}


def shown_text(answer: Any) -> str:
    """An answer as the text that a file or an output has."""
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
