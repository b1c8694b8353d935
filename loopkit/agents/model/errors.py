"""Classes of provider errors: whose fault a failed call is, and what a person can do about it.

The rules are asked in order, because the classes and the status of LiteLLM's
exceptions mislead: a missing key, a refused connection and a web page instead of
an answer all come as an internal server error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from loopkit.agents.model.availability import QUOTA, is_unavailable
from loopkit.agents.model.failure_cause import FailureCause, cause_in, cause_of
from loopkit.agents.model.received import Received
from loopkit.agents.model.retry_after import retry_after_s
from loopkit.agents.port import AgentError

TOO_LONG = frozenset({"context_length_exceeded", "request_too_large", "string_above_max_length"})
POLICY = frozenset({"content_policy_violation", "content_filter", "moderation_blocked"})
MISFIT = frozenset({"json_validate_failed"})
"""Groq looks at the answer itself, and throws away one that does not fit."""
MISCALL = frozenset({"tool_use_failed"})
"""Likewise a call of a tool that is not written as it should be."""
TRANSIENT = frozenset({408, 409, 429})
TIMED_OUT = frozenset({408, 504, 524})
"""A gateway gave up waiting; the model behind it may have gone on."""
_KEYLESS = re.compile(
    r"missing credentials|missing [\w ]{0,60}api[ _]key|unable to locate credentials"
    r"|api[ _]key\b[^.]{0,40}\b(must be set|not set|is required)",
    re.IGNORECASE,
)
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]*_(?:API_KEY|AUTH_TOKEN|ACCESS_KEY_ID)\b")
_SCHEMA = re.compile(
    r"(?:response|output|text)[ _]?(?:format|config|schema)|(?:input|json)[ _]?schema"
    r"|structured[ _]outputs?|\bschema\b|\bgrammar\b",
    re.IGNORECASE,
)
_TOOLS = re.compile(r"\btools?(?:\b|_)|\bfunctions?[ _-]?(?:call|declaration)", re.IGNORECASE)
_OF_AWS = "AWS_ACCESS_KEY_ID or AWS_SECRET_ACCESS_KEY"
_KEYS = {
    "bedrock": _OF_AWS,
    "datarobot": "DATAROBOT_API_TOKEN",
    "lambda_ai": "LAMBDA_API_KEY",
    "meta_llama": "LLAMA_API_KEY",
    "perplexity": "PERPLEXITYAI_API_KEY",
    "sagemaker": _OF_AWS,
    "snowflake": "SNOWFLAKE_JWT",
    "together_ai": "TOGETHERAI_API_KEY",
    "vertex_ai": "GOOGLE_APPLICATION_CREDENTIALS",
}
"""What holds a provider's key, where that is not called like the provider."""
_WRONG_ADDRESS = re.compile(r"Port out of range|Invalid IPv6 URL|credentials encoded in URL")


def as_agent_error(
    error: Exception,
    received: Received | None = None,
    key_env: str | None = None,
    *,
    has_schema: bool = True,
    has_tools: bool = False,
) -> AgentError:
    """What `litellm.acompletion` raised, sorted; its message names cause and remedy, never a key.

    `charged` is set where the provider may have billed the call all the same. A named wait is
    kept for every class: a run that is suspended goes on after it.
    """
    seen = cause_of(error, received)
    return _sorted(replace(seen, key_env=key_env or "", has_schema=has_schema, has_tools=has_tools))


def error_of(record: Mapping[str, Any], *, tokens: int, cost_usd: float | None) -> AgentError:
    """An error that a provider tells inside of an answer, with what it counted until then."""
    error = _sorted(cause_in(record))
    error.tokens, error.cost_usd, error.charged = tokens, cost_usd, False
    return error


def _sorted(seen: FailureCause) -> AgentError:
    found = next((found for rule in RULES if (found := rule(seen)) is not None), None)
    error = found or AgentError("fatal", f"the model could not be called: {seen.said}")
    error.unavailable = is_unavailable(seen)
    return error


def _no_key(seen: FailureCause) -> AgentError | None:
    if seen.has_come_back or not _KEYLESS.search(seen.texts):
        return None
    named = _VARIABLE.search(seen.texts)
    variable = named[0] if named else "the provider's environment variable"
    return AgentError("fatal", f"no API key: set {variable} (or `api_key_env:` of the agent)")


