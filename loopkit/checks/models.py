"""`reserved-option`, `wrong-kind`: `params:` holds an option that loopkit sets, or a bad one."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem
from loopkit.language import ModelAgent

MEANINGS = {
    "reserved-option": "An option of the provider is loopkit's own business.",
}

_TRIED = "retries are counted and paid by loopkit: write `retry: {attempts: N}` on the agent"
_WAITED = "write `timeout:` on the agent"
_SAID = "write `system:` on the agent and `prompt:` on the state"
_SHAPED = "write `schema:` on the agent"
_KEPT_OUT = "keys come from the environment: write `api_key_env: NAME` on the agent"
_ONE = "one call brings one whole answer"
RESERVED = {
    "api_key": _KEPT_OUT,
    "api_base": "write `base_url:` on the agent",
    "base_url": "write it on the agent",
    "messages": _SAID,
    "model": "write it on the agent",
    "fallbacks": "write a list of models on the agent, or catch errors with `on_error:`",
    "max_retries": _TRIED,
    "num_retries": _TRIED,
    "timeout": _WAITED,
    "request_timeout": _WAITED,
    "response_format": _SHAPED,
    "n": _ONE,
    "stream": _ONE,
    "stream_options": _ONE,
    "mock_response": "play the agent with `--script FILE`",
    "tools": "this version offers a model no tools",
    "functions": "this version offers a model no tools",
}


def check_models(subject: Subject) -> Iterator[Problem]:
    """`params:` holds options of the provider, and none that loopkit sets by itself."""
    for name, agent in subject.machine.agents.items():
        params = agent.params if isinstance(agent, ModelAgent) else {}
        for key in params.keys() & RESERVED.keys():
            path = ("agents", name, "params", key)
            message = f"`{key}` is no option to pass on"
            yield subject.source.problem(
                path, "reserved-option", message, help=RESERVED[key], key=True
            )
        yield from _caps(subject, name, params)


def _caps(subject: Subject, name: str, params: dict[str, object]) -> Iterator[Problem]:
    for key in ("max_tokens", "max_completion_tokens"):
        cap = params.get(key)
        if cap is not None and (isinstance(cap, bool) or not isinstance(cap, int) or cap < 1):
            path = ("agents", name, "params", key)
            message = f"`{key}` is not a number of tokens"
            yield subject.source.problem(
                path, "wrong-kind", message, help=f"write a whole number, such as `{key}: 4000`"
            )
