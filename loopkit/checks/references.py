"""Checks of what a machine names: its own parts, models, plug-ins, and the choices of people.

`unknown-agent`, `unknown-validator`, `unknown-budget`, `unknown-feedback`, `unknown-server`,
`unknown-target`, `starts-at-end`: no such part. `no-effect`: a name or a text that adds nothing.
`agent-choice`: a word that can't choose an agent, or agents that differ.
`reserved-option`, `wrong-kind`, `unknown-provider`: options of providers, and models.
`outside-judge`: somebody outside would judge; the author who is judged could be the same.
`unknown-plugin`: a plug-in or a tool that is not installed; its files are read, never run.
`duplicate-choice`, `unknown-choice`, `missing-otherwise`, `missing-timeout`, `unanswerable-form`,
`otherwise-revises`: questions to a person, and the answer that counts after a timeout.
`unknown-field`: data with a name that nearly is one of its record's.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import symtable
import sys
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import entry_points
from pathlib import Path

from loopkit.checks.subject import Subject, target_path
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, Severity, closest, did_you_mean
from loopkit.language.agents import is_listed, known_providers, meant_model
from loopkit.language.agents.agent import AgentBase
from loopkit.language.agents.model import Fallback, ModelAgent
from loopkit.language.agents.tools import McpTool, PythonTool
from loopkit.language.datatypes.datatype import DataType, near_misses
from loopkit.language.datatypes.notation import field_place, parse_record
from loopkit.language.guard.kleene import truth
from loopkit.language.machine import Machine
from loopkit.language.section import ID_PATTERN
from loopkit.language.states.each import ChildrenState
from loopkit.language.states.kinds import AgentState, HumanState
from loopkit.language.states.state import AgentChoice, WorkingState
from loopkit.language.template.rendering import Template, check, parse, parse_if_valid
from loopkit.language.transitions import ErrorEdge, Transition
from loopkit.language.validators import PythonRule, rules_of
from loopkit.language.validators.judge import JudgeRule
from loopkit.machine.edges import Edge
from loopkit.machine.graph import word_types


def check_agents(subject: Subject) -> Iterator[Problem]:
    named: list[tuple[DocPath, str]] = []
    for name, state in subject.machine.states_of(AgentState).items():
        path: DocPath = ("states", name, "agent")
        if isinstance(state.agent, str):
            named.append((path, state.agent))
        else:
            named += (((*path, "of", word), agent) for word, agent in state.agent.of.items())
            named += (((*path, "else"), agent) for agent in [state.agent.else_] if agent)
    rules = subject.rules_of(JudgeRule)
    named += (((*placed.path, "judge"), placed.rule.judge) for placed in rules)
    for path, agent in named:
        if agent not in subject.machine.agents:
            yield _unknown_name(subject, path, "agent", agent, subject.machine.agents)


def check_validators(subject: Subject) -> Iterator[Problem]:
    named: list[tuple[DocPath, str]] = []
    for state, judging in subject.judges.items():
        items = enumerate(judging.by)
        named += ((("states", state, "by", n), item) for n, item in items if isinstance(item, str))
    for agent in subject.machine.agents:
        named += validators_of_tools(subject, agent)
    known: set[tuple[DocPath, str]] = set()
    for at, name in named:
        if name not in subject.machine.validators:
            yield _unknown_name(subject, at, "validator", name, subject.machine.validators)
        elif (at[:-1], name) in known:
            yield subject.no_effect(at, f"`{name}` is already listed")
        known.add((at[:-1], name))


def check_budgets(subject: Subject) -> Iterator[Problem]:
    budgets = subject.machine.limits.budgets
    for edge, written in revise_edges(subject):
        for at, name in written.budgets:
            if name not in budgets:
                declare = f"declare it: `limits: {{budgets: {{{name}: 3}}}}`"
                yield _unknown_name(subject, (*edge.path, *at), "budget", name, budgets, declare)


def check_feedback_names(subject: Subject) -> Iterator[Problem]:
    """A plain id as `feedback:` is a key of the section of that name."""
    known = subject.machine.feedback
    for edge, _ in revise_edges(subject):
        written = edge.feedback
        if written is not None and is_plain_id(written) and written not in known:
            declare = f"add `{written}:` to a section `feedback:`, or write a template here"
            at = (*edge.path, "feedback")
            yield _unknown_name(subject, at, "feedback", written, known, declare)


def check_best_of(subject: Subject) -> Iterator[Problem]:
    for name, final in subject.machine.finals.items():
        path: DocPath = ("states", name, "of")
        if final.of is not None and final.of not in subject.judges:
            message = f"`{final.of}` is not a validate state, so it has no reports to compare"
            remedy = did_you_mean(final.of, subject.judges)
            yield subject.problem(path, "unknown-target", message, remedy)
        elif final.of is not None and final.pick != "best":
            message = "`of` is only used with `pick: best`, but the last version is picked"
            yield subject.no_effect(path, message, "add `pick: best`")


def revise_edges(subject: Subject) -> Iterator[tuple[Edge, Transition | ErrorEdge]]:
    """Every back edge, and as it is written, each once."""
    edges = {edge.path: edge for edge in subject.graph.edges if edge.back}
    for path, edge in edges.items():
        state = subject.states[edge.source]
        written = getattr(state, str(path[2]))
        if edge.event == "done":
            found = written[path[3]]
        else:
            found = getattr(written, str(path[-1]), written)
        if isinstance(found, Transition | ErrorEdge):
            yield edge, found


def validators_of_tools(subject: Subject, agent: str) -> Iterator[tuple[DocPath, str]]:
    declared = subject.machine.agents.get(agent)
    for name, tool in declared.callable_tools.items() if declared is not None else ():
        for index, validator in enumerate(tool.validators):
            yield ("agents", agent, "tools", name, "by", index), validator


def is_plain_id(text: str) -> bool:
    return re.fullmatch(ID_PATTERN, text) is not None


def _unknown_name(
    subject: Subject, path: DocPath, kind: str, name: str, known: Iterable[str], declare: str = ""
) -> Problem:
    remedy = did_you_mean(name, known) or declare or f"add it to a section `{kind}s:`"
    message = f"there is no {kind} `{name}`"
    return subject.problem(path, f"unknown-{kind}", message, remedy)


SOURCES = "name a field of the input or of an artifact, such as `input.task.agent`"
ALIKE = {
    "schema_": "some of these agents answer with data, others do not",
    "infeasible": "some of these agents have `infeasible`, others do not",
}
"""What either all agents of one choice have or none, with the message if they differ."""


def check_agent_choices(subject: Subject) -> Iterator[Problem]:
    for name, choice in subject.machine.choices.items():
        path: DocPath = ("states", name, "agent")
        template = _word(choice)
        if template is None:
            message = f"`{choice.from_}` is not the path of a word"
            yield subject.problem((*path, "from"), "agent-choice", message, SOURCES)
            continue
        faults = list(check(template, subject.entering[name]))
        for fault in faults:
            yield subject.problem((*path, "from"), fault.code, fault.message, fault.help)
        if not faults:
            yield from _words(subject, path, choice)
        agents = subject.machine.agents_at(name)
        for key, message in ALIKE.items():
            if len({getattr(agent, key) is None for agent in agents}) > 1:
                remedy = "make them alike, or use two states"
                yield subject.problem((*path, "of"), "agent-choice", message, remedy)


def _word(choice: AgentChoice) -> Template | None:
    template = parse_if_valid(f"{{{{ {choice.from_} }}}}")
    is_path = template is not None and ".".join(template.whole or ()) == choice.from_
    return parse(choice.template) if is_path and len(choice.steps) > 1 else None


def _words(subject: Subject, path: DocPath, choice: AgentChoice) -> Iterator[Problem]:
    """Whether each possible word has an agent, and each agent has a possible word."""
    for known in word_types(subject.graph, choice):
        if known is None or not (known.scalar or known.fields or known.items):
            continue
        if known.scalar != "str":
            message = f"`{choice.from_}` is not a text"
            remedy = f"give it the type `{'|'.join(choice.of)}`"
            yield subject.problem((*path, "from"), "agent-choice", message, remedy)
        elif known.values:
            missing = [word for word in known.values if word not in choice.of]
            # Words that stand for all agents may be more than come.
            written = subject.source.document.node((*path, "of"))
            is_table = written is not None and isinstance(written.value, Mapping)
            for word in missing if choice.else_ is None else ():
                message = f"`{choice.from_}` may be `{word}`, for which there is no agent"
                remedy = f"add `{word}: AGENT`, or `else: AGENT` for all others"
                yield subject.problem((*path, "of"), "agent-choice", message, remedy)
            for word in choice.of if is_table else ():
                if word not in known.values:
                    message = f"`{choice.from_}` is never `{word}`"
                    remedy = did_you_mean(word, missing) if missing else "delete it"
                    yield subject.no_effect((*path, "of", word), message, remedy)


WAYS = {
    "system": 'name it: `stdin: "{{ system }}\\n\\n{{ prompt }}"`, or as an argument',
    "tools": "name them in an argument: `{{ agent.tools | join(',') }}`",
}


def check_agent_files(subject: Subject) -> Iterator[Problem]:
    """The keys that reading the files has ignored, and texts that a program never receives."""
    yield from subject.source.notes
    for name, agent in subject.machine.agents.items():
        for key, known_as in (("system", "system"), ("tools", "agent")):
            own = agent.own_names
            if known_as in own and getattr(agent, key) and not _tells(agent, known_as):
                message = f"the program never gets this: none of its templates names `{known_as}`"
                yield subject.no_effect(("agents", name, key), message, WAYS[key])


def _tells(agent: AgentBase, name: str) -> bool:
    """Whether a template of the agent has the name, or can't be parsed."""
    templates = (parse_if_valid(text) for _, text in agent.templates)
    return any(one is None or name in one.names for one in templates)