def _no_quota(seen: FailureCause) -> AgentError | None:
    if "BudgetExceededError" in seen.kinds:
        return AgentError("fatal", f"LiteLLM's own budget is used up: {seen.said}")
    is_broke = seen.codes & QUOTA or "credit balance is too low" in seen.said
    if seen.answered != 402 and not (seen.answered and is_broke):
        return None
    cause = f"the account's quota or credit is used up ({seen.answered})"
    message = _told(cause, seen, "check its plan and billing")
    return AgentError("fatal", message, retry_after_s=retry_after_s(seen.headers))


def _other_shape(seen: FailureCause) -> AgentError | None:
    if "JSONSchemaValidationError" not in seen.kinds and not seen.codes & MISFIT:
        return None
    return AgentError("content", "the answer does not fit the agent's `schema:`", charged=True)


def _bad_call(seen: FailureCause) -> AgentError | None:
    if not seen.codes & MISCALL:
        return None
    return AgentError("content", _told("the model called a tool wrongly", seen), charged=True)


def _too_long(seen: FailureCause) -> AgentError | None:
    by_kind = "ContextWindowExceededError" in seen.kinds
    if not by_kind and seen.answered != 413 and not seen.codes & TOO_LONG:
        return None
    remedy = "shorten it, keep fewer turns (`session:`) or take a model with a larger window"
    return AgentError("fatal", _told("the prompt is too long for the model", seen, remedy))


def _policy(seen: FailureCause) -> AgentError | None:
    if "ContentPolicyViolationError" not in seen.kinds and not seen.codes & POLICY:
        return None
    cause, remedy = "the provider's content policy refuses this", "change the prompt or the model"
    return AgentError("fatal", _told(cause, seen, remedy))


def _no_address(seen: FailureCause) -> AgentError | None:
    if seen.names("InvalidURL", "UnsupportedProtocol", "NonHttpUrlClientError"):
        return AgentError("fatal", "`base_url:` is not a URL: write http://… or https://…")
    if not seen.has_come_back and (wrong := _WRONG_ADDRESS.search(seen.texts)):
        return AgentError("fatal", f"`base_url:` can't be used: {wrong[0]}")
    is_tls = "ConnectError" in seen.kinds and "SSLError" in seen.kinds
    if is_tls or "ClientSSLError" in seen.kinds:
        remedy = "check `base_url:` (http or https) and the server's certificate"
        return AgentError("fatal", f"no secure connection to {_place(seen)}: {remedy}")
    return None


def _not_taken(seen: FailureCause) -> AgentError | None:
    """What our own guard refused."""
    if seen.names("SentElsewhere"):
        cause = f"{_place(seen)} sends the call on to another host, and neither prompt nor key go"
        return AgentError("fatal", f"{cause} there: write the right address as `base_url:`")
    if seen.names("AnswerTooLong"):
        message = f"the answer of {_place(seen)} is longer than can be kept"
        return AgentError("fatal", message, charged=True)
    return None


def _not_reached(seen: FailureCause) -> AgentError | None:
    if seen.names("ClientProxyConnectionError", "ProxyError"):
        remedy = "check HTTP_PROXY, HTTPS_PROXY and NO_PROXY"
        return AgentError("transient", f"the proxy of the environment does not answer: {remedy}")
    if seen.names("gaierror"):
        remedy = "check the network and `base_url:`"
        return AgentError("transient", f"the host of {_place(seen)} is not found: {remedy}")
    # LiteLLM calls a reset of an open connection a failed one too.
    is_unconnected = "ConnectError" in seen.kinds and "ClientOSError" not in seen.kinds
    if is_unconnected or seen.names("ClientConnectorError", "ConnectTimeout", "PoolTimeout"):
        return AgentError("transient", f"nothing answers at {_place(seen)}: is the server running?")
    return None


def _late(seen: FailureCause) -> AgentError | None:
    if seen.answered or not seen.names("TimeoutException", "APITimeoutError", "TimeoutError"):
        return None
    return AgentError("transient", f"no answer in time from {_place(seen)}", charged=True)


def _lost(seen: FailureCause) -> AgentError | None:
    if "RequestError" not in seen.kinds:
        return None
    message = f"the connection to {_place(seen)} broke before the answer was complete"
    return AgentError("transient", message, charged=True)


def _web_page(seen: FailureCause) -> AgentError | None:
    if not seen.is_web_page:
        return None
    cause = "the answer is not from a model server (HTML instead of JSON)"
    return AgentError("fatal", f"{cause}: check `base_url:`")


