"""Classes of provider errors: whose fault a failed call is, and how a person can fix it.

LiteLLM's exceptions mislead: a missing key, a refused connection and a web page instead of an
answer all come as an internal server error. A provider's words count only where neither its codes
nor the field that it names say it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from loopkit.agents.model.failure_cause import FailureCause, Received, cause_in, cause_of
from loopkit.agents.model.keys import variables_of
from loopkit.agents.port import AgentError
from loopkit.language.section import ErrorClass
from loopkit.text.moments import LONGEST_S, moment_in, seconds_in, wait_asked


def as_agent_error(
    error: Exception,
    received: Received | None = None,
    key_env: str | None = None,
    *,
    has_schema: bool = True,
    has_tools: bool = False,
) -> AgentError:
    """Classify what `litellm.acompletion` raised; the message has cause and remedy, never a key."""
    failure = cause_of(error, received or Received())
    failure = replace(failure, key_env=key_env or "", has_schema=has_schema, has_tools=has_tools)
    return _classify(failure)


def error_of(record: Mapping[str, Any], *, tokens: int, cost_usd: float | None) -> AgentError:
    """The error that a provider reports inside an answer, with what the call used until then."""
    error = _classify(cause_in(record))
    error.tokens = tokens
    error.cost_usd = cost_usd
    error.charged = False
    return error


def _classify(failure: FailureCause) -> AgentError:
    if failure.status in WAITING:
        is_limit = failure.status == 429
        wait_s = retry_after_s(failure.named, failure.told, is_limit=is_limit)
        failure = replace(failure, wait_s=wait_s)
    row = next(row for row in ROWS if row.fits(failure))
    error = AgentError(
        row.error_class,
        row.message.format(
            told=f": {failure.said}" if failure.said else "",
            said=failure.said,
            status=failure.answered or failure.status,
            origin=failure.origin,
            model=failure.model,
            missing=(_VARIABLE.search(failure.texts) or [_OF_PROVIDER])[0],
            variable=_key_variable(failure),
            address=(_WRONG_ADDRESS.search(failure.texts) or [""])[0],
        ),
        # No wait makes a request smaller.
        retry_after_s=None if "session_lost" in row.marks else failure.wait_s,
    )
    for mark in row.marks:
        setattr(error, mark, True)
    is_sent = not row.unsent and (failure.is_sent or error.charged)
    error.sent = is_sent or failure.has_come_back
    error.unavailable = error.unavailable or _is_unavailable(failure)
    return error


@dataclass(frozen=True, slots=True)
class Row:
    """A known failure: it fits if any of its signs is there, and `when` holds."""

    message: str
    """`{told}` are the provider's words behind a colon."""
    error_class: ErrorClass = "fatal"
    kinds: tuple[str, ...] = ()
    """Classes in the chain of causes; of several in one text, all are there."""
    codes: frozenset[str] = frozenset()
    statuses: Container[int | None] = ()
    subjects: tuple[str, ...] = ()
    words: re.Pattern[str] | None = None
    spoken: Container[int | None] = ()
    """The statuses with which the words or subjects are a sign."""
    about: tuple[str, ...] | None = None
    """The subjects which codes, kinds and words can be about; None for all."""
    when: Callable[[FailureCause], object] | None = None
    marks: tuple[str, ...] = ()
    """What is true of the error."""
    unsent: bool = False
    """No request was sent, unless something came back."""

    def fits(self, failure: FailureCause) -> bool:
        status = failure.status
        # What LiteLLM makes up for a call that failed otherwise.
        if failure.answered is None and status is not None and status >= 500:
            status = None
        is_spoken = status in self.spoken
        has_sign = status in self.statuses or (is_spoken and failure.subject in self.subjects)
        if not has_sign and (self.about is None or failure.subject in self.about):
            has_sign = (
                any(failure.kinds.issuperset(kinds.split()) for kinds in self.kinds)
                or not failure.codes.isdisjoint(self.codes)
                or bool(is_spoken and self.words and self.words.search(failure.told))
            )
        return has_sign and bool(self.when is None or self.when(failure))


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


