"""Parts of a suggested case: faults, exit codes and choices exact, texts as `todo`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from loopkit.language import (
    AgentChoice,
    AgentState,
    AuthorState,
    CommandState,
    HumanState,
    RenderState,
    ValidateState,
    rules_of,
)
from loopkit.language.datatypes import describe_type, parse_record
from loopkit.language.states.children import ChildrenState
from loopkit.machine.graph import Graph, artifact_of
from loopkit.machine.program import Program, flat_facts
from loopkit.proof.outcomes import OTHER_TEXT, Row
from loopkit.scenario import ANY, SUSPENDED
from loopkit.testing.playbill import Playbill
from loopkit.testing.played_parts import Call, PlayedParts
from loopkit.testing.suggesting.causes import plainest
from loopkit.testing.suggesting.inputs import Inputs
from loopkit.testing.suggesting.keeping import changes_needed, stays
from loopkit.testing.suggesting.panels import AGENT_FAULTS, COMMAND_FAULTS, Panel, baselines
from loopkit.testing.suggesting.ways import Step, Way
from loopkit.testing.suggesting.wording import (
    facts_in_words,
    guard_in_words,
    rules_in_words,
    schema_in_words,
    todo,
)


def first_word(choice: AgentChoice) -> str:
    return next(iter(choice.of))


class Parts:
    """The parts of a case that takes one way, step by step."""

    def __init__(self, inputs: Inputs, way: Way) -> None:
        """Raises NoCause where no case can take this way."""
        self._inputs, self._way = inputs, way
        self._program: Program = inputs.program
        self._visits: Counter[str] = Counter()
        self._played = PlayedParts()
        self._asked: Counter[tuple[str, str]] = Counter()
        self._judged: dict[str, list[str]] = {}
        self._limits: dict[str, Any] = {}
        for place, result in baselines(self._program):
            self._add_result(place, 0, result)
        self._panels = dict(self._judging_steps())
        self._causes = [
            self._panels[index].cause if index in self._panels else plainest(step)
            for index, step in enumerate(way.steps)
        ]
        for index, step in enumerate(way.steps):
            self._visits[step.source] += 1
            self._write(index, step)

    def case(self) -> dict[str, Any]:
        """The case as a file has it; it expects the path of the way."""
        last = self._way.steps[-1].move if self._way.steps else None
        is_end = last is None or last.edge is not None
        ended = {} if is_end or last is None else {"outcome": SUSPENDED, "reason": last.event}
        parts = {
            "input": self._inputs.case_input({**self._way.inputs, **self._words}, self._judged),
            "limits": self._limits,
            **self._played.as_case_parts(Playbill(self._program.graph)),
        }
        kept = {key: value for key, value in parts.items() if value}
        return {**kept, "expect": {**ended, "path": self._way.path}}

    # -- what has to come of it ------------------------------------------------------------

    def _judging_steps(self) -> Iterator[tuple[int, Panel]]:
        """The steps that judge, each with its panel."""
        machine, visits = self._program.machine, Counter[str]()
        writers: dict[str, str] = {}
        inputs = self._inputs.of(self._way.inputs)
        for index, step in enumerate(self._way.steps):
            visits[step.source] += 1
            judged = machine.states[step.source].judges
            if (artifact := artifact_of(machine, step.source)) is not None:
                writers[artifact] = step.source
            if judged is not None:
                facts = self._program.rule_facts(inputs, visits[writers[judged]])
                yield index, Panel(self._program, step, visits[step.source], facts)

    def _input_text(self, state: RenderState) -> str | None:
        """The first text of the input that a template uses."""
        fields = self._program.input_type.fields or {}
        texts = (name for name, field in fields.items() if field.scalar == "str")
        return next((name for name in texts if f"input.{name}" in state.render), None)

    def _reports_ahead(self, index: int) -> Iterator[Panel]:
        """The reports on what a step writes, until it is rewritten."""
        machine = self._program.machine
        artifact = artifact_of(machine, self._way.steps[index].source)
        for later, step in enumerate(self._way.steps[index + 1 :], index + 1):
            if artifact_of(machine, step.source) == artifact:
                return
            if later in self._panels and self._panels[later].artifact == artifact:
                yield self._panels[later]

    # -- the steps -------------------------------------------------------------------------

    def _write(self, index: int, step: Step) -> None:
        name, cause = step.source, self._causes[index]
        match self._program.machine.states[name]:
            case AgentState() if stays(self._program, self._way, index):
                pass
            case AgentState() as state:
                asked = self._agent_for(name, state)
                self._add_reply(asked, name, self._of_agent(index, step, state, asked))
            case CommandState() as state:
                self._of_command(index, step, state)
            case HumanState() as state:
                answers = self._played.answers.setdefault(name, [])
                answers.append(self._answer(step, state, cause.row))
            case RenderState() as state:
                self._of_template(index, state)
            case ValidateState():
                panel = self._panels[index]
                for place, result in panel.results():
                    run = self._visits[name] - 1 + panel.has_baseline(place)
                    self._add_result(place, run, result)
                for agent, place, calls in panel.replies(self._refuse_call):
                    self._add_reply(agent, place, calls)
            case ChildrenState() as state:
                self._of_children(step, state, cause.row)
            case _:
                pass

    def _of_children(self, step: Step, state: ChildrenState, row: Row) -> None:
        """Add one part for all children; a person separates those that need another."""
        if step.move.event != "done":
            # The state is not stopped by a child, but by the list or a limit.
            return
        bill, said = Playbill(Graph(state.child)), PlayedParts()
        visit = self._visits[step.source]
        edge = self._program.graph.by_id[step.edge] if step.edge else None
        requirements = [guard_in_words(edge)] if edge and edge.guard else _failing(row)
        if bill.children:
            requirements.append("children inside of children have `children:` of their own")
        for agent in state.child.agents:
            head = f"Put `reply:` here: attempt 1 of `{agent}` in the children of `{step.source}`"
            said.replies[agent, next(iter(bill.places(agent)), ""), 0] = [todo(head, requirements)]
        for asking in () if said.replies else bill.askers:
            head = f"Put `choice:` here: what `{asking}` hears in the children of `{step.source}`"
            said.answers[asking] = [todo(head, requirements)]
        key = ANY if state.has_keys else ""
        self._played.children[step.source, key, visit] = said

    def _of_agent(self, index: int, step: Step, state: AgentState, asked: str) -> list[Call]:
        event = step.move.event
        if event == "limit":
            return [self._refuse_call()]
        if event == "transient":
            tries = self._program.machine.agents[asked].most_tries
            return [AGENT_FAULTS[event]] * tries
        is_faulty = any(self._needs_fault(panel, asked) for panel in self._reports_ahead(index))
        if event == "content" or is_faulty:
            output = state.output_at(step.source)
            place = output.file or output.folder
            return [
                AGENT_FAULTS["content"] if place is None else {"reply": f"Nothing is in {place}."}
            ]
        if event != "done":
            return [AGENT_FAULTS[event]]
        schema = self._program.machine.agents[asked].schema_
        head = self._head(step, state, "reply" if schema is None else "data")
        return [*self._validation_calls(asked), todo(head, self._requirements(index, schema))]

    def _validation_calls(self, asked: str) -> Iterator[Call]:
        """The call by which a model has its answer validated before it gives it."""
        agent = self._program.machine.agents[asked]
        if agent.required_tool is not None and 0 not in agent.without_tools:
            head = "Put `tool_calls:` here: a call of"
            text = f"{head} `{agent.required_tool}`, whose `draft` is the answer that follows"
            yield todo(text, ())

    def _needs_fault(self, panel: Panel, asked: str) -> bool:
        """Whether a report fails only where there is no artifact.

        An author that has to validate by a tool never breaks a rule of that tool.
        """
        agent, machine = self._program.machine.agents[asked], self._program.machine
        tool = agent.callable_tools.get(agent.required_tool or "")
        named = [machine.validators[name] for name in tool.validators] if tool else []
        kept = [rule for one in named for rule in rules_of(one)]
        is_kept = all(rule in kept for rule in panel.broken)
        return panel.cause.by == "artifact" or (bool(panel.broken) and is_kept)

    def _agent_for(self, name: str, state: AgentState) -> str:
        """The agent that is asked."""
        if state.choice is None:
            return state.asks[0]
        return state.choice.of[self._words.get(state.choice.from_) or first_word(state.choice)]

    @cached_property
    def _words(self) -> dict[str, str]:
        """The inputs that choose agents, by dotted name."""
        known = flat_facts({"input": self._inputs.of(self._way.inputs)})
        words: dict[str, str] = {}
        for choice in self._program.machine.choices.values():
            if choice.is_of_input:
                word = known.get(choice.from_)
                is_one = isinstance(word, str) and word in choice.of
                words.setdefault(choice.from_, str(word) if is_one else first_word(choice))
        return words

    def _of_command(self, index: int, step: Step, state: CommandState) -> None:
        event = step.move.event
        if event == "limit":
            self._limits = {"time": "0s"}
            return
        code = self._causes[index].row.get("exit_code", 0)
        ended = {"exit_code": code} if code else {}
        is_faulty = any(panel.cause.by == "artifact" for panel in self._reports_ahead(index))
        if event in COMMAND_FAULTS:
            ended = COMMAND_FAULTS[event]
        elif event == "done" and not is_faulty:
            requirements = list(self._requirements(index, None))
            if requirements or state.output_at(step.source).is_left:
                ended = todo(self._head(step, state, "stdout"), requirements, **ended)
        self._add_result(step.source, len(self._played.results.get(step.source, ())), ended)

    def _of_template(self, index: int, state: RenderState) -> None:
        name = self._input_text(state)
        is_by_text = [panel.cause.by == "text" for panel in self._reports_ahead(index)]
        is_open = self._inputs.of(self._way.inputs).get(name or "") == OTHER_TEXT
        if name is not None and (any(is_by_text) or (is_by_text and is_open)):
            self._judged.setdefault(name, []).extend(self._requirements(index, None))

    def _add_result(self, place: str, index: int, result: Call) -> None:
        self._played.results.setdefault(place, {})[index] = result

    def _add_reply(self, agent: str, place: str, calls: list[Call]) -> None:
        self._played.replies[agent, place, self._asked[agent, place]] = calls
        self._asked[agent, place] += 1

    def _refuse_call(self) -> Call:
        """A call that exceeds one of the limits; sets the limit of the case if there is none."""
        limits = self._program.limits
        for name in ("cost_usd", "tokens"):
            if limits.get(name) is not None:
                return {"reserved": {name: limits[name] + 1}}
        made = [call for calls in self._played.replies.values() for call in calls]
        self._limits = {"agent_calls": sum("reserved" not in call for call in made)}
        return {"reserved": {}}

    # -- words -----------------------------------------------------------------------------

    def _head(self, step: Step, state: AuthorState, key: str) -> str:
        output = state.output_at(step.source)
        where = f"`{key}:`"
        if output.may_be_missing and output.file is not None:
            where = f"`files:` with `{output.file}`"
        elif output.may_be_missing:
            where = f"`files:` below `{output.folder}`"
        return f"Put {where} here: attempt {self._visits[step.source]} of `{step.source}`"

    def _requirements(self, index: int, schema: Mapping[str, Any] | None) -> Iterator[str]:
        """The requirements on the text that a step writes."""
        step, ahead = self._way.steps[index], list(self._reports_ahead(index))
        own = {n: v for n, v in self._causes[index].row.items() if n != "exit_code"}
        yield from schema_in_words(schema)
        yield from facts_in_words(own)
        if own and step.move.edge is not None and step.move.edge.guard is not None:
            yield guard_in_words(step.move.edge)
        artifact = artifact_of(self._program.machine, step.source)
        choices = self._program.machine.choices.values()
        for choice in (one for one in choices if one.steps[0] == artifact):
            yield f"`{'.'.join(choice.steps[1:])}` is {first_word(choice)}"
        agents = self._program.machine.agents_at(step.source)
        flag = agents[0].infeasible if agents else None
        if flag is not None and schema is not None:
            yield f"`{flag}` is {str(any(panel.cause.by == 'author' for panel in ahead)).lower()}"
        yield from changes_needed(self._program, self._way, index)
        for panel in ahead:
            yield from self._for_report(panel)
        if self._visits[step.source] > 1 and ahead:
            is_same = any(panel.cause.is_stalled for panel in ahead)
            yield f"{'the same' if is_same else 'not the same'} as in the attempt before"

    def _for_report(self, panel: Panel) -> Iterator[str]:
        """The requirements of a report on the text that it judges, rule by rule."""
        patterns, cause = self._program.machine.patterns, panel.cause
        if cause.by == "text":
            verdict = f"`{panel.name}` has the verdict {cause.verdict}"
            head = f"break one of these, so that {verdict}"
            yield from rules_in_words(head, panel.broken, patterns)
            yield from panel.facts
        yield from rules_in_words(f"keep these rules of `{panel.name}`", panel.kept, patterns)

    def _answer(self, step: Step, state: HumanState, row: Row) -> Call:
        choice = str(row.get("choice", state.choices[0]))
        fields = parse_record(state.form).fields or {}
        form = {n: v for n, v in row.items() if n in fields and v != OTHER_TEXT and v is not None}
        open_ones = [n for n, field in fields.items() if (n not in form and n in row) or
                     (field.required and n not in form)]  # fmt: skip
        lines = [f"`form:` with `{n}`: {describe_type(fields[n])}" for n in open_ones]
        if step.move.edge is not None and self._takes_comment(step):
            lines.append("`comment:`, which the feedback passes on")
        said = {"choice": choice, **({"form": form} if form else {})}
        return todo("Add to it", lines, **said) if lines else said

    def _takes_comment(self, step: Step) -> bool:
        edge = step.move.edge
        template = edge and self._program.template(self._program.feedback_of(edge))
        return bool(edge and edge.back and template and "comment" in template.names)


def _failing(row: Row) -> list[str]:
    """What guards read of children, without the number of items."""
    return list(facts_in_words({n: row[n] for n in ("outcome", "deadlocked") if n in row})) + (
        ["at least one item fails"] if row.get("failed") else []
    )