_TRIED = "retries are counted and paid by loopkit: write `retry: {attempts: N}` on the agent"
_WAITED = "write `timeout:` on the agent"
_SAID = "write `system:` on the agent and `prompt:` on the state"
_SHAPED = "write `schema:` on the agent"
_KEPT_OUT = "keys come from the environment: write `api_key_env: NAME` on the agent"
_CALLED = "write `tools:` on the agent; a provider's own tools are not offered"
_ONE = "one call brings one whole answer"
RESERVED = {
    "api_key": _KEPT_OUT,
    "api_base": "write `base_url:` on the agent",
    "base_url": "write it on the agent",
    "messages": _SAID,
    "model": "write it on the agent",
    "fallbacks": "write `fallbacks: [MODEL, …]` on the agent: their tries are counted and paid too",
    "max_retries": _TRIED,
    "num_retries": _TRIED,
    "timeout": _WAITED,
    "request_timeout": _WAITED,
    "response_format": _SHAPED,
    "n": _ONE,
    "stream": _ONE,
    "stream_options": _ONE,
    "mock_response": "play the agent with `--script FILE`",
    "tools": _CALLED,
    "functions": _CALLED,
    "tool_choice": "the model decides what it calls; write `require_tool:` for what it has to call",
    "function_call": _CALLED,
}