QUOTA = frozenset({
    "insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error",
    "insufficient_balance", "exceeded_current_quota_error", "Arrearage",
})  # fmt: skip
"""Codes that say that no money is left, not that calls come too fast."""
TOO_LONG = frozenset({
    "context_length_exceeded", "request_too_large", "string_above_max_length",
    "exceed_context_size_error", "model_max_prompt_tokens_exceeded", "tokens_limit_reached",
})  # fmt: skip
POLICY = frozenset({
    "content_policy_violation", "content_filter", "moderation_blocked", "data_inspection_failed",
    "ResponsibleAIPolicyViolation",
})  # fmt: skip
MISSING = frozenset({
    "model_not_found", "model_not_available", "model_decommissioned", "invalid_model",
    "unknown_model", "DeploymentNotFound", "unsupported_country_region_territory",
})  # fmt: skip
AT_FAULT = frozenset({
    "invalid_value", "unsupported_value", "unsupported_parameter", "unknown_parameter",
})  # fmt: skip
WAITING = frozenset({402, 403, 408, 409, 425, 429, *range(500, 600)})
"""Statuses that leave it to the words how long to wait."""
REFUSED = frozenset({400, 404, 422, 500, 501})
"""Statuses with which a provider refuses an option, and servers what they can't do."""
FREE = ("", "model")
"""The subjects of an error that is not about an option of the request."""

TOO_LONG_WORDS = _any(
    r"\bcontext[ _](?:length|limit|size|window)\b|\bcontext the overflows\b",
    r"\b(?:inputs?|prompt|conversation|messages?)\b.{0,80}"
    r"\b(?:too (?:large|long)|longer than|exceed(?:s|ed)?)\b",
    r"\btoo many (?:\w+ )?tokens\b|\bmaximum (?:prompt|model) length\b|\btoken limit exceeded\b"
    r"|\blength is \d+ while limit is\b|\bexceeded model token limit\b|\binput token count is\b",
    r"\breduce the length of the (?:messages|prompt)\b",
    r"\binput length should be\b|\binputs`? (?:tokens \+|must have less)|\bat least 1, got -\d",
)  # fmt: skip
_NO_QUOTA = _any(
    r"exceeded your current quota|credit balance is too low|\bspending limit\b",
    r"\b(?:insufficient|not enough|no|out of) (?:account )?(?:balance|credits?|funds)\b",
)
_NO_MODEL = _any(
    r"\bmodel\b.{0,100}?\b(?:not found|not exist|not available|no longer available|not supported in"
    r"|has been (?:decommissioned|deprecated|retired)|identifier is invalid)\b",
    r"\b(?:invalid|unknown|no such) model\b|\bnot a valid model\b|\baccess to (?:the )?model\b",
)
_CLOSED = r"\b(?:not (?:currently |yet )?(?:available|supported)|unavailable|unsupported|outage)\b"
_PLACE = r"\b(?:region|country|location|territory|availability zone)\b"
_NO_REGION = _any(
    rf"\b(?:user|your) {_PLACE}.{{0,40}}?{_CLOSED}|{_CLOSED} (?:in|for|from)\b.{{0,40}}?{_PLACE}",
)
_REGION_DOWN = _any(rf"{_PLACE}.{{0,80}}?{_CLOSED}|{_CLOSED}.{{0,80}}?{_PLACE}")
_DAILY = _any(
    r"per[ _-]?(?:day|week|month)|/ ?(?:day|month)\b|\ba (?:day|week|month)\b|byday|\b[rt]pd\b",
    r"\b(?:dai|week|month)ly\b",
)
_SHORT = _any(r"per[ _-]?(?:sec|min|hour)|/ ?min\b|\b[rt]pm\b")
_TOOL = (
    r"\b(?:tool(?:s|[ _-](?:use|choice|call(?:s|ing)?|config|spec))?"
    r"|functions?[ _-]?(?:call(?:s|ing)?|declarations?))\b"
)
_NOT_TAKEN = r"\b(?:not (?:\w+ )?(?:supported|enabled|allowed|available)|unsupported|requires)\b"
_NOT_TAKING = (
    r"(?:\bnot|n't|\bno endpoints found that) support\b|\bunrecognized\b|\binvalid schema for\b"
)
TOOL_WORDS = _any(
    rf"{_TOOL}.{{0,60}}?{_NOT_TAKEN}|(?:{_NOT_TAKING}).{{0,60}}?{_TOOL}",
    r"\binvalid schema for function\b|\btools?\.\d+\.|\btoolspec\b|\bfunction_declarations\[",
)
SCHEMA_WORDS = _any(
    r"(?:response|output|text)[ _]?(?:json_)?(?:format|config|schema)|structured[ _]outputs?",
    r"(?:input|json)[ _]?schema\b(?! validation)|\bgrammar\b",
    r"(?<!api )\bschema (?:is|has|produces|contains|must|exceeds|too|could|can|in)\b",
    r"\b(?:invalid|unsupported|given|provided) schema\b|\bjson mode\b",
)
_KEYLESS = _any(
    r"missing credentials|missing [\w ]{0,60}api[ _]key|unable to locate credentials",
    r"api[ _]key\b[^.]{0,40}\b(must be set|not set|is required)",
)
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]*_(?:API_KEY|AUTH_TOKEN|ACCESS_KEY_ID)\b")
_OF_PROVIDER = "the provider's environment variable"
_NO_PROVIDER = "LLM Provider NOT provided"
_WRONG_ADDRESS = re.compile(r"Port out of range|Invalid IPv6 URL|credentials encoded in URL")
_LIMIT = tuple(
    re.compile(rf"(?i){word}\W{{0,3}}(?:is |of |about )?(\d[\d,]{{0,12}})")
    for word in (r"(?<!rate )\blimit(?: per \w+)?", r"\brequest(?:ed(?: tokens)?| of)")
)
_TOO_LARGE = _any(r"\brequest too large\b.{0,200}\b(?:per|limit|tpm)\b")
_SHARES = re.compile(r"(?i)\blength is (\d{1,12})\b.{0,80}?\((\d{1,12}) (?:in the m|of text i)")
_TOO_MUCH = _any(r"\btoo (?:large|long|high)\b|\bexceed|\bmaximum\b|\bat most\b|\bless than\b|>")


