"""Every way in which a provider can fail, over real HTTP, sorted to who has to pay for it."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
import pytest_asyncio

from loopkit.agents.model.errors import as_agent_error
from loopkit.agents.model.failure_cause import CURRENT_RECEIVED, Received
from loopkit.agents.port import AgentError
from tests.providers.conftest import KEY
from tests.providers.hostile import Answer, HostileServer, json_answer
from tests.providers.openai_mock import OpenAIMock
from tests.providers.server import ModelServer

CLAUDE = "anthropic/claude-sonnet-4-5"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n"
PAGE = b"\n<!DOCTYPE html>\n<html><head><title>Welcome</title></head></html>"
NOISE = ("litellm.", "Exception - ", "Handle with", "reverse proxy", "Traceback")
"""What LiteLLM puts around the words of a provider."""
HELLO = [{"role": "user", "content": "Hello"}]
Call = Callable[..., Awaitable[Any]]


@pytest_asyncio.fixture
async def call(litellm: Any, provider_key: str) -> AsyncIterator[Call]:
    """One call as the model agent makes it, with a deadline that a test can wait for."""

    async def make(base_url: str | None, model: str = OpenAIMock.model, **more: Any) -> Any:
        sent = {"model": model, "messages": HELLO, "api_key": KEY, "timeout": 30.0, **more}
        return await litellm.acompletion(**sent, base_url=base_url, max_retries=0, num_retries=0)

    yield make
    await litellm.close_litellm_async_clients()


async def failure(calling: Awaitable[Any]) -> AgentError:
    """The error that a call brings, sorted."""
    received = Received()
    CURRENT_RECEIVED.set(received)
    try:
        await calling
    except Exception as error:  # noqa: BLE001 - whatever LiteLLM raises
        return as_agent_error(error, received)
    raise AssertionError("the call brought a reply")


async def sent_once(server: ModelServer, call: Call, model: str = "") -> AgentError:
    """The error of a call that the server received exactly once."""
    error = await failure(call(server.base_url, model or server.model))
    assert len(server.requests()) == 1
    assert "\n" not in error.message
    assert KEY not in error.message
    assert not [word for word in NOISE if word in error.message]
    return error


class TestAnErrorThatTheProviderAnswers:
    async def test_a_reply_is_no_error(self, provider: ModelServer, call: Call) -> None:
        provider.say("Good morning")
        response = await call(provider.base_url, provider.model)
        assert response.choices[0].message.content == "Good morning"
        assert [request.prompt for request in provider.requests()] == ["Hello"]

    async def test_a_cut_off_reply_is_no_error(self, provider: ModelServer, call: Call) -> None:
        provider.say("Good mor", finish="length")
        response = await call(provider.base_url, provider.model)
        assert response.choices[0].finish_reason == "length"

    async def test_a_rate_limit_is_transient_and_names_its_wait(
        self, provider: ModelServer, call: Call
    ) -> None:
        provider.fail(429, retry_after=7, message="Slow down")
        error = await sent_once(provider, call)
        assert (error.error_class, error.charged, error.retry_after_s) == ("transient", False, 7.0)
        assert error.message == "the provider limits the rate of calls (429): Slow down"

    @pytest.mark.parametrize("status", [500, 502, 503, 529])
    async def test_a_failing_provider_is_transient_and_costs_nothing(
        self, provider: ModelServer, call: Call, status: int
    ) -> None:
        provider.fail(status, message="Overloaded")
        error = await sent_once(provider, call)
        assert (error.error_class, error.charged) == ("transient", False)
        assert error.message == f"the provider failed ({status}): Overloaded"

    async def test_a_gateway_that_gave_up_waiting_is_transient_and_stays_charged(
        self, provider: ModelServer, call: Call
    ) -> None:
        provider.fail(504)
        error = await sent_once(provider, call)
        assert (error.error_class, error.charged) == ("transient", True)

    async def test_a_refused_key_is_fatal_and_says_where_keys_come_from(
        self, provider: ModelServer, call: Call
    ) -> None:
        provider.fail(401, message=f"Incorrect key provided: {KEY[:9]}*****{KEY[-4:]}")
        error = await sent_once(provider, call)
        variable = f"{provider.model.partition('/')[0].upper()}_API_KEY"
        assert (error.error_class, error.charged) == ("fatal", False)
        said = f"the API key was refused (401): check the environment variable {variable}"
        assert error.message.partition(" or ")[0] == said

    @pytest.mark.parametrize(
        ("model", "variable"),
        [
            ("openrouter/openai/gpt-4o", "OPENROUTER_API_KEY"),
            ("together_ai/a-model", "TOGETHERAI_API_KEY"),
            ("perplexity/sonar", "PERPLEXITYAI_API_KEY"),
            ("mistral/mistral-small-latest", "MISTRAL_API_KEY"),
        ],
    )
    async def test_the_variable_is_the_one_that_litellm_reads(
        self,
        hostile: HostileServer,
        call: Call,
        litellm: Any,
        model: str,
        variable: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.delenv(variable, raising=False)
        assert variable in litellm.validate_environment(model=model)["missing_keys"]
        hostile.fail(401)
        error = await sent_once(hostile, call, model)
        said = error.message.partition(" or ")[0]
        assert said.endswith(f"check the environment variable {variable}")

    async def test_an_unknown_model_is_fatal(self, provider: ModelServer, call: Call) -> None:
        provider.fail(404, message="The model gpt-99 does not exist.", code="model_not_found")
        error = await sent_once(provider, call)
        assert (error.error_class, error.charged) == ("fatal", False)
        assert error.message == (
            "the model or the address is not known (404): The model gpt-99 does not exist; "
            "check `model:` and `base_url:` of the agent"
        )

    @pytest.mark.parametrize("status", [400, 422])
    async def test_a_request_that_is_refused_is_fatal(
        self, provider: ModelServer, call: Call, status: int
    ) -> None:
        provider.fail(status, message="temperature: too hot")
        error = await sent_once(provider, call)
        assert (error.error_class, error.charged) == ("fatal", False)
        assert error.message == (
            f"the provider refused the request ({status}): temperature: too hot; "
            "check `model:` and `params:` of the agent"
        )

    async def test_what_the_key_may_not_do_is_fatal(
        self, provider: ModelServer, call: Call
    ) -> None:
        provider.fail(403, message="Not in your region")
        error = await sent_once(provider, call)
        assert error.error_class == "fatal"
        assert error.message.startswith("the key may not do this (403): Not in your region; ")

    @pytest.mark.parametrize("status", [408, 409])
    async def test_what_may_go_well_the_next_time_is_transient(
        self, provider: ModelServer, call: Call, status: int
    ) -> None:
        provider.fail(status)
        error = await sent_once(provider, call)
        assert (error.error_class, error.charged) == ("transient", status == 408)


class TestAnErrorWithAMeaningOfItsOwn:
    @pytest.mark.parametrize("code", ["insufficient_quota", "billing_hard_limit_reached"])
    async def test_a_used_up_quota_is_fatal_although_it_comes_as_a_rate_limit(
        self, openai_server: OpenAIMock, call: Call, code: str
    ) -> None:
        openai_server.fail(429, code=code, message="You exceeded your quota.", retry_after=3600)
        error = await sent_once(openai_server, call)
        assert (error.error_class, error.charged) == ("fatal", False)
        assert error.retry_after_s == 3600.0
        assert error.message == (
            "the account's quota or credit is used up (429): You exceeded your quota; "
            "check its plan and billing"
        )

    async def test_a_prompt_that_is_too_long_for_openai_is_fatal(
        self, openai_server: OpenAIMock, call: Call
    ) -> None:
        openai_server.fail(400, code="context_length_exceeded", message="9000 of 8192 tokens")
        error = await sent_once(openai_server, call)
        assert (error.error_class, error.charged) == ("fatal", False)
        assert error.message == (
            "the prompt is too long for the model: 9000 of 8192 tokens; "
            "shorten it, keep fewer turns (`session:`) or take a model with a larger window"
        )

    @pytest.mark.parametrize(
        ("status", "code"),
        [(400, "content_policy_violation"), (400, "content_filter"), (403, "moderation_blocked")],
    )
    async def test_what_openai_has_a_policy_against_is_fatal(
        self, openai_server: OpenAIMock, call: Call, status: int, code: str
    ) -> None:
        openai_server.fail(status, code=code, message="Rejected by our safety system.")
        error = await sent_once(openai_server, call)
        assert error.error_class == "fatal"
        assert error.message == (
            "the provider's content policy refuses this: Rejected by our safety system; "
            "change the prompt or the model"
        )


@dataclass(frozen=True)
class Case:
    """One answer of a server that is not well."""

    answer: Answer
    error_class: str
    charged: bool
    """Whether it stays at what was reserved."""
    message: str
    """How it begins; `PLACE` stands for the server's address."""

    @property
    def is_unreadable(self) -> bool:
        """Whether an answer came, which is asked for once more alone."""
        return self.message.startswith(("the answer is not JSON", "the answer could not be used"))