def _misconfigured(seen: FailureCause) -> AgentError | None:
    if "LLM Provider NOT provided" in seen.texts or "LiteLLMUnknownProvider" in seen.kinds:
        model = getattr(seen.error, "model", "")
        remedy = "write PROVIDER/MODEL, such as openai/gpt-5-mini"
        return AgentError("fatal", f"LiteLLM knows no provider for the model `{model}`: {remedy}")
    if "UnsupportedParamsError" in seen.kinds:
        return AgentError("fatal", f"{seen.said}; remove them from `params:` of the agent")
    if "ImportError" in seen.kinds:
        return AgentError("fatal", f"a Python package is missing or does not fit: {seen.said}")
    if "UnicodeEncodeError" in seen.kinds:
        return AgentError("fatal", "a header can't be sent: the API key is not plain ASCII")
    return None


def _no_schema(seen: FailureCause) -> AgentError | None:
    is_refused = seen.answered in (400, 422) or "UnsupportedParamsError" in seen.kinds
    if not seen.has_schema or not is_refused or not _SCHEMA.search(seen.said):
        return None
    cause = "the provider does not take the JSON Schema of the answer"
    remedy = "write `structured: text` on the agent, which asks for it in words"
    return AgentError("fatal", _told(cause, seen, remedy))


def _no_tools(seen: FailureCause) -> AgentError | None:
    is_refused = seen.answered in (400, 404, 422) or "UnsupportedParamsError" in seen.kinds
    if not seen.has_tools or not is_refused or not _TOOLS.search(seen.said):
        return None
    cause = "the provider does not take the tools of the agent"
    remedy = "write `tool_use: runner` on the agent: then loopkit calls the required one itself"
    return AgentError("fatal", _told(cause, seen, remedy))


def _refused(seen: FailureCause) -> AgentError | None:
    """By the status that the server answered, or that LiteLLM gave to a call it did not make."""
    status = seen.status
    if status is None or (seen.answered is None and not 400 <= status < 500):
        return None
    if status in TRANSIENT or status >= 500:
        return AgentError(
            "transient",
            _told(f"{_FAILED.get(status, 'the provider failed')} ({status})", seen),
            retry_after_s=retry_after_s(seen.headers),
            charged=status in TIMED_OUT,
        )
    if status == 401:
        # Nothing is quoted: providers repeat parts of the key here.
        return AgentError("fatal", f"the API key was refused (401): check {_key_variable(seen)}")
    cause, remedy = _REFUSED.get(status, ("the provider refused the request", _CHECK))
    return AgentError("fatal", _told(f"{cause} ({status})", seen, remedy))


_CHECK = "check `model:` and `params:` of the agent"
_FAILED = {
    408: "the provider gave up waiting",
    429: "the provider limits the rate of calls",
    504: "a gateway gave up waiting for the model",
}
_REFUSED = {
    403: ("the key may not do this", "check what the key and the account are allowed"),
    404: ("the model or the address is not known", "check `model:` and `base_url:` of the agent"),
}


def _unreadable(seen: FailureCause) -> AgentError | None:
    is_failure = (seen.status or 0) >= 500 or "APIResponseValidationError" in seen.kinds
    if not is_failure and not seen.has_come_back:
        return None
    is_text = "JSONDecodeError" in seen.kinds
    cause = "the answer is not JSON" if is_text else "the answer could not be used"
    return AgentError("transient", _told(cause, seen), charged=True, unreadable=True)


def _told(cause: str, seen: FailureCause, remedy: str = "") -> str:
    """Cause, the words of the other side where there are any, and what to do."""
    message = f"{cause}: {seen.said}" if seen.said else cause
    return f"{message}; {remedy}" if remedy else message


def _key_variable(seen: FailureCause) -> str:
    if seen.key_env:
        return f"the environment variable {seen.key_env}"
    provider = getattr(seen.error, "llm_provider", None)
    if not isinstance(provider, str) or not provider.isidentifier():
        return "the provider's environment variable, or name yours in `api_key_env:` of the agent"
    usual = f"{provider.removesuffix('_chat').upper()}_API_KEY"
    return f"the environment variable {_KEYS.get(provider, usual)}"


def _place(seen: FailureCause) -> str:
    return seen.origin or "the provider"


RULES: tuple[Callable[[FailureCause], AgentError | None], ...] = (
    _not_taken, _other_shape, _bad_call, _no_key, _no_quota, _too_long, _policy, _no_address,
    _not_reached, _late, _lost, _web_page, _no_tools, _no_schema, _misconfigured, _refused,
    _unreadable,
)  # fmt: skip
"""The first that knows the failure decides."""