def _is_unavailable(failure: FailureCause) -> bool:
    """Whether the provider said that it has no such model, or that its region is closed or down."""
    status, told = failure.answered, failure.told
    if status is None or status == 401:
        return False
    if failure.codes & MISSING:
        return True
    if failure.subject not in FREE or failure.codes & AT_FAULT:
        return False
    words = (_REGION_DOWN,) if status >= 500 else (_NO_MODEL, _NO_REGION)
    is_spoken = status >= 500 or status in (400, 403, 422, 451)
    return status in (404, 410) or (is_spoken and any(each.search(told) for each in words))


def _is_of_a_day(failure: FailureCause) -> bool:
    is_daily = _DAILY.search(failure.told) and not _SHORT.search(failure.told)
    return failure.wait_s is None and bool(is_daily)


def _is_too_large(failure: FailureCause) -> bool:
    limit, asked = (number.search(failure.told) for number in _LIMIT)
    if limit and asked:
        return int(asked[1].replace(",", "")) > int(limit[1].replace(",", ""))
    return bool(_TOO_LARGE.search(failure.told))


def _asks_for_too_much(failure: FailureCause) -> bool:
    """Whether the prompt fits into the window, but not the longest answer."""
    shares = _SHARES.search(failure.told)
    of_answer = failure.subject == "length" and _TOO_MUCH.search(failure.told)
    return int(shares[2]) < int(shares[1]) if shares else bool(of_answer)


def _key_variable(failure: FailureCause) -> str:
    if failure.key_env:
        return f"the environment variable {failure.key_env}"
    provider = failure.provider
    if not provider.isidentifier():
        return f"{_OF_PROVIDER}, or name yours in `api_key_env:` of the agent"
    return f"the environment variable {' or '.join(variables_of(provider))}"


