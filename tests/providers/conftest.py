"""Servers that play providers, started once for each worker and emptied for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.providers.anthropic_mock import AnthropicMock
from tests.providers.hostile import HostileServer
from tests.providers.openai_mock import OpenAIMock
from tests.providers.server import ModelServer

KEY_VARIABLE = "LOOPKIT_TEST_PROVIDER_KEY"
KEY = "sk-a-key-that-nobody-may-read"


@pytest.fixture(scope="session")
def _openai_mock() -> Iterator[OpenAIMock]:
    server = OpenAIMock()
    yield server
    server.stop()


@pytest.fixture
def openai_server(_openai_mock: OpenAIMock) -> OpenAIMock:
    """llmock."""
    _openai_mock.reset()
    return _openai_mock


@pytest.fixture(scope="session")
def _anthropic_mock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnthropicMock]:
    server = AnthropicMock(tmp_path_factory.mktemp("aimock"))
    yield server
    server.stop()


@pytest.fixture
def anthropic_server(_anthropic_mock: AnthropicMock) -> AnthropicMock:
    """aimock."""
    _anthropic_mock.reset()
    return _anthropic_mock


@pytest.fixture
def hostile() -> Iterator[HostileServer]:
    """Our own, for what no well-meant mock does."""
    server = HostileServer()
    yield server
    server.stop()


@pytest.fixture
def provider_key(monkeypatch: pytest.MonkeyPatch) -> str:
    """The variable that holds a key, and no key of the person who runs the tests."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    return KEY_VARIABLE


@pytest.fixture(params=["openai", "anthropic"])
def provider(request: pytest.FixtureRequest) -> ModelServer:
    """Each of the two servers that nobody here wrote."""
    server: ModelServer = request.getfixturevalue(f"{request.param}_server")
    return server


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials that no request is signed with for real."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "made-up-for-a-test")
    monkeypatch.setenv("AWS_REGION_NAME", "us-east-1")
