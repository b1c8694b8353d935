"""The agent `model`: a model or a ladder of them, and the fallbacks that are asked instead."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from loopkit.document.problems import did_you_mean
from loopkit.language.agents.agent import CalledAgent
from loopkit.language.agents.calls import Retry
from loopkit.language.agents.tools import Tool
from loopkit.language.noun import Duration, Id, Noun, Text, Written, fault, one_or_more

Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Price(Noun):
    """What a million tokens cost, in USD."""

    input: Usd
    """USD for a million tokens of input."""
    output: Usd
    """USD for a million tokens of output."""
    cached: Usd | None = None
    """Input tokens that the provider had in its cache; without it they cost as much as others."""
    cache_write: Usd | None = None
    """Input tokens that the provider puts into its cache; without it as the others."""


Models = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...],
    Field(min_length=1),
    BeforeValidator(one_or_more, json_schema_input_type=str | list[str]),
]
"""A model, or a ladder of them."""
Rate = Annotated[
    Annotated[Usd, Tag("<number>")] | Annotated[Price, Tag("<price>")],
    Discriminator(lambda value: "<number>" if isinstance(value, int | float) else "<price>"),
]
"""USD for a million tokens: one number for all of them, or one for each sort."""
Structured = Literal["native", "text"]
ToolUse = Literal["native", "runner"]


class Fallback(Noun):
    """Who is asked where an agent can't be had. What it does not say is as the agent has it."""

    model: Models
    """One model, or a ladder of them, as an agent has."""
    system: Text | None = None
    """Its own system prompt."""
    params: dict[str, Any] | None = None
    """Its own options, instead of all those of the agent."""
    base_url: str | None = None
    """Where its provider is reached; default is the agent's, where the provider is the same."""
    api_key_env: str | None = None
    """The variable that holds its key; default is the agent's, where provider and address are."""
    price: Rate | None = None
    """USD for a million tokens; default is the list price."""
    structured: Structured | None = None
    """How it is asked for a `schema`; default is native where the model is known to have it."""
    tool_use: ToolUse | None = None
    """Whether it calls the agent's tools; default is native, but where it is known to have none."""
    retry: Retry | None = None
    """Its own tries."""
    timeout: Duration | None = None
    """Wall-clock limit of one call to it."""


def _as_fallback(value: object) -> object:
    return {"model": value} if isinstance(value, str) else value