UNUSABLE = {
    "a web page": Case(
        Answer(PAGE, content_type="text/html"), "fatal", False,
        "the answer is not from a model server (HTML instead of JSON): check `base_url:`",
    ),
    "broken JSON": Case(
        Answer(b'{"choices": [{"mess'), "transient", True, "the answer is not JSON: "
    ),
    "no body": Case(Answer(), "transient", True, "the answer is not JSON: "),
    "JSON of another kind": Case(Answer(b"[1]"), "transient", True, "the answer could not be used"),
    "an empty object": Case(json_answer({}), "transient", True, "the answer could not be used"),
    "a cut body": Case(
        Answer(lost=HEAD + b'{"choices": ['), "transient", True, "the connection to PLACE broke"
    ),
    "a cut connection": Case(Answer(lost=b""), "transient", True, "the connection to PLACE broke"),
    "a gateway's page": Case(
        Answer(PAGE.replace(b"Welcome", b"502 Bad Gateway"), 502, content_type="text/html"),
        "transient", False, "the provider failed (502): an HTML page: 502 Bad Gateway",
    ),
    "a page that is not there": Case(
        Answer(PAGE, 404, content_type="text/html"), "fatal", False,
        "the model or the address is not known (404): an HTML page: Welcome; check `model:`",
    ),
    "an error without words": Case(
        Answer(b"", 503), "transient", False, "the provider failed (503)"
    ),
    "an error without bounds": Case(
        Answer(b"[" * 900 + b"1" + b"]" * 900, 500), "transient", False, "the provider failed (500)"
    ),
    "words with control characters": Case(
        json_answer({"error": {"message": "a\x1b[31m\nb\u202e"}}, 500), "transient", False,
        "the provider failed (500): a b",
    ),
}  # fmt: skip


