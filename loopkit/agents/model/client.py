"""The one place that knows LiteLLM: imported late, kept quiet, closed at the end."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
import warnings
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any

from loopkit.agents.model.failure_cause import CURRENT_RECEIVED, Received
from loopkit.text.json_text import texts_in

ENVIRONMENT = {
    # Prices come with the package; nothing is fetched, and no `.env` is read.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_MODE": "PRODUCTION",
}
FIXED: Mapping[str, Any] = {"max_retries": 0, "num_retries": 0, "timeout": 6 * 3600.0}
"""Each layer below would try again by itself, and each try is paid; each other timeout makes a
client of its own, and the caller holds the deadline."""

_importing = threading.Lock()
_calls: Counter[asyncio.AbstractEventLoop] = Counter()
"""The calls that are being made in each event loop."""
_loaded: ModuleType | None = None


async def complete(arguments: Mapping[str, Any], received: Received) -> Any:
    """LiteLLM's response to one request, kept raw in `received`; raises whatever LiteLLM raises."""
    litellm = await ready()
    CURRENT_RECEIVED.set(received)
    loop = asyncio.get_running_loop()
    _calls[loop] += 1
    try:
        response = await litellm.acompletion(**arguments, **FIXED)
    except litellm.UnsupportedParamsError:
        if arguments.get("tool_choice") != "none":
            raise
        # LiteLLM can't tell this provider not to call a tool.
        free = {name: value for name, value in arguments.items() if name != "tool_choice"}
        response = await litellm.acompletion(**free, **FIXED)
    finally:
        _calls[loop] -= 1
        if not _calls[loop]:
            del _calls[loop]
    _set_cost(litellm, response, arguments)
    # LiteLLM keeps the refusal of a chat, but not that of OpenAI's Responses.
    output = received.record.get("output") if b'"refusal"' in received.body else None
    refusals = [text for at, text in texts_in(output) if at[-1:] == ("refusal",)]
    if response.choices and refusals:
        response.choices[0].message.refusal = refusals[0]
    return response


async def read(answer: Mapping[str, Any], model: str) -> Any:
    """Turn an answer in OpenAI's chat form into LiteLLM's response, with its cost if known."""
    litellm = await ready()
    from litellm.litellm_core_utils.llm_response_utils.convert_dict_to_response import (  # noqa: PLC0415 - as below
        convert_to_model_response_object,
    )

    response = convert_to_model_response_object(dict(answer), litellm.ModelResponse())
    _set_cost(litellm, response, {"model": model})
    return response


def _set_cost(litellm: Any, response: Any, arguments: Mapping[str, Any]) -> None:
    """Put what LiteLLM computes, or a server's higher figure, to where it puts that itself."""
    options = {name: arguments.get(name) for name in ("model", "service_tier", "vertex_location")}
    hidden = response._hidden_params  # noqa: SLF001 - LiteLLM's own place
    # It raises if it has no price, or if the counts are not numbers.
    with suppress(Exception):
        usage = response.usage
        # Some providers count thoughts in the total alone.
        usage.completion_tokens = max(
            usage.completion_tokens, usage.total_tokens - usage.prompt_tokens
        )
        listed = litellm.completion_cost(response, **options)
        hidden["response_cost"] = max(hidden.get("response_cost") or 0.0, listed)


async def ready() -> ModuleType:
    return _loaded if _loaded is not None else await asyncio.to_thread(_load)


def preload() -> None:
    """Begin the import, which takes more than a second, in the background."""
    if _loaded is None and not _importing.locked():
        threading.Thread(target=_load, name="litellm", daemon=True).start()


async def close() -> None:
    """Close the connections of this event loop, unless somebody else makes a call there."""
    if _loaded is not None and asyncio.get_running_loop() not in _calls:
        from loopkit.agents.model.http_client import close_connections  # noqa: PLC0415 - as below

        await close_connections()


def _load() -> ModuleType:
    global _loaded  # noqa: PLW0603 - a module is loaded once a process
    with _importing:
        if _loaded is None:
            _loaded = _import_litellm()
    return _loaded


def _import_litellm() -> ModuleType:
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # What is imported stays. The search for garbage in it would take 0.8 s of 2.4 s.
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        import litellm  # noqa: PLC0415 - it costs more than a second
        from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER  # noqa: PLC0415
    finally:
        if was_collecting:
            gc.enable()
    # What follows is for its developers: notes on its types and on what a server sent, help on
    # stdout, logs with keys.
    for notes in (r"Items? .* using the `ReadOnly` qualifier", "Pydantic serializer warnings"):
        warnings.filterwarnings("ignore", message=notes)
    litellm.suppress_debug_info = True
    # It belongs to one event loop at a time, and says on stderr what goes wrong with two of them.
    worker: Any = GLOBAL_LOGGING_WORKER
    worker.ensure_initialized_and_enqueue = lambda async_coroutine: async_coroutine.close()
    _give_client(litellm)
    for logger in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(logger).disabled = True
    return litellm


def _give_client(litellm: Any) -> None:
    from litellm.caching.llm_caching_handler import LLMClientCache  # noqa: PLC0415 - as above
    from litellm.llms.custom_httpx import http_handler  # noqa: PLC0415

    from loopkit.agents.model.http_client import Client  # noqa: PLC0415 - it costs 0.1 s

    class Clients(LLMClientCache):
        """LiteLLM's cache, which holds each of its handlers before that is used first."""

        def set_cache(self, key: str, value: Any, *args: Any, **options: Any) -> Any:
            if isinstance(value, http_handler.AsyncHTTPHandler):
                value.client = Client(http_handler.get_ssl_configuration(value.ssl_verify))
            return super().set_cache(key, value, *args, **options)

    litellm.in_memory_llm_clients_cache = Clients()
    # For the SDK of OpenAI, which its handlers do not use.
    litellm.aclient_session = Client(http_handler.get_ssl_configuration())
