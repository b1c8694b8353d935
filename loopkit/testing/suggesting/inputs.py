"""The input of a suggested case: what the file says, what guards need, texts that rules judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from loopkit.engine.state import RunState
from loopkit.language import RenderState, ValidateState
from loopkit.language.datatypes import DataType, conform, parse_record
from loopkit.language.template import TemplateError
from loopkit.machine.graph import artifact_of
from loopkit.machine.program import Program
from loopkit.proof.outcomes import OTHER_TEXT
from loopkit.testing.suggesting.author import NoWords, Writing
from loopkit.testing.suggesting.pool import Pool
from loopkit.testing.suggesting.values import Hints, smallest
from loopkit.testing.suggesting.wants import Want


@dataclass(frozen=True)
class Inputs:
    """The inputs of a machine, as far as a file with cases gives them."""

    program: Program
    shared: Mapping[str, Any]
    """What all cases of the file share."""
    pool: Pool

    @cached_property
    def usual(self) -> dict[str, Any]:
        """A complete input: what is shared, else the default, else a small value."""
        given = dict(self.shared)
        for name, field in self._fields.items():
            if field.required and name not in given:
                given[name] = self._plain(name, field)
        filled, _ = conform(given, self._datatype)
        return filled if isinstance(filled, dict) else given

    def of(self, facts: Mapping[str, object], wants: Sequence[Want]) -> dict[str, Any]:
        """The input of a way: the usual one but for `facts`, by dotted name, and what it judges.

        Raises NoWords where no text was found for an input that is judged.
        """
        made = deepcopy(self.usual)
        for dotted, value in facts.items():
            self._set(made, dotted.split(".")[1:], value)
        for number, want in enumerate(wants):
            if isinstance(self.program.machine.states[want.step.source], RenderState):
                self._judge(made, want.step.source, wants[number + 1 :])
                break
        return made

    def written(self, made: Mapping[str, Any]) -> dict[str, Any]:
        """What of an input a case has to say itself."""
        before, _ = conform(dict(self.shared), self._datatype)
        known = before if isinstance(before, dict) else {}
        return {n: v for n, v in made.items() if n not in known or known[n] != v}

    # -- values ----------------------------------------------------------------------------

    @cached_property
    def _datatype(self) -> DataType:
        return parse_record(self.program.machine.input)

    @property
    def _fields(self) -> Mapping[str, DataType]:
        return self._datatype.fields or {}

    def _plain(self, name: str, field: DataType) -> Any:
        known = self.pool.inputs.get(name)
        if known:
            return known[0]
        if field.scalar == "str" and not field.values:
            return f"Suggested {name.replace('_', ' ')}."
        return smallest(field, Hints("1"))

    def _set(self, record: dict[str, Any], steps: list[str], value: object) -> None:
        """Put a value that a guard tells apart in; any other text stands for itself."""
        *outer, last = steps
        datatype: DataType | None = self._datatype
        for step in outer:
            datatype = datatype and datatype.field(step)
            if not isinstance(record.get(step), dict):
                if value is None:
                    # What is in something that is not there is none already.
                    return
                made = smallest(datatype, Hints("1"), {last: value}) if datatype else None
                record[step] = made if isinstance(made, dict) else {}
            record = record[step]
        known = datatype and datatype.field(last)
        if value is None and known and known.is_left_out:
            record.pop(last, None)
        elif value != OTHER_TEXT:
            record[last] = value
        elif not isinstance(record.get(last), str):
            record[last] = f"Suggested {last.replace('_', ' ')}."

    # -- texts that are judged -------------------------------------------------------------

    def _judge(self, made: dict[str, Any], name: str, behind: Sequence[Want]) -> None:
        """Choose the texts that a render state hands on, so that reports on them are as wanted."""
        artifact = artifact_of(self.program.machine, name)
        ahead = list(self._reports(artifact, behind))
        texts = [n for n, value in made.items() if isinstance(value, str) and self._reads(name, n)]
        if not ahead or not texts:
            return
        [chosen, *_] = texts
        known = [text for text in self.pool.inputs.get(chosen, ()) if isinstance(text, str)]
        first = [made[chosen], *known]
        run = RunState(input=made, state=name)
        rendered = self._rendering(name, chosen, made, ahead)
        writing = Writing(self.program, run, name, (), ahead, first, (), rendered)
        made[chosen] = writing.answer()

    def _reports(self, artifact: str | None, behind: Sequence[Want]) -> Iterator[Want]:
        for want in behind:
            source = want.step.source
            if artifact_of(self.program.machine, source) == artifact:
                return
            state = self.program.machine.states[source]
            if isinstance(state, ValidateState) and state.validate_ == artifact:
                yield want

    def _reads(self, name: str, chosen: str) -> bool:
        state = self.program.machine.states[name]
        return isinstance(state, RenderState) and f"input.{chosen}" in state.render

    def _rendering(
        self, name: str, chosen: str, made: Mapping[str, Any], ahead: Sequence[Want]
    ) -> Callable[[str], str]:
        """What the state makes of a value of the input."""
        state = self.program.machine.states[name]
        assert isinstance(state, RenderState)
        template = self.program.template(state.render)

        def rendered(text: str) -> str:
            names = {"input": {**made, chosen: text}, "feedback": "", "previous": "", "attempt": 1}
            try:
                return template.render({n: v for n, v in names.items() if n in template.names})
            except TemplateError as error:
                message = f"`{name}` can't be filled in beforehand: {error}"
                raise NoWords(message, ahead) from error

        return rendered