def check_models(subject: Subject) -> Iterator[Problem]:
    for path, asked in _asked_models(subject.machine):
        for key, code, message, remedy in wrong_options(asked.params or {}):
            place = (*path, "params", key)
            at_key = key in RESERVED
            yield subject.problem(place, code, message, remedy, key=at_key)


def wrong_options(params: Mapping[str, object]) -> Iterator[tuple[str, str, str, str]]:
    """Each option that can't be passed on: its name, the code, what is wrong, and what to do."""
    for key in params.keys() & RESERVED.keys():
        message = f"`{key}` is not an option that can be passed on"
        yield key, "reserved-option", message, RESERVED[key]
    for key in ("max_tokens", "max_completion_tokens"):
        cap = params.get(key)
        if cap is not None and (isinstance(cap, bool) or not isinstance(cap, int) or cap < 1):
            remedy = f"write a whole number, such as `{key}: 4000`"
            yield key, "wrong-kind", f"`{key}` is not a number of tokens", remedy


def _asked_models(machine: Machine) -> Iterator[tuple[DocPath, ModelAgent | Fallback]]:
    for name, agent in machine.model_agents.items():
        yield ("agents", name), agent
        for index, fallback in enumerate(agent.fallbacks):
            yield ("agents", name, "fallbacks", index), fallback