_NO_MONEY = "the account's quota or credit is used up ({status}){told}; check its plan and billing"
_MISFIT = "the answer does not fit the agent's `schema:`"
ROWS = (
    # No server answered with an error; such a row fits nothing else.
    Row(_MISFIT, "content", kinds=("JSONSchemaValidationError",), marks=("charged",)),
    Row("{origin} sends the call on to another address, and it is not sent there: write the right"
        " one as `base_url:`", kinds=("SentElsewhere",)),
    Row("the answer of {origin} is longer than can be kept", kinds=("AnswerTooLong",),
        marks=("charged",)),
    Row("the API key has a line break, a blank or another character that can't be sent: set"
        " {variable} without it", kinds=("UnsendableKey",), unsent=True),
    Row("a header has a line break or another character that can't be sent: mend it in `params:` of"
        " the agent", kinds=("UnsendableHeader",), unsent=True),
    Row("no API key: set {missing} (or `api_key_env:` of the agent)", kinds=("Exception",),
        when=lambda it: _KEYLESS.search(it.texts), unsent=True),
    Row("`base_url:` is not a URL: write http://… or https://…", unsent=True,
        kinds=("InvalidURL", "UnsupportedProtocol")),
    Row("`base_url:` can't be used: {address}", kinds=("Exception",), unsent=True,
        when=lambda it: _WRONG_ADDRESS.search(it.texts)),
    Row("no secure connection to {origin}: check `base_url:` (http or https) and the server's"
        " certificate", kinds=("ConnectError SSLError",), unsent=True),
    Row("the proxy of the environment does not answer: check HTTP_PROXY, HTTPS_PROXY and NO_PROXY",
        "transient", kinds=("ProxyError",), unsent=True),
    Row("the host of {origin} is not found: check the network and `base_url:`", "transient",
        kinds=("gaierror",), unsent=True),
    Row("nothing answers at {origin}: is the server running?", "transient", unsent=True,
        kinds=("ConnectError", "ConnectTimeout", "PoolTimeout")),
    Row("no answer in time from {origin}", "transient", marks=("charged",),
        kinds=("TimeoutException", "APITimeoutError", "TimeoutError")),
    Row("the connection to {origin} broke before the answer was complete", "transient",
        kinds=("RequestError",), marks=("charged",)),
    Row("the answer is not from a model server (HTML instead of JSON): check `base_url:`",
        kinds=("WebPage",)),
    Row("LiteLLM knows no provider for the model `{model}`: write PROVIDER/MODEL, such as"
        " openai/gpt-5-mini", kinds=("Exception",),
        when=lambda it: "LiteLLMUnknownProvider" in it.kinds or _NO_PROVIDER in it.texts),
    Row("a Python package is missing or does not fit: {said}", kinds=("ImportError",)),
    Row("a header can't be sent: the API key is not plain ASCII", kinds=("UnicodeEncodeError",)),
    # Refusals. Groq checks an answer and its calls itself, and discards what does not fit.
    Row(_MISFIT, "content", codes=frozenset({"json_validate_failed"}), marks=("charged",)),
    Row("the model called a tool wrongly{told}", "content", marks=("charged",),
        codes=frozenset({"tool_use_failed"})),
    Row(_NO_MONEY, codes=QUOTA, statuses={402}, marks=("unavailable",)),
    Row(_NO_MONEY, words=_NO_QUOTA, spoken={400, 403, 429}, about=FREE, marks=("unavailable",),
        when=lambda it: it.wait_s is None and "RESOURCE_EXHAUSTED" not in it.codes),
    Row(_NO_MONEY, words=_any(r"\blimit:? 0(?![.\d]|,\d)"), spoken={429}, marks=("unavailable",)),
    Row("the request alone is larger than a limit of the account ({status}){told}; shorten it, or"
        " have the limit raised", statuses={413, 429}, when=_is_too_large, marks=("session_lost",)),
    Row("the model can't give an answer as long as `max_tokens` allows{told}; set a lower one in"
        " `params:` of the agent", statuses={400, 422}, when=_asks_for_too_much),
    # LiteLLM knows the words of some providers.
    Row("the prompt is too long for the model{told}; shorten it, keep fewer turns (`session:`) or"
        " take a model with a larger window", kinds=("ContextWindowExceededError",), codes=TOO_LONG,
        statuses={413}, words=TOO_LONG_WORDS, spoken=REFUSED,
        about=("", "prompt", "model"), marks=("session_lost",)),
    Row("the provider's content policy refuses this{told}; change the prompt or the model",
        kinds=("ContentPolicyViolationError",), codes=POLICY),
    Row("a limit for a day or longer is used up ({status}){told}; go on when it is full again",
        statuses={429}, when=_is_of_a_day, marks=("unavailable",)),
    Row("the provider does not take the tools of the agent{told}; write `tool_use: runner` on the"
        " agent: then loopkit calls the required one itself", when=lambda it: it.has_tools,
        subjects=("tools",), words=TOOL_WORDS, spoken=REFUSED, about=FREE),
    Row("the provider does not take the JSON Schema of the answer{told}",
        when=lambda it: it.has_schema, marks=("refuses_schema",), subjects=("schema", "tools"),
        words=SCHEMA_WORDS, spoken=REFUSED, about=FREE),
    Row("{said}; remove them from `params:` of the agent", kinds=("UnsupportedParamsError",)),
    # The model behind it may have gone on.
    Row("a gateway gave up waiting for the model ({status}){told}", "transient",
        statuses={504, 524}, marks=("charged",)),
    Row("the provider gave up waiting ({status}){told}", "transient", statuses={408},
        marks=("charged",)),
    Row("the provider limits the rate of calls ({status}){told}", "transient", statuses={429}),
    Row("the provider failed ({status}){told}", "transient", statuses={409, *range(500, 600)}),
    # Nothing is quoted: providers repeat parts of the key here.
    Row("the API key was refused ({status}): check {variable}", statuses={401}),
    Row("the key may not do this ({status}){told}; check what the key and the account are allowed",
        statuses={403}),
    Row("the model or the address is not known ({status}){told}; check `model:` and `base_url:` of"
        " the agent", statuses={404}, when=lambda it: it.subject in FREE),
    Row("the provider refused the request ({status}){told}; check `model:` and `params:` of the"
        " agent", statuses=range(400, 600)),
    # Answers that can't be used.
    Row("the answer is not JSON{told}", "transient", kinds=("JSONDecodeError",),
        marks=("charged", "unreadable")),
    Row("the answer could not be used{told}", "transient", kinds=("Exception",),
        when=lambda it: (it.status or 0) >= 500 or it.has_come_back
        or "APIResponseValidationError" in it.kinds, marks=("charged", "unreadable")),
    Row("the model could not be called: {said}", kinds=("Exception",)),
)  # fmt: skip
"""The first that fits decides."""


