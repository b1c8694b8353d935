"""Classes of provider errors: whose fault a failed call is, and how a person can fix it.

The rules are asked in order, because the classes and the status of LiteLLM's
exceptions mislead: a missing key, a refused connection and a web page instead of
an answer all come as an internal server error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from loopkit.agents.model.client import QUOTA, is_unavailable, retry_after_s
from loopkit.agents.model.failure_cause import FailureCause, Received, cause_in, cause_of
from loopkit.agents.port import AgentError

TOO_LONG = frozenset({"context_length_exceeded", "request_too_large", "string_above_max_length"})
POLICY = frozenset({"content_policy_violation", "content_filter", "moderation_blocked"})
MISFIT = frozenset({"json_validate_failed"})
"""Groq checks the answer itself, and discards one that does not fit."""
MISCALL = frozenset({"tool_use_failed"})
"""Groq likewise discards a malformed call of a tool."""
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
_TOO_LONG = re.compile(
    r"\bcontext (?:length|limit|size|window)|\bcontext the overflows|maximum prompt length"
    r"|\b(?:input|prompt)\b.{0,80}\btoo (?:large|long)\b",
    re.IGNORECASE,
)
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
"""The variables of providers' keys that are not named like the provider."""
_WRONG_ADDRESS = re.compile(r"Port out of range|Invalid IPv6 URL|credentials encoded in URL")


def as_agent_error(
    error: Exception,
    received: Received | None = None,
    key_env: str | None = None,
    *,
    has_schema: bool = True,
    has_tools: bool = False,
) -> AgentError:
    """Classify what `litellm.acompletion` raised; the message has cause and remedy, never a key.

    `charged` is set where the provider may have billed the call all the same; `sent` is False where
    it surely got no request. A wait that the provider names is kept for every class: a suspended
    run goes on after it.
    """
    failure = cause_of(error, received)
    failure = replace(failure, key_env=key_env or "", has_schema=has_schema, has_tools=has_tools)
    classified = _classify(failure)
    if received is not None and not received.sent and not classified.charged:
        classified.sent = False
    return classified


def error_of(record: Mapping[str, Any], *, tokens: int, cost_usd: float | None) -> AgentError:
    """The error that a provider reports inside an answer, with what the call used until then."""
    error = _classify(cause_in(record))
    error.tokens, error.cost_usd, error.charged = tokens, cost_usd, False
    return error


def _classify(failure: FailureCause) -> AgentError:
    error = AgentError("fatal", f"the model could not be called: {failure.said}")
    for rule in RULES:
        if (found := rule(failure)) is not None:
            error = found
            error.sent = rule not in UNSENT or failure.has_come_back
            break
    error.unavailable = is_unavailable(failure)
    return error


def _no_key(failure: FailureCause) -> AgentError | None:
    if failure.has_come_back or not _KEYLESS.search(failure.texts):
        return None
    named = _VARIABLE.search(failure.texts)
    variable = named[0] if named else "the provider's environment variable"
    return AgentError("fatal", f"no API key: set {variable} (or `api_key_env:` of the agent)")


def _no_quota(failure: FailureCause) -> AgentError | None:
    if "BudgetExceededError" in failure.kinds:
        return AgentError("fatal", f"LiteLLM's own budget is used up: {failure.said}")
    is_broke = failure.codes & QUOTA or "credit balance is too low" in failure.said
    if failure.answered != 402 and not (failure.answered and is_broke):
        return None
    cause = f"the account's quota or credit is used up ({failure.answered})"
    message = _message(cause, failure, "check its plan and billing")
    return AgentError("fatal", message, retry_after_s=retry_after_s(failure.headers))


def _other_shape(failure: FailureCause) -> AgentError | None:
    if "JSONSchemaValidationError" not in failure.kinds and not failure.codes & MISFIT:
        return None
    return AgentError("content", "the answer does not fit the agent's `schema:`", charged=True)


def _bad_call(failure: FailureCause) -> AgentError | None:
    if not failure.codes & MISCALL:
        return None
    return AgentError("content", _message("the model called a tool wrongly", failure), charged=True)