def check_providers(subject: Subject) -> Iterator[Problem]:
    """LiteLLM knows each provider. A newer version may know more; a misspelt name is an error."""
    for path, model in unknown_models(subject.machine):
        message, remedy, severity = _unknown_model(model, subject.machine.models)
        yield subject.problem(path, "unknown-provider", message, remedy, severity=severity)


def unknown_models(machine: Machine) -> Iterator[tuple[DocPath, str]]:
    """Each model whose provider LiteLLM does not know, with its place."""
    if known_providers():
        for path, model in _models(machine):
            if model.partition("/")[0] not in known_providers() and not is_listed(model):
                yield path, model


def _unknown_model(model: str, names: Collection[str]) -> tuple[str, str, Severity]:
    """Message, remedy and severity for an unknown model; `names` are those under `models:`."""
    provider, slash, _ = model.partition("/")
    usual = "write PROVIDER/MODEL, such as openai/gpt-5-mini"
    if slash:
        meant = meant_model(model)
        remedy = f"did you mean `{meant}`?" if meant else usual
        return f"LiteLLM knows no provider `{provider}`", remedy, "error" if meant else "warning"
    if model in names:
        return f"`{model}` is a name under `models:` itself", "write the model here", "error"
    near = closest(model, names)
    remedy = f"did you mean `{near}`?" if near else usual
    return f"`{model}` has no provider", remedy, "warning"


def _models(machine: Machine) -> Iterator[tuple[DocPath, str]]:
    """Each model with its place, which is under `models:` for those that agents use by name."""
    yield from ((("models", name), model) for name, model in machine.models.items())
    named = set(machine.models.values())
    for path, asked in _asked_models(machine):
        rungs = enumerate(asked.model)
        yield from (((*path, "model", i), rung) for i, rung in rungs if rung not in named)


def check_outside_agents(subject: Subject) -> Iterator[Problem]:
    """No judge is played from outside: whoever delivers work must not judge it."""
    agents = subject.machine.agents
    for placed in subject.rules_of(JudgeRule):
        judge = placed.rule.judge
        if judge in agents and not agents[judge].is_called:
            message = f"`{judge}` is played from outside, and such an agent never judges"
            remedy = "name a model or a program, or let a person decide in a `human` state"
            path = (*placed.path, "judge")
            yield subject.problem(path, "outside-judge", message, remedy)


def check_plugins(subject: Subject) -> Iterator[Problem]:
    """The entry point, or the module and the function, of each `python:` rule; for a tool, the
    module and the function."""
    for placed in subject.rules_of(PythonRule):
        path = (*placed.path, "python")
        if ":" not in placed.rule.python:
            yield from _check_entry_point(subject, path, placed.rule.python)
        else:
            yield from _check_function(subject, path, placed.rule.python, placed.rule.folder)
    for tool_path, tool in subject.tools_of(PythonTool):
        yield from _check_function(subject, (*tool_path, "python"), tool.python, tool.folder)


def _offered() -> list[str]:
    from loopkit.plugins import ENTRY_POINTS  # noqa: PLC0415 - few rules name one

    return sorted({point.name for point in entry_points(group=ENTRY_POINTS)})


def _check_entry_point(subject: Subject, path: DocPath, name: str) -> Iterator[Problem]:
    offered = _offered()
    if name not in offered:
        remedy = did_you_mean(name, offered)
        remedy = remedy or "install the package that offers it, or write `module:function`"
        message = f"no installed package offers the plug-in `{name}`"
        yield subject.problem(path, "unknown-plugin", message, remedy)