class ModelAgent(CalledAgent):
    """An agent behind a LiteLLM model string."""

    model: Models
    """One model, or a ladder of them; the last one stays."""
    climb: Literal["revision", "stall"] = "revision"
    """A rung up for each revision, or for each report without progress."""
    rung: int = Field(1, ge=1, le=1000)
    """How many works are asked of each rung before the next one has its turn."""
    system: Text = ""
    """The system prompt, sent as it is written; no template."""
    params: dict[str, Any] = {}
    """Every option of the provider, such as `max_tokens` or `temperature`."""
    base_url: str | None = None
    """Where the provider is reached; default is the provider's own address."""
    api_key_env: str | None = None
    """The environment variable that holds the key; default is the provider's own."""
    price: Rate | None = None
    """USD for a million tokens, in and out; 0 for what costs nothing. Default is the list price."""
    structured: Structured | None = None
    """How a `schema` is asked for: by the provider's own means, or in words.

    Default is native where the model is known to have it."""

    fallbacks: Annotated[
        tuple[
            Annotated[
                Fallback, BeforeValidator(_as_fallback, json_schema_input_type=str | Fallback)
            ],
            ...,
        ],
        BeforeValidator(one_or_more, json_schema_input_type=str | list[str | Fallback]),
    ] = ()
    """Who is asked, one after the other, where the model can't be had."""
    tools: dict[Id, Tool] = {}
    """What it may call while it writes."""
    require_tool: Id | None = None
    """The tool whose last call must have found the answer clean."""
    max_tool_calls: int = Field(8, ge=1, le=1000)
    """Calls of tools in one attempt, refused ones included; then an answer is asked for."""
    reask: int = Field(2, ge=0, le=10)
    """How often it is asked again where its answer is not what `require_tool` asks for."""
    tool_use: ToolUse | None = None
    """Whether the model calls its tools, or loopkit calls the required one for it.

    Default is native, but where the model is known to have no tools."""

    @model_validator(mode="after")
    def _required_tool_validates(self) -> Self:
        if self.require_tool is None:
            return self
        if self.require_tool not in self._validating:
            raise fault(
                "unknown-tool",
                f"`{self.require_tool}` is no tool of the agent that validates",
                ("require_tool",),
                help=did_you_mean(self.require_tool, self._validating)
                or "name one of its `tools:` that has `by:`",
            )
        return self

    @property
    def _validating(self) -> list[str]:
        return [name for name, tool in self.tools.items() if tool.validators]

    kind = "model"
    front_matter = frozenset({"description", "model"})
    example = {"model": "openai/gpt-5-mini", "system": "You write."}

    @property
    def called(self) -> tuple[str, ...]:
        return self.model

    @property
    def models(self) -> tuple[str, ...]:
        return self.model

    @property
    def options(self) -> Mapping[str, Any]:
        return self.params

    @property
    def key_env(self) -> str | None:
        return self.api_key_env

    @property
    def system_prompt(self) -> str:
        return self.system

    @property
    def in_turn(self) -> tuple[Self, ...]:
        return (self, *(self.with_model_of(fallback) for fallback in self.fallbacks))

    @property
    def knows_only_what_it_is_told(self) -> bool:
        return not self.tools

    @property
    def callable_tools(self) -> Mapping[str, Tool]:
        return self.tools

    def with_paths_from(self, folder: Path) -> Self:
        if not self.tools:
            return self
        tools = {name: tool.with_paths_from(folder) for name, tool in self.tools.items()}
        return self.model_copy(update={"tools": tools})

    @property
    def required_tool(self) -> str | None:
        return self.require_tool

    @property
    def without_tools(self) -> frozenset[int]:
        return frozenset(n for n, one in enumerate(self.in_turn) if one.tool_use == "runner")

    @property
    def leaves_tools_alone(self) -> bool:
        return len(self.without_tools) == len(self.in_turn)

    @property
    def most_rounds(self) -> int:
        if self.leaves_tools_alone:
            # The call of the required tool belongs to the draft that it judges.
            return max(0, self.most_tool_calls - 1)
        return self.most_tool_calls + (self.reask if self.require_tool else 0)

    @property
    def most_tool_calls(self) -> int:
        is_called = self.require_tool or not self.leaves_tools_alone
        return self.max_tool_calls if self.tools and is_called else 0

    @property
    def usual_calls(self) -> int:
        # A draft for the required tool, then the same as the answer.
        return 2 if self.require_tool and self.tool_use != "runner" else 1

    @property
    def plain_texts(self) -> Written:
        yield ("system",), self.system
        for index, fallback in enumerate(self.fallbacks):
            if fallback.system is not None:
                yield ("fallbacks", index, "system"), fallback.system

    def model_after(self, climbed: int) -> str:
        """The model that has its turn after so many revisions or stalls; the last one stays."""
        return self.model[min(climbed // self.rung, len(self.model) - 1)]

    def with_named_models(self, table: Mapping[str, str]) -> Self:
        fallbacks = tuple(
            one.model_copy(update={"model": _resolve_names(one.model, table)})
            for one in self.fallbacks
        )
        models = _resolve_names(self.model, table)
        return self.model_copy(update={"model": models, "fallbacks": fallbacks})

    def with_model_of(self, by: Fallback) -> Self:
        """The agent with another model, and without fallbacks.

        What belongs to the replaced model goes with it: its price, and where the provider or the
        address is another one, its address and its key, which no stranger may be sent.
        """
        given = {name: getattr(by, name) for name in Fallback.model_fields}
        own = {name: value for name, value in given.items() if value is not None}
        strange = _providers(by.model) != _providers(self.model)
        lost = ["price", "structured", "tool_use"] + (["base_url"] if strange else [])
        is_moved = strange or by.base_url not in (None, self.base_url)
        lost += ["api_key_env"] if is_moved else []
        return self.model_copy(update={**dict.fromkeys(lost), **own, "fallbacks": ()})


def _resolve_names(models: Iterable[str], table: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(table.get(model, model) for model in models)


def _providers(models: Iterable[str]) -> set[str]:
    return {model.partition("/")[0] for model in models}