def _too_long(failure: FailureCause) -> AgentError | None:
    by_kind = "ContextWindowExceededError" in failure.kinds
    # LiteLLM knows the words of some providers.
    by_words = failure.answered not in (None, 429) and _TOO_LONG.search(failure.said)
    if not (by_kind or by_words or failure.answered == 413 or failure.codes & TOO_LONG):
        return None
    remedy = "shorten it, keep fewer turns (`session:`) or take a model with a larger window"
    message = _message("the prompt is too long for the model", failure, remedy)
    return AgentError("fatal", message, session_lost=True)


def _policy(failure: FailureCause) -> AgentError | None:
    if "ContentPolicyViolationError" not in failure.kinds and not failure.codes & POLICY:
        return None
    cause, remedy = "the provider's content policy refuses this", "change the prompt or the model"
    return AgentError("fatal", _message(cause, failure, remedy))


def _no_address(failure: FailureCause) -> AgentError | None:
    if failure.names("InvalidURL", "UnsupportedProtocol", "NonHttpUrlClientError"):
        return AgentError("fatal", "`base_url:` is not a URL: write http://… or https://…")
    if not failure.has_come_back and (wrong := _WRONG_ADDRESS.search(failure.texts)):
        return AgentError("fatal", f"`base_url:` can't be used: {wrong[0]}")
    is_tls = "ConnectError" in failure.kinds and "SSLError" in failure.kinds
    if is_tls or "ClientSSLError" in failure.kinds:
        remedy = "check `base_url:` (http or https) and the server's certificate"
        return AgentError("fatal", f"no secure connection to {failure.origin}: {remedy}")
    return None


def _guard_refusal(failure: FailureCause) -> AgentError | None:
    """What our own guard on HTTP refused to accept."""
    if failure.names("SentElsewhere"):
        cause = f"{failure.origin} sends the call on to another host, and neither prompt nor key go"
        return AgentError("fatal", f"{cause} there: write the right address as `base_url:`")
    if failure.names("AnswerTooLong"):
        message = f"the answer of {failure.origin} is longer than can be kept"
        return AgentError("fatal", message, charged=True)
    if failure.names("UnreadableHeader"):
        message = f"the answer of {failure.origin} has a header that is not plain ASCII"
        return AgentError("transient", message, charged=True, unreadable=True)
    return None


def _no_connection(failure: FailureCause) -> AgentError | None:
    if failure.names("ClientProxyConnectionError", "ProxyError"):
        remedy = "check HTTP_PROXY, HTTPS_PROXY and NO_PROXY"
        return AgentError("transient", f"the proxy of the environment does not answer: {remedy}")
    if failure.names("gaierror"):
        remedy = "check the network and `base_url:`"
        return AgentError("transient", f"the host of {failure.origin} is not found: {remedy}")
    # LiteLLM calls a reset of an open connection a failed one too.
    is_unconnected = "ConnectError" in failure.kinds and "ClientOSError" not in failure.kinds
    if is_unconnected or failure.names("ClientConnectorError", "ConnectTimeout", "PoolTimeout"):
        return AgentError(
            "transient", f"nothing answers at {failure.origin}: is the server running?"
        )
    return None


def _timeout(failure: FailureCause) -> AgentError | None:
    if failure.answered or not failure.names("TimeoutException", "APITimeoutError", "TimeoutError"):
        return None
    return AgentError("transient", f"no answer in time from {failure.origin}", charged=True)


def _lost_connection(failure: FailureCause) -> AgentError | None:
    if "RequestError" not in failure.kinds:
        return None
    message = f"the connection to {failure.origin} broke before the answer was complete"
    return AgentError("transient", message, charged=True)


def _web_page(failure: FailureCause) -> AgentError | None:
    if not failure.is_web_page:
        return None
    cause = "the answer is not from a model server (HTML instead of JSON)"
    return AgentError("fatal", f"{cause}: check `base_url:`")


def _misconfiguration(failure: FailureCause) -> AgentError | None:
    if "LLM Provider NOT provided" in failure.texts or "LiteLLMUnknownProvider" in failure.kinds:
        model = getattr(failure.error, "model", "")
        remedy = "write PROVIDER/MODEL, such as openai/gpt-5-mini"
        return AgentError("fatal", f"LiteLLM knows no provider for the model `{model}`: {remedy}")
    if "UnsupportedParamsError" in failure.kinds:
        return AgentError("fatal", f"{failure.said}; remove them from `params:` of the agent")
    if "ImportError" in failure.kinds:
        return AgentError("fatal", f"a Python package is missing or does not fit: {failure.said}")
    if "UnicodeEncodeError" in failure.kinds:
        return AgentError("fatal", "a header can't be sent: the API key is not plain ASCII")
    return None