def _check_function(
    subject: Subject, path: DocPath, name: str, folder: str | None
) -> Iterator[Problem]:
    module, _, function = name.partition(":")
    spec = _spec(module, folder)
    if spec is None:
        message = f"there is no module `{module}`"
        remedy = "put it beside the machine file, name its `folder:`, or install its package"
        if module.endswith(".py"):
            remedy = f"write `{module.removesuffix('.py')}:{function}`"
        yield subject.problem(path, "unknown-plugin", message, remedy)
    elif spec.origin is not None and spec.origin.endswith(".py"):
        yield from _check_binding(subject, path, Path(spec.origin), name)


def missing_plug_in(machine: Machine) -> str | None:
    """A plug-in or tool of a machine, or of those that it runs, that is not installed here."""
    rules = (rule for named in machine.validators.values() for rule in rules_of(named))
    tools = (tool for agent in machine.agents.values() for tool in agent.callable_tools.values())
    for one in (*rules, *tools):
        if isinstance(one, PythonRule | PythonTool):
            module, colon, _ = one.python.partition(":")
            found = _spec(module, one.folder) if colon else one.python in _offered()
            if not found:
                return one.python
    children = (state.child for state in machine.states_of(ChildrenState).values())
    return next(filter(None, map(missing_plug_in, children)), None)


def _spec(module: str, folder: str | None) -> ModuleSpec | None:
    """The spec of a module beside the machine file or installed, without importing its package."""
    importlib.invalidate_caches()
    head, *rest = module.split(".")
    spec = PathFinder.find_spec(head, [folder]) if folder is not None else None
    if spec is None and head in sys.modules:
        spec = sys.modules[head].__spec__
    elif spec is None:
        with suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(head)
    for step in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = PathFinder.find_spec(step, list(spec.submodule_search_locations))
    return spec


def _check_binding(subject: Subject, path: DocPath, file: Path, name: str) -> Iterator[Problem]:
    """A problem if the text of a module does not bind a name; `import *` may bind any."""
    module, _, function = name.partition(":")
    try:
        with tokenize.open(file) as stream:
            text = stream.read()
        symbols = symtable.symtable(text, file.name, "exec").get_symbols()
    except (OSError, SyntaxError, ValueError) as error:
        message = f"the module `{module}` can't be read: {error}"
        yield subject.problem(path, "unknown-plugin", message, "correct the module")
        return
    bound = {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}
    if function not in bound and "import *" not in text and "__getattr__" not in bound:
        message = f"the module `{module}` has no function `{function}`"
        remedy = did_you_mean(function, sorted(bound)) or "define it, or name another one"
        yield subject.problem(path, "unknown-plugin", message, remedy)


def check_questions(subject: Subject) -> Iterator[Problem]:
    for name, state in subject.machine.states_of(HumanState).items():
        for index, choice in enumerate(state.choices):
            if state.choices.index(choice) < index:
                message = f"the choice `{choice}` is offered twice"
                path = ("states", name, "choices", index)
                yield subject.problem(path, "duplicate-choice", message, "delete one")
        yield from _absence(subject, name, state)


def _absence(subject: Subject, name: str, state: HumanState) -> Iterator[Problem]:
    path: DocPath = ("states", name, "otherwise")
    if state.timeout is not None and state.otherwise is None:
        message = "no choice is set for when the timeout ends"
        choice = next(iter(_forward_choices(subject, name, state)), "CHOICE")
        remedy = f"set the choice that counts then: `otherwise: {choice}`"
        path = ("states", name, "timeout")
        yield subject.problem(path, "missing-otherwise", message, remedy, key=True)
    if state.otherwise is None:
        return
    if state.timeout is None:
        message = "without a timeout the question waits forever, so this never applies"
        remedy = "add `timeout: 24h`"
        yield subject.problem(path, "missing-timeout", message, remedy, key=True)
    if state.otherwise not in state.choices:
        message = f"there is no choice `{state.otherwise}`"
        remedy = did_you_mean(state.otherwise, state.choices)
        yield subject.problem(path, "unknown-choice", message, remedy)
    else:
        yield from _absent_answer(subject, name, state, path)