_NAME = re.compile(
    r"(?:retry-?(?:after|in|delay)|resets?-?(?:after|in|at)|\bwait(?:-time)?|estimated-time|^seconds)"
    r"(?:-?(ms|milli\w*)|-?s|-?seconds)?$"
)
"""How the names of headers and fields end that tell a wait or a moment."""
_A_MOMENT = 1e9
"""From which on a number counts from 1970."""
_EMPTY = re.compile(r"\b(?:r|remaining)=0\b.{0,60}?\b(?:t|reset)=(\d{1,9})\b", re.ASCII)


def retry_after_s(
    named: Mapping[str, str],
    told: str = "",
    now: datetime | None = None,
    *,
    is_limit: bool = False,
) -> float | None:
    """Seconds until the provider accepts the next call, where it says something plausible.

    What headers and fields (`named`, in lower case with hyphens) name counts first, then the words.
    """
    now = now or datetime.now(UTC)
    for source in (_direct(named, now), _resets(named, now)):
        if waits := list(source):
            return max(waits)
    unsaid = max(_resets(named, now, left="0"), default=None) if is_limit else None
    asked = wait_asked(told, now)
    return unsaid if asked is None else asked


def _direct(named: Mapping[str, str], now: datetime) -> Iterator[float]:
    """The wait that is named as such, in milliseconds first, which are more exact."""
    found = [(match, value) for name, value in named.items() if (match := _NAME.search(name))]
    for match, value in sorted(found, key=lambda one: one[0][1] is None):
        if (wait := _wait(value, now, 0.001 if match[1] else 1.0)) is not None:
            yield wait
            return


def _resets(named: Mapping[str, str], now: datetime, left: str = "") -> Iterator[float]:
    """For each used-up limit, the seconds until it is full again; `left` if it does not say."""
    for name, value in named.items():
        rest = named.get(name.replace("reset", "remaining"), left).strip()
        text = value if "reset" in name and (rest in ("0", "0.0") or rest[:1] == "-") else ""
        if name == "ratelimit" and (empty := _EMPTY.search(value)):
            text = empty[1]
        if (wait := _wait(text, now)) is not None:
            yield wait


def _wait(text: str, now: datetime, unit: float = 1.0) -> float | None:
    """The seconds that a text names, or those until the moment that it names."""
    seconds = seconds_in(text)
    if seconds is None or seconds >= _A_MOMENT:
        moment = moment_in(text, now)
        seconds = None if moment is None else (moment - now).total_seconds()
    else:
        seconds *= unit
    return seconds if seconds is not None and 0 <= seconds <= LONGEST_S else None
