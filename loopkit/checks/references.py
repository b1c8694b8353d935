"""Checks of what a machine names: its own parts, models, plug-ins, and the choices of people.

`unknown-agent`, `unknown-validator`, `unknown-budget`, `unknown-feedback`, `unknown-server`,
`unknown-target`, `unknown-provider`, `unknown-plugin`, `unknown-choice`, `unknown-field`,
`starts-at-end`, `no-effect`, `agent-choice`, `reserved-option`, `wrong-kind`, `outside-judge`,
`duplicate-choice`, `missing-otherwise`, `missing-timeout`, `unanswerable-form`,
`otherwise-revises`, `unknown-model`, `unknown-option`, `bad-address`. The file of a plug-in or a
tool is read, never run, and LiteLLM is not imported, because that takes seconds.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import symtable
import tokenize
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import entry_points
from pathlib import Path

from loopkit.checks.subject import (
    Found,
    Subject,
    in_full,
    of_each,
    of_machine,
    of_rules,
    of_states,
    target_path,
)
from loopkit.document.document import DocPath
from loopkit.document.problems import Severity, closest, did_you_mean
from loopkit.language.agents import (
    is_listed,
    known_providers,
    listed_provider,
    meant_model,
    similar_model,
)
from loopkit.language.agents.model import Fallback, ModelAgent
from loopkit.language.agents.tools import McpTool, PythonTool
from loopkit.language.datatypes.datatype import DataType, near_misses
from loopkit.language.datatypes.notation import field_place, parse_record
from loopkit.language.guard.evaluate import truth
from loopkit.language.machine import Machine
from loopkit.language.section import ID_PATTERN
from loopkit.language.states import FinalState
from loopkit.language.states.each import ChildrenState
from loopkit.language.states.kinds import AgentState, HumanState
from loopkit.language.states.state import AgentChoice, WorkingState
from loopkit.language.template.rendering import check, parse, parse_if_valid
from loopkit.language.validators import PythonRule, rules_of
from loopkit.language.validators.judge import JudgeRule
from loopkit.machine.edges import Edge
from loopkit.machine.graph import word_types
from loopkit.proof.outcomes.analysis import PlacedRule

Named = tuple[str, DocPath, str, Collection[str], str]
"""The kind of a part, the place that names it, its name, the known names, and how to add one."""


@of_machine()
def check_names(subject: Subject) -> Found:
    for kind, path, name, known, add in names_used(subject):
        if name not in known:
            code = {"state": "unknown-target", "MCP server": "unknown-server"}.get(kind)
            what = f"there is no {kind}"
            yield subject.unknown(path, code or f"unknown-{kind}", what, name, known, add)


def names_used(subject: Subject) -> Iterator[Named]:
    """Every name of a part that is declared elsewhere, in each place that uses it."""
    for of in (_parts, _of_revise_edges, _targets):
        yield from of(subject)


def _parts(subject: Subject) -> Iterator[Named]:
    machine = subject.machine
    named: list[tuple[DocPath, str]] = []
    for name, state in machine.states_of(AgentState).items():
        path: DocPath = ("states", name, "agent")
        if isinstance(state.agent, str):
            named.append((path, state.agent))
        else:
            named += (((*path, "of", word), agent) for word, agent in state.agent.of.items())
            named += (((*path, "else"), agent) for agent in [state.agent.else_] if agent)
    rules = subject.rules_of(JudgeRule)
    named += (((*placed.path, "judge"), placed.rule.judge) for placed in rules)
    for path, name in named:
        yield "agent", path, name, machine.agents, "add it to a section `agents:`"
    for path, name in subject.validators_named:
        yield "validator", path, name, machine.validators, "add it to a section `validators:`"
    # The tools of a server are known only at the first call.
    for path, tool in subject.tools_of(McpTool):
        declare = f"declare it: `mcp: {{{tool.server}: {{command: [PROGRAM]}}}}`"
        yield "MCP server", (*path, "mcp"), tool.server, machine.mcp, declare


def _of_revise_edges(subject: Subject) -> Iterator[Named]:
    budgets, known = subject.machine.limits.budgets, subject.machine.feedback
    for edge, written in subject.revise_edges:
        for at, name in written.budgets:
            declare = f"declare it: `limits: {{budgets: {{{name}: 3}}}}`"
            yield "budget", (*edge.path, *at), name, budgets, declare
        if (name := edge.feedback or "") and is_plain_id(name):
            declare = f"add `{name}:` to a section `feedback:`, or write a template here"
            yield "feedback", (*edge.path, "feedback"), name, known, declare


def _targets(subject: Subject) -> Iterator[Named]:
    machine = subject.machine
    named: list[tuple[DocPath, str | None]] = [
        (("initial",), machine.initial),
        (("limits", "then"), machine.limits.then),
        *((target_path(one), one.target) for one in subject.graph.edges if one.event != "limit"),
    ]
    for name, state in machine.states_of(WorkingState).items():
        for index, transition in enumerate(state.transitions or ()):
            path: DocPath = ("states", name, "transitions", index, "resets")
            named += (((*path, at), reset) for at, reset in enumerate(transition.resets))
    yield from (("state", at, name, machine.states, "") for at, name in named if name is not None)


@of_machine()
def check_start(subject: Subject) -> Found:
    machine, is_key = subject.machine, subject.machine.initial is None
    if machine.start in machine.finals:
        path = ("states", machine.start) if is_key else ("initial",)
        message = f"the run would start at its end: `{machine.start}` is a final state"
        remedy = "put the state that works first on top, or name it with `initial:`"
        yield subject.problem(path, "starts-at-end", message, remedy, key=is_key)


@of_machine()
def check_repeated(subject: Subject) -> Found:
    known = set[tuple[DocPath, str]]()
    for at, name in subject.validators_named:
        if (at[:-1], name) in known and name in subject.machine.validators:
            yield subject.no_effect(at, f"`{name}` is already listed")
        known.add((at[:-1], name))


@of_states(FinalState)
def check_best_of(subject: Subject, name: str, final: FinalState) -> Found:
    path: DocPath = ("states", name, "of")
    if final.of is not None and final.of not in subject.judges:
        message = f"`{final.of}` is not a validate state, so it has no reports to compare"
        remedy = did_you_mean(final.of, subject.judges)
        yield subject.problem(path, "unknown-target", message, remedy)
    elif final.of is not None and final.pick != "best":
        message = "`of` is only used with `pick: best`, but the last version is picked"
        yield subject.no_effect(path, message, "add `pick: best`")


def is_plain_id(text: str) -> bool:
    return re.fullmatch(ID_PATTERN, text) is not None


SOURCES = "name a field of the input or of an artifact, such as `input.task.agent`"
ALIKE = {
    "schema_": "some of these agents answer with data, others do not",
    "infeasible": "some of these agents have `infeasible`, others do not",
}
"""What either all agents of one choice have or none, with the message if they differ."""


@of_machine()
def check_agent_choices(subject: Subject) -> Found:
    for name, choice in subject.machine.choices.items():
        path: DocPath = ("states", name, "agent")
        template = parse_if_valid(f"{{{{ {choice.from_} }}}}")
        is_path = template is not None and ".".join(template.whole or ()) == choice.from_
        if not is_path or len(choice.steps) < 2:
            message = f"`{choice.from_}` is not the path of a word"
            yield subject.problem((*path, "from"), "agent-choice", message, SOURCES)
            continue
        faults = list(check(parse(choice.template), subject.entering[name]))
        for fault in faults:
            meant = in_full(fault.help, choice.template[3 : fault.column - 1])
            yield subject.problem((*path, "from"), fault.code, fault.message, meant)
        if not faults:
            yield from _words(subject, path, choice)
        agents = subject.machine.agents_at(name)
        for key, message in ALIKE.items():
            if len({getattr(agent, key) is None for agent in agents}) > 1:
                remedy = "make them alike, or use two states"
                yield subject.problem((*path, "of"), "agent-choice", message, remedy)


def _words(subject: Subject, path: DocPath, choice: AgentChoice) -> Found:
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
    ("system", "system"): 'name it: `stdin: "{{ system }}\\n\\n{{ prompt }}"`, or as an argument',
    ("tools", "agent"): "name them in an argument: `{{ agent.tools | join(',') }}`",
}
"""A key of an agent and the name that templates have for it: how a program receives it."""


@of_machine()
def check_agent_files(subject: Subject) -> Found:
    """The keys that reading the files has ignored, and texts that a program never receives."""
    yield from subject.source.notes
    for name, agent in subject.machine.agents.items():
        templates = [parse_if_valid(text) for _, text in agent.templates]
        for (key, known_as), remedy in WAYS.items():
            is_told = any(one is None or known_as in one.names for one in templates)
            if known_as in agent.own_names and getattr(agent, key) and not is_told:
                message = f"the program never gets this: none of its templates names `{known_as}`"
                yield subject.no_effect(("agents", name, key), message, remedy)


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


of_models = of_each(lambda subject: asked_models(subject.machine), "parts")
"""A rule of every model, those of fallbacks included."""


@of_models
def check_models(subject: Subject, path: DocPath, asked: ModelAgent | Fallback) -> Found:
    for key, *told in wrong_options(asked.params or {}):
        yield subject.problem((*path, "params", key), *told)


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


def asked_models(machine: Machine) -> Iterator[tuple[DocPath, ModelAgent | Fallback]]:
    for name, agent in machine.model_agents.items():
        yield ("agents", name), agent
        for index, fallback in enumerate(agent.fallbacks):
            yield ("agents", name, "fallbacks", index), fallback


_OPTIONS = """
allowed_openai_params api_version audio betas cache_control cached_content caching
context_management data_sources dimensions drop_params enable_thinking extra_body extra_headers
extra_query frequency_penalty guardrails headers include input_cost_per_token keep_alive logit_bias
logprobs max_completion_tokens max_output_tokens max_tokens mcp_servers metadata min_p mirostat
mirostat_eta mirostat_tau modalities num_ctx num_gpu num_predict num_thread organization
output_config output_cost_per_token parallel_tool_calls plugins prediction presence_penalty project
prompt_cache_key prompt_cache_retention provider reasoning reasoning_effort reasoning_summary
repeat_penalty repetition_penalty route safe_prompt safety_identifier safety_settings seed
service_tier speed stop stop_sequences store system_instruction temperature tfs_z thinking
thinking_budget thinking_level top_a top_k top_logprobs top_p transforms truncation typical_p user
verbosity vertex_credentials vertex_location vertex_project web_search_options
"""
OPTIONS = frozenset(_OPTIONS.split())
"""The options that providers take, as they and LiteLLM document them."""
BESIDE = "delete it, or pass it on in `extra_body`"
STRICT = ("openai", "anthropic", "gemini", "mistral", "deepseek", "xai")
"""Providers that refuse, or never see, an option that is none of these."""


@of_models
def check_options(subject: Subject, path: DocPath, asked: ModelAgent | Fallback) -> Found:
    providers = {model.partition("/")[0] for model in asked.model}
    is_strict = asked.base_url is None and providers <= {*STRICT}
    for option in sorted((asked.params or {}).keys() - OPTIONS - RESERVED.keys()):
        plain = re.sub(r"(?<=[a-z])[A-Z]", lambda found: f"_{found[0]}", option)
        near = closest(plain.replace("-", "_").lower(), sorted(OPTIONS), 0.75)
        if near or is_strict:
            message = f"no provider is known to take the option `{option}`"
            remedy = f"did you mean `{near}`?" if near else BESIDE
            yield subject.problem((*path, "params", option), "unknown-option", message, remedy)


USUAL = "write PROVIDER/MODEL, such as openai/gpt-5-mini"


@of_machine()
def check_model_names(subject: Subject) -> Found:
    """A model has a known provider, and its name is not nearly that of another model.

    A newer version of LiteLLM may know more providers; a misspelt one is an error.
    """
    named = subject.machine.models
    unknown = {model for _, model in unknown_models(subject.machine)}
    own = [asked for _, asked in asked_models(subject.machine) if asked.base_url is not None]
    at_own_address = {model for asked in own for model in asked.model}
    for path, model in models_of(subject.machine):
        provider, slash, _ = model.partition("/")
        code, near, remedy = "unknown-provider", "", USUAL
        message = f"`{model}` has no provider"
        if model in unknown:
            message = f"LiteLLM knows no provider `{provider}`" if slash else message
            near = meant_model(model) if slash else closest(model, named) or ""
        elif not slash and (listed := listed_provider(model)):
            remedy = f"write `{listed}/{model}`"
        elif model not in at_own_address and (near := similar_model(model, STRICT)):
            code, message = "unknown-model", f"LiteLLM lists no model `{model}`"
        else:
            continue
        remedy = f"did you mean `{near}`?" if near else remedy
        is_error = slash and near and code == "unknown-provider"
        if not slash and model in named:
            message, remedy = f"`{model}` is a name under `models:` itself", "write the model here"
            is_error = True
        severity: Severity = "error" if is_error else "warning"
        yield subject.problem(path, code, message, remedy, severity=severity)


@of_models
def check_addresses(subject: Subject, path: DocPath, asked: ModelAgent | Fallback) -> Found:
    address = asked.base_url
    if address is None or "$" in address or re.match(r"https?://[^/\s]", address):
        return
    rest = re.sub(r"^\w*:?/+", "", address)
    local = re.match(r"(localhost|\d|[\w-]+:|[\w-]+\.local\b)", rest)
    example = f"{'http' if local else 'https'}://{rest or 'localhost:8000'}"
    message = f"`{address}` is no address: it does not begin with `http://` or `https://`"
    yield subject.problem((*path, "base_url"), "bad-address", message, f"write `{example}`")


def unknown_models(machine: Machine) -> Iterator[tuple[DocPath, str]]:
    """Each model whose provider LiteLLM does not know, with its place."""
    if known_providers():
        for path, model in models_of(machine):
            if model.partition("/")[0] not in known_providers() and not is_listed(model):
                yield path, model


def models_of(machine: Machine) -> Iterator[tuple[DocPath, str]]:
    """Each model with its place, which is under `models:` for those that agents use by name."""
    yield from ((("models", name), model) for name, model in machine.models.items())
    named = set(machine.models.values())
    for path, asked in asked_models(machine):
        rungs = enumerate(asked.model)
        yield from (((*path, "model", i), rung) for i, rung in rungs if rung not in named)


@of_rules(JudgeRule)
def check_outside_agents(subject: Subject, placed: PlacedRule[JudgeRule]) -> Found:
    """No judge is played from outside: whoever delivers work must not judge it."""
    agents, judge = subject.machine.agents, placed.rule.judge
    if judge in agents and not agents[judge].is_called:
        message = f"`{judge}` is played from outside, and such an agent never judges"
        remedy = "name a model or a program, or let a person decide in a `human` state"
        yield subject.problem((*placed.path, "judge"), "outside-judge", message, remedy)


@of_machine()
def check_plugins(subject: Subject) -> Found:
    plugins: list[tuple[DocPath, PythonRule | PythonTool]] = [*subject.tools_of(PythonTool)]
    plugins += ((placed.path, placed.rule) for placed in subject.rules_of(PythonRule))
    for path, named in plugins:
        if told := _flaw_of(named):
            yield subject.problem((*path, "python"), "unknown-plugin", *told)


Flaw = tuple[str, str] | None
"""What is wrong, and what to do."""


def _flaw_of(named: PythonRule | PythonTool) -> Flaw:
    if ":" in named.python:
        return _flaw_of_function(named.python, named.folder)
    from loopkit.plugins import ENTRY_POINTS  # noqa: PLC0415 - few rules name one

    offered = sorted({point.name for point in entry_points(group=ENTRY_POINTS)})
    remedy = "install the package that offers it, or write `module:function`"
    message = f"no installed package offers the plug-in `{named.python}`"
    near = did_you_mean(named.python, offered)
    return None if named.python in offered else (message, near or remedy)


def _flaw_of_function(name: str, folder: str | None) -> Flaw:
    module, _, function = name.partition(":")
    spec = _spec(module, folder)
    if spec is None:
        remedy = "put it beside the machine file, name its `folder:`, or install its package"
        if module.endswith(".py"):
            remedy = f"write `{module.removesuffix('.py')}:{function}`"
        return f"there is no module `{module}`", remedy
    if spec.origin is None or not spec.origin.endswith(".py"):
        return None
    try:
        with tokenize.open(spec.origin) as stream:
            text = stream.read()
        symbols = symtable.symtable(text, Path(spec.origin).name, "exec").get_symbols()
    except (OSError, SyntaxError, ValueError) as error:
        return f"the module `{module}` can't be read: {error}", "correct the module"
    bound = {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}
    # `import *` may bind any.
    if function in bound or "import *" in text or "__getattr__" in bound:
        return None
    near = closest(function, sorted(bound))
    remedy = f"did you mean `{module}:{near}`?" if near else did_you_mean(function, sorted(bound))
    remedy = remedy or "define it, or name another one"
    return f"the module `{module}` has no function `{function}`", remedy


def missing_plug_in(machine: Machine) -> str | None:
    """A plug-in or tool of a machine, or of those that it runs, that is not installed here."""
    rules = (rule for named in machine.validators.values() for rule in rules_of(named))
    tools = (tool for agent in machine.agents.values() for tool in agent.callable_tools.values())
    for one in (*rules, *tools):
        if isinstance(one, PythonRule | PythonTool) and _flaw_of(one):
            return one.python
    children = (state.child for state in machine.states_of(ChildrenState).values())
    return next(filter(None, map(missing_plug_in, children)), None)


def _spec(module: str, folder: str | None) -> ModuleSpec | None:
    """The spec of a module beside the machine file or installed, without importing its package."""
    importlib.invalidate_caches()
    head, *rest = module.split(".")
    spec = PathFinder.find_spec(head, [folder]) if folder is not None else None
    if spec is None:
        with suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(head)
    for step in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = PathFinder.find_spec(step, list(spec.submodule_search_locations))
    return spec


@of_states(HumanState)
def check_questions(subject: Subject, name: str, state: HumanState) -> Found:
    path: DocPath = ("states", name)
    for index, choice in enumerate(state.choices):
        if state.choices.index(choice) < index:
            message = f"the choice `{choice}` is offered twice"
            at = (*path, "choices", index)
            yield subject.problem(at, "duplicate-choice", message, "delete one")
    onward = [choice for choice in state.choices if _revises(subject, name, choice) is None]
    if state.timeout is not None and state.otherwise is None:
        message = "no choice is set for when the timeout ends"
        remedy = f"set the choice that counts then: `otherwise: {(*onward, 'CHOICE')[0]}`"
        yield subject.problem((*path, "timeout"), "missing-otherwise", message, remedy)
    path = (*path, "otherwise")
    if state.otherwise is not None and state.timeout is None:
        message = "without a timeout the question waits forever, so this never applies"
        yield subject.problem(path, "missing-timeout", message, "add `timeout: 24h`")
    if state.otherwise is not None and state.otherwise not in state.choices:
        what = "there is no choice"
        yield subject.unknown(path, "unknown-choice", what, state.otherwise, state.choices)
    elif state.otherwise is not None:
        yield from _absent_answer(subject, path, state, onward)


def _absent_answer(
    subject: Subject, path: DocPath, state: HumanState, onward: Collection[str]
) -> Found:
    fields = parse_record(state.form).fields or {}
    required = next((field for field, known in fields.items() if known.required), None)
    if required is not None:
        message = f"nobody fills in the field `{required}` of the form after the timeout"
        remedy = f"make it optional: `{required}: optional …`, or give it a default"
        yield subject.problem(path, "unanswerable-form", message, remedy)
    back = _revises(subject, str(path[1]), state.otherwise or "")
    if back is not None:
        message = f"`{state.otherwise}` may lead back to `{back.target}`"
        message += " with nobody to give feedback"
        listed = ", ".join(f"`{choice}`" for choice in onward)
        remedy = "name a choice that only leads forward" + (f": {listed}" if listed else "")
        yield subject.problem(path, "otherwise-revises", message, remedy)


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


@of_machine()
def check_names_in_data(subject: Subject) -> Found:
    written = subject.machine.input
    given = list[tuple[DocPath, object, DataType]]()
    for name, known in (parse_record(written).fields or {}).items():
        given.append((("input", *field_place(written, name), "default"), known.default, known))
    for name, state in subject.machine.states_of(ChildrenState).items():
        given.append((("states", name, "input"), state.input, parse_record(state.child.input)))
    for path, value, known in given:
        for steps, meant in near_misses(value, known):
            message, remedy = f"no field is called `{steps[-1]}`", f"did you mean `{meant}`?"
            at = (*path, *steps)
            yield subject.problem(
                at, "unknown-field", message, remedy, severity="warning", key=True
            )
