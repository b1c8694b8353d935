"""Run in an environment with loopkit's own dependencies only: does LiteLLM work in it?

`python canary.py BASE_URL` makes a call with a tool and a structured one. Some releases of LiteLLM
fail at the first of these, because a package is missing that they do not name.
"""

import asyncio
import json
import sys
from typing import Any

from loopkit.agents.model.client import close, complete
from loopkit.agents.model.failure_cause import Received

PLAN = {"type": "object", "properties": {"plan": {"type": "string"}}}
TOOL = {"name": "validate_plan", "description": "Judge a plan.", "parameters": PLAN}
VERDICT = {
    "type": "object", "properties": {"verdict": {"type": "string"}},
    "required": ["verdict"], "additionalProperties": False,
}  # fmt: skip
ANSWER = {"name": "answer", "schema": VERDICT, "strict": True}


async def main(base_url: str) -> None:
    async def asked(**options: Any) -> Any:
        messages = [{"role": "user", "content": "Is this plan good?"}]
        model = {"model": "openai/gpt-4o-mini", "base_url": base_url, "api_key": "none"}
        return await complete({**model, "messages": messages, **options}, Received())

    called = (await asked(tools=[{"type": "function", "function": TOOL}])).choices[0].message
    assert called.tool_calls[0].function.name == "validate_plan", called
    form = {"type": "json_schema", "json_schema": ANSWER}
    structured = (await asked(response_format=form)).choices[0].message
    assert isinstance(json.loads(structured.content)["verdict"], str), structured
    await close()
    print("alive")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
