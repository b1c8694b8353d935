"""The agent `model`: a model or a ladder of them, and the fallbacks that are asked instead."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from loopkit.document.problems import did_you_mean
from loopkit.language.agents.agent import CalledAgent
from loopkit.language.agents.tools import Tool
from loopkit.language.section import (
    Duration,
    Id,
    Noun,
    Retry,
    Text,
    Variable,
    Word,
    Written,
    by_type,
    fault,
    one_or_more,
    or_one,
)

Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Price(Noun):
    """The price of a million tokens, in USD."""

    input: Usd
    """USD per million input tokens."""
    output: Usd
    """USD per million output tokens."""
    cached: Usd | None = None
    """USD per million input tokens read from the provider's cache. Default: the price of other
    input."""
    cache_write: Usd | None = None
    """USD per million input tokens written to the provider's cache. Default: the price of other
    input."""


Models = Annotated[tuple[Word, ...], Field(min_length=1), or_one(str)]
Rate = Annotated[Usd | Price, by_type("<number>", "<price>", int, float)]
"""USD for a million tokens: one number for all of them, or one for each sort."""
Structured = Literal["native", "text"]
ToolUse = Literal["native", "runner"]


class Fallback(Noun):
    """A model to use if the agent's own is unavailable. Settings that it omits are taken from the
    agent."""

    model: Models
    """The model, or a ladder of models."""
    system: Text | None = None
    """The system prompt for the fallback."""
    params: dict[str, Any] | None = None
    """The provider's options for the fallback; they replace all options of the agent."""
    base_url: str | None = None
    """The address of the provider. Default: the agent's, if the provider is the same."""
    api_key_env: Variable | None = None
    """The environment variable with the API key. Default: the agent's, if provider and address are
    the same."""
    price: Rate | None = None
    """The price in USD per million tokens. Default: the list price."""
    structured: Structured | None = None
    """How a `schema` is requested. Default: native if the model is known to support it."""
    tool_use: ToolUse | None = None
    """Whether the model calls the agent's tools itself. Default: native, unless the model is known
    to have no tools."""
    retry: Retry | None = None
    """How to retry calls to the fallback."""
    timeout: Duration | None = None
    """The wall-clock time limit of one call to the fallback."""


def _as_fallback(value: object) -> object:
    return {"model": value} if isinstance(value, str) else value


class ModelAgent(CalledAgent):
    """An agent that is a model, given by a LiteLLM model string."""

    model: Models
    """The model, or a ladder of models. After the last rung the model no longer changes."""
    climb: Literal["revision", "stall"] = "revision"
    """Whether each revision moves one rung up the ladder, or each report without progress."""
    rung: int = Field(1, ge=1, le=1000)
    """How many revisions, or reports without progress, it takes to move up one rung."""
    system: Text = ""
    """The system prompt; not a template."""
    params: dict[str, Any] = {}
    """Options of the provider, such as `max_tokens` or `temperature`, passed on unchanged."""
    base_url: str | None = None
    """The address of the provider. Default: the provider's own."""
    api_key_env: Variable | None = None
    """The environment variable with the API key. Default: the provider's own."""
    price: Rate | None = None
    """The price in USD per million tokens, for input and output; 0 if it is free. Default: the list
    price."""
    structured: Structured | None = None
    """How a `schema` is requested: by the provider's own means, or in words.

    Default: native if the model is known to support it.
    """

    fallbacks: Annotated[
        tuple[
            Annotated[
                Fallback, BeforeValidator(_as_fallback, json_schema_input_type=str | Fallback)
            ],
            ...,
        ],
        BeforeValidator(one_or_more, json_schema_input_type=str | list[str | Fallback]),
    ] = ()
    """The models to ask, in order, if the main one is unavailable."""
    tools: dict[Id, Tool] = {}
    """The tools that the model may call while it writes."""
    require_tool: Id | None = None
    """A tool with `by`. The answer must be the draft that its last call found valid."""
    max_tool_calls: int = Field(8, ge=1, le=1000)
    """The maximum number of tool calls in one attempt, including refused ones. Then an answer is
    asked for."""
    reask: int = Field(2, ge=0, le=10)
    """The maximum number of re-asks if the answer is not what `require_tool` demands."""
    tool_use: ToolUse | None = None
    """Whether the model calls its tools itself, or loopkit calls the required one for it.

    Default: native, unless the model is known to have no tools.
    """

    @model_validator(mode="after")
    def _required_tool_validates(self) -> Self:
        validating = [name for name, tool in self.tools.items() if tool.validators]
        if self.require_tool is not None and self.require_tool not in validating:
            raise fault(
                "unknown-tool",
                f"`{self.require_tool}` is no tool of the agent that validates",
                ("require_tool",),
                help=did_you_mean(self.require_tool, validating)
                or "name one of its `tools:` that has `by:`",
            )
        return self

    kind = "model"
    front_matter = frozenset({"description", "model"})

    @property
    def in_turn(self) -> tuple[Self, ...]:
        return (self, *(self.with_model_of(fallback) for fallback in self.fallbacks))

    @property
    def callable_tools(self) -> Mapping[str, Tool]:
        return self.tools

    @property
    def without_tools(self) -> frozenset[int]:
        return frozenset(n for n, one in enumerate(self.in_turn) if one.tool_use == "runner")

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
        yield from super().plain_texts
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