def _no_schema(failure: FailureCause) -> AgentError | None:
    is_refused = failure.answered in (400, 422) or "UnsupportedParamsError" in failure.kinds
    if not failure.has_schema or not is_refused or not _SCHEMA.search(failure.said):
        return None
    cause = "the provider does not take the JSON Schema of the answer"
    return AgentError("fatal", _message(cause, failure), refuses_schema=True)


def _no_tools(failure: FailureCause) -> AgentError | None:
    is_refused = failure.answered in (400, 404, 422) or "UnsupportedParamsError" in failure.kinds
    if not failure.has_tools or not is_refused or not _TOOLS.search(failure.said):
        return None
    cause = "the provider does not take the tools of the agent"
    remedy = "write `tool_use: runner` on the agent: then loopkit calls the required one itself"
    return AgentError("fatal", _message(cause, failure, remedy))


def _by_status(failure: FailureCause) -> AgentError | None:
    """An error by its status: the server's, or LiteLLM's for a call that it did not make."""
    status = failure.status
    if status is None or (failure.answered is None and not 400 <= status < 500):
        return None
    if status in TRANSIENT or status >= 500:
        return AgentError(
            "transient",
            _message(f"{_FAILURES.get(status, 'the provider failed')} ({status})", failure),
            retry_after_s=retry_after_s(failure.headers),
            charged=status in TIMED_OUT,
        )
    if status == 401:
        # Nothing is quoted: providers repeat parts of the key here.
        return AgentError("fatal", f"the API key was refused (401): check {_key_variable(failure)}")
    cause, remedy = _REFUSALS.get(status, ("the provider refused the request", _CHECK))
    return AgentError("fatal", _message(f"{cause} ({status})", failure, remedy))


_CHECK = "check `model:` and `params:` of the agent"
_FAILURES = {
    408: "the provider gave up waiting",
    429: "the provider limits the rate of calls",
    504: "a gateway gave up waiting for the model",
}
_REFUSALS = {
    403: ("the key may not do this", "check what the key and the account are allowed"),
    404: ("the model or the address is not known", "check `model:` and `base_url:` of the agent"),
}


def _unreadable(failure: FailureCause) -> AgentError | None:
    is_failure = (failure.status or 0) >= 500 or "APIResponseValidationError" in failure.kinds
    if not is_failure and not failure.has_come_back:
        return None
    is_text = "JSONDecodeError" in failure.kinds
    cause = "the answer is not JSON" if is_text else "the answer could not be used"
    return AgentError("transient", _message(cause, failure), charged=True, unreadable=True)


def _message(cause: str, failure: FailureCause, remedy: str = "") -> str:
    """The cause, the provider's own words where there are any, and the remedy."""
    message = f"{cause}: {failure.said}" if failure.said else cause
    return f"{message}; {remedy}" if remedy else message


def _key_variable(failure: FailureCause) -> str:
    if failure.key_env:
        return f"the environment variable {failure.key_env}"
    provider = getattr(failure.error, "llm_provider", None)
    if not isinstance(provider, str) or not provider.isidentifier():
        return "the provider's environment variable, or name yours in `api_key_env:` of the agent"
    usual = f"{provider.removesuffix('_chat').upper()}_API_KEY"
    return f"the environment variable {_KEYS.get(provider, usual)}"


RULES: tuple[Callable[[FailureCause], AgentError | None], ...] = (
    _guard_refusal, _other_shape, _bad_call, _no_key, _no_quota, _too_long, _policy, _no_address,
    _no_connection, _timeout, _lost_connection, _web_page, _no_tools, _no_schema,
    _misconfiguration, _by_status, _unreadable,
)  # fmt: skip
"""The first rule that knows the failure decides."""
UNSENT = (_no_key, _no_address, _no_connection)
"""The rules for failures before any request was sent, unless something came back."""