class TestAServerThatIsNotWell:
    @pytest.mark.parametrize("model", [HostileServer.model, CLAUDE])
    @pytest.mark.parametrize("name", UNUSABLE)
    async def test_what_is_no_answer_is_sorted(
        self, hostile: HostileServer, call: Call, name: str, model: str
    ) -> None:
        case = UNUSABLE[name]
        hostile.queue(case.answer)
        error = await sent_once(hostile, call, model)
        assert (error.error_class, error.charged) == (case.error_class, case.charged)
        assert error.unreadable == case.is_unreadable
        assert error.message.startswith(case.message.replace("PLACE", hostile.base_url))

    @pytest.mark.parametrize("model", [HostileServer.model, CLAUDE])
    async def test_a_hang_is_transient_and_stays_charged(
        self, hostile: HostileServer, call: Call, model: str
    ) -> None:
        hostile.queue(Answer(hang=True))
        error = await failure(call(hostile.base_url, model, timeout=1.0))
        assert (error.error_class, error.charged) == ("transient", True)
        assert error.message == f"no answer in time from {hostile.base_url}"
        assert len(hostile.requests()) == 1

    @pytest.mark.parametrize(
        ("model", "most"),
        # Where LiteLLM speaks HTTP without OpenAI's client, older versions send a request that was
        # reset once more, and nothing switches that off.
        [(HostileServer.model, 1), (CLAUDE, 2)],
    )
    async def test_a_reset_is_transient_and_stays_charged(
        self, hostile: HostileServer, call: Call, model: str, most: int
    ) -> None:
        hostile.queue(*[Answer(lost=b"", reset=True)] * most)
        error = await failure(call(hostile.base_url, model))
        assert (error.error_class, error.charged) == ("transient", True)
        assert error.message.startswith(f"the connection to {hostile.base_url} broke")
        assert 1 <= len(hostile.requests()) <= most

    async def test_a_reply_without_choices_is_no_error(
        self, hostile: HostileServer, call: Call
    ) -> None:
        hostile.queue(json_answer({"id": "1", "model": "m", "choices": []}))
        assert (await call(hostile.base_url)).choices == []

    @pytest.mark.parametrize("status", [400, 403, 404, 429, 500])
    @pytest.mark.parametrize("model", [HostileServer.model, CLAUDE])
    async def test_a_key_that_the_provider_repeats_is_not_told(
        self, hostile: HostileServer, call: Call, status: int, model: str
    ) -> None:
        hostile.fail(status, message=f"{'x' * 225} {KEY} is not welcome")
        error = await sent_once(hostile, call, model)
        assert KEY[:9] not in error.message

    async def test_a_long_answer_is_told_in_short(self, hostile: HostileServer, call: Call) -> None:
        hostile.fail(400, message="word " * 1000)
        assert len((await sent_once(hostile, call)).message) < 400

    async def test_words_of_a_broken_answer_do_not_decide(
        self, hostile: HostileServer, call: Call
    ) -> None:
        hostile.queue(Answer(b'{"content": "Missing credentials: <html> api key must be set'))
        error = await sent_once(hostile, call, CLAUDE)
        assert (error.error_class, error.charged) == ("transient", True)

    async def test_an_answer_of_another_shape_is_a_content_fault(
        self, hostile: HostileServer, call: Call, litellm: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(litellm, "enable_json_schema_validation", True)
        schema = {"type": "object", "required": ["title"], "properties": {"title": {}}}
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
        hostile.say('{"api key must be set": 1}')
        error = await failure(call(hostile.base_url, response_format=form))
        assert (error.error_class, error.charged) == ("content", True)


class TestACallThatIsNotMade:
    @pytest.mark.parametrize("model", [HostileServer.model, CLAUDE, "ollama_chat/llama3"])
    async def test_a_refused_connection_is_transient_and_costs_nothing(
        self, call: Call, model: str
    ) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            address = f"http://127.0.0.1:{closed.getsockname()[1]}"
            error = await failure(call(f"{address}/v1?token=hush", model))
        assert (error.error_class, error.charged) == ("transient", False)
        assert error.message == f"nothing answers at {address}: is the server running?"

    async def test_an_unknown_host_is_transient(self, call: Call) -> None:
        error = await failure(call("http://nowhere.invalid/v1"))
        assert (error.error_class, error.charged) == ("transient", False)
        assert error.message.startswith("the host of http://nowhere.invalid is not found: ")

    async def test_a_plain_server_under_https_is_fatal(
        self, hostile: HostileServer, call: Call
    ) -> None:
        address = hostile.base_url.replace("http:", "https:")
        error = await failure(call(address))
        assert (error.error_class, error.charged) == ("fatal", False)
        assert error.message.startswith(f"no secure connection to {address}: check `base_url:`")

    @pytest.mark.parametrize("model", [HostileServer.model, CLAUDE])
    @pytest.mark.parametrize("address", ["localhost:11434/v1", "ftp://localhost/v1"])
    async def test_what_is_no_address_is_fatal(self, call: Call, address: str, model: str) -> None:
        error = await failure(call(address, model))
        assert (error.error_class, error.charged) == ("fatal", False)
        assert error.message == "`base_url:` is not a URL: write http://… or https://…"

    @pytest.mark.parametrize("model", [HostileServer.model, CLAUDE])
    @pytest.mark.parametrize(
        ("address", "cause"),
        [
            ("http://localhost:99999", "Port out of range"),
            ("http://[::1/v1", "Invalid IPv6 URL"),
            ("http://me:hush@localhost:9", "credentials encoded in URL"),
        ],
    )
    async def test_an_address_that_can_not_be_used_is_fatal(
        self, call: Call, address: str, cause: str, model: str
    ) -> None:
        error = await failure(call(address, model))
        assert (error.error_class, error.charged) == ("fatal", False)
        assert error.message == f"`base_url:` can't be used: {cause}"

    @pytest.mark.parametrize(
        ("model", "variable"),
        [
            (HostileServer.model, "OPENAI_API_KEY"),
            (CLAUDE, "ANTHROPIC_API_KEY"),
            ("gemini/gemini-2.5-flash", "GEMINI_API_KEY"),
        ],
    )
    async def test_a_missing_key_is_fatal_and_its_variable_is_named(
        self, call: Call, model: str, variable: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("GEMINI_API_KEY", raising=False)
        monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
        error = await failure(call(None, model, api_key=None))
        assert (error.error_class, error.charged) == ("fatal", False)
        assert error.message == f"no API key: set {variable} (or `api_key_env:` of the agent)"

    async def test_a_key_that_no_header_can_hold_is_fatal(
        self, hostile: HostileServer, call: Call
    ) -> None:
        error = await failure(call(hostile.base_url, api_key="sk-ключ"))
        assert error.error_class == "fatal"
        assert error.message == "a header can't be sent: the API key is not plain ASCII"
        assert hostile.requests() == []

    @pytest.mark.parametrize("key", ["sk-one-key\n", "sk-one\r\n-key", "sk-one-key "])
    @pytest.mark.parametrize("model", [
        HostileServer.model, "gemini/ours", "azure/ours", "groq/ours", "openai/responses/ours",
    ])  # fmt: skip
    async def test_a_key_with_a_line_break_is_fatal_and_its_variable_is_named(
        self, hostile: HostileServer, call: Call, model: str, key: str
    ) -> None:
        error = await failure(call(hostile.base_url, model, api_key=key, api_version="2025-01-01"))
        provider = model.partition("/")[0].removesuffix("_chat").upper()
        assert (error.error_class, error.charged, error.sent) == ("fatal", False, False)
        assert error.message.replace(" or GOOGLE_API_KEY", "") == (
            "the API key has a line break, a blank or another character that can't be sent: "
            f"set the environment variable {provider}_API_KEY without it"
        )
        assert hostile.requests() == []

    async def test_a_model_of_no_provider_is_fatal(self, call: Call) -> None:
        error = await failure(call(None, "my-model"))
        assert error.error_class == "fatal"
        assert error.message == (
            "LiteLLM knows no provider for the model `my-model`: "
            "write PROVIDER/MODEL, such as openai/gpt-5-mini"
        )

    async def test_a_parameter_that_the_model_does_not_take_is_fatal(
        self, hostile: HostileServer, call: Call
    ) -> None:
        error = await failure(call(hostile.base_url, reasoning_effort="high"))
        assert error.error_class == "fatal"
        assert error.message == (
            "openai does not support parameters: ['reasoning_effort'], for model=gpt-4o-mini; "
            "remove them from `params:` of the agent"
        )
        assert hostile.requests() == []

    def test_a_missing_package_is_fatal(self) -> None:
        error = as_agent_error(ModuleNotFoundError("No module named 'boto3'"))
        assert (error.error_class, error.charged) == ("fatal", False)
        assert error.message.endswith("No module named 'boto3'")

    def test_what_nobody_knows_is_fatal_and_said(self) -> None:
        error = as_agent_error(ValueError("an odd thing"))
        assert (error.error_class, error.charged) == ("fatal", False)
        assert error.message == "the model could not be called: an odd thing"

    def test_a_failure_of_an_earlier_try_does_not_count(self) -> None:
        earlier = AgentError("transient", "connection lost")
        earlier.__cause__ = TimeoutError()
        error = ValueError("an odd thing")
        error.__context__ = earlier
        assert as_agent_error(error).error_class == "fatal"


class TestTheWaitThatAProviderAsksFor:
    @pytest.mark.parametrize("said", ["-1", "NaN", "later", "Infinity"])
    async def test_an_absurd_header_leaves_the_error_as_it_is(
        self, hostile: HostileServer, call: Call, said: str
    ) -> None:
        body = json.dumps({"error": {"message": "Slow down"}}).encode()
        hostile.queue(Answer(body, 429, {"retry-after": said, "x-ratelimit-reset-tokens": said}))
        error = await sent_once(hostile, call)
        assert (error.error_class, error.retry_after_s) == ("transient", None)

    async def test_a_date_is_read_over_http(self, hostile: HostileServer, call: Call) -> None:
        soon = format_datetime(datetime.now(UTC) + timedelta(seconds=120), usegmt=True)
        hostile.queue(Answer(b"{}", 503, {"retry-after": soon}))
        error = await sent_once(hostile, call)
        assert error.retry_after_s == pytest.approx(120, abs=10)
