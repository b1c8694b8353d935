"""`reserved-option`, `wrong-kind`, `unknown-provider`: options of providers, and models."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, Severity, closest
from loopkit.language import Machine
from loopkit.language.agents.providers import is_listed, known_providers, meant_model

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
    """`params:` has only options of the provider that loopkit does not set itself."""
    for path, params in _params(subject.machine):
        for key, code, message, remedy in wrong_options(params):
            place, at_key = (*path, key), key in RESERVED
            yield subject.source.problem(place, code, message, help=remedy, key=at_key)


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


def _params(machine: Machine) -> Iterator[tuple[DocPath, Mapping[str, object]]]:
    """The options of each model agent and of each of its fallbacks, with their place."""
    for name, agent in machine.model_agents.items():
        yield ("agents", name, "params"), agent.params
        for index, fallback in enumerate(agent.fallbacks):
            yield ("agents", name, "fallbacks", index, "params"), fallback.params or {}


def check_providers(subject: Subject) -> Iterator[Problem]:
    """LiteLLM knows each provider. A newer version may know more; a misspelt name is an error."""
    for path, model in unknown_models(subject.machine):
        message, remedy, severity = _unknown(model, subject.machine.models)
        yield subject.source.problem(
            path, "unknown-provider", message, help=remedy, severity=severity
        )


def unknown_models(machine: Machine) -> Iterator[tuple[DocPath, str]]:
    """Each model whose provider LiteLLM does not know, with its place."""
    if known_providers():
        for path, model in _models(machine):
            if model.partition("/")[0] not in known_providers() and not is_listed(model):
                yield path, model


def _unknown(model: str, names: Collection[str]) -> tuple[str, str, Severity]:
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
    yield from (asked for asked in _models_of_agents(machine) if asked[1] not in named)


def _models_of_agents(machine: Machine) -> Iterator[tuple[DocPath, str]]:
    for name, agent in machine.model_agents.items():
        yield from ((("agents", name, "model", i), rung) for i, rung in enumerate(agent.model))
        for index, fallback in enumerate(agent.fallbacks):
            path: DocPath = ("agents", name, "fallbacks", index, "model")
            yield from (((*path, i), rung) for i, rung in enumerate(fallback.model))
