"""Run in an environment with loopkit's own dependencies only: does LiteLLM work in it?

`python canary.py BASE_URL` makes a call with a tool and a structured one. Some releases of LiteLLM
fail at the first of these, because a package is missing that they do not name.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from loopkit.agents.model.client import close, complete
from loopkit.agents.model.failure_cause import Received

TOOL = {
    "type": "function",
    "function": {
        "name": "validate_plan",
        "description": "Judge a plan.",
        "parameters": {"type": "object", "properties": {"plan": {"type": "string"}}},
    },
}
SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "string"}},
    "required": ["verdict"],
    "additionalProperties": False,
}
FORMAT = {
    "type": "json_schema",
    "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
}


async def main(base_url: str) -> None:
    async def asked(**options: Any) -> Any:
        messages = [{"role": "user", "content": "Is this plan good?"}]
        model = {"model": "openai/gpt-4o-mini", "base_url": base_url, "api_key": "none"}
        return await complete({**model, "messages": messages, **options}, Received())

    called = (await asked(tools=[TOOL])).choices[0].message
    assert called.tool_calls[0].function.name == "validate_plan", called
    structured = (await asked(response_format=FORMAT)).choices[0].message
    assert isinstance(json.loads(structured.content)["verdict"], str), structured
    await close()
    print("alive")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