def _absent_answer(
    subject: Subject, name: str, state: HumanState, path: DocPath
) -> Iterator[Problem]:
    fields = parse_record(state.form).fields or {}
    required = next((field for field, known in fields.items() if known.required), None)
    if required is not None:
        message = f"nobody fills in the field `{required}` of the form after the timeout"
        remedy = f"make it optional: `{required}: optional …`, or give it a default"
        yield subject.problem(path, "unanswerable-form", message, remedy)
    back = _revises(subject, name, state.otherwise or "")
    if back is not None:
        message = (
            f"`{state.otherwise}` may lead back to `{back.target}` with nobody to give feedback"
        )
        choices = _forward_choices(subject, name, state)
        remedy = "name a choice that only leads forward"
        listed = ", ".join(f"`{choice}`" for choice in choices)
        remedy += f": {listed}" if choices else ""
        yield subject.problem(path, "otherwise-revises", message, remedy)


def _forward_choices(subject: Subject, name: str, state: HumanState) -> list[str]:
    return [choice for choice in state.choices if _revises(subject, name, choice) is None]


def _revises(subject: Subject, name: str, choice: str) -> Edge | None:
    """The revise edge to which a choice may lead, whatever else is answered."""
    for edge in subject.graph.on(name, "done"):
        guard = subject.guards.whole(edge.guard) if edge.guard is not None else None
        holds = True if edge.guard is None else guard and truth(guard.tree, {"choice": choice})
        if edge.back and holds is not False:
            return edge
        if holds is True:
            return None
    return None


def check_servers(subject: Subject) -> Iterator[Problem]:
    """The servers of tools. Their tools are known only at the first call."""
    servers = subject.machine.mcp
    for path, tool in subject.tools_of(McpTool):
        if tool.server not in servers:
            remedy = did_you_mean(tool.server, servers)
            remedy = remedy or f"declare it: `mcp: {{{tool.server}: {{command: [PROGRAM]}}}}`"
            message = f"there is no MCP server `{tool.server}`"
            yield subject.problem((*path, "mcp"), "unknown-server", message, remedy)


def check_targets(subject: Subject) -> Iterator[Problem]:
    for name, path in _target_names(subject):
        if name not in subject.states:
            remedy = did_you_mean(name, subject.states)
            message = f"there is no state `{name}`"
            yield subject.problem(path, "unknown-target", message, remedy)
    machine, is_key = subject.machine, subject.machine.initial is None
    if machine.start in machine.finals:
        path = ("states", machine.start) if is_key else ("initial",)
        message = f"the run would start at its end: `{machine.start}` is a final state"
        remedy = "put the state that works first on top, or name it with `initial:`"
        yield subject.problem(path, "starts-at-end", message, remedy, key=is_key)


def _target_names(subject: Subject) -> Iterator[tuple[str, DocPath]]:
    machine = subject.machine
    if machine.initial is not None:
        yield machine.initial, ("initial",)
    if machine.limits.then is not None:
        yield machine.limits.then, ("limits", "then")
    for edge in subject.graph.edges:
        if edge.event != "limit":
            yield edge.target, target_path(edge)
    for name, state in machine.states_of(WorkingState).items():
        for index, transition in enumerate(state.transitions or ()):
            for at, reset in enumerate(transition.resets):
                yield reset, ("states", name, "transitions", index, "resets", at)


def check_names_in_data(subject: Subject) -> Iterator[Problem]:
    written = subject.machine.input
    given = list[tuple[DocPath, object, DataType]]()
    for name, known in (parse_record(written).fields or {}).items():
        given.append((("input", *field_place(written, name), "default"), known.default, known))
    for name, state in subject.machine.states_of(ChildrenState).items():
        given.append((("states", name, "input"), state.input, parse_record(state.child.input)))
    for path, value, known in given:
        for steps, meant in near_misses(value, known):
            message = f"no field is called `{steps[-1]}`"
            remedy = f"did you mean `{meant}`?"
            yield subject.warning((*path, *steps), "unknown-field", message, remedy, key=True)
