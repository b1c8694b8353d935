"""The agent `model`: a model, or a ladder of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from loopkit.language.agents.agent import AgentBase
from loopkit.language.noun import Noun, Text, Written, _one_or_more

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


class ModelAgent(AgentBase):
    """An agent behind a LiteLLM model string."""

    model: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...],
        Field(min_length=1),
        BeforeValidator(_one_or_more, json_schema_input_type=str | list[str]),
    ]
    """One model, or a ladder of them; the last one stays."""
    climb: Literal["revision", "stall"] = "revision"
    """A rung up for each revision, or for each report without progress."""
    system: Text = ""
    """The system prompt, sent as it is written; no template."""
    params: dict[str, Any] = {}
    """Every option of the provider, such as `max_tokens` or `temperature`."""
    base_url: str | None = None
    """Where the provider is reached; default is the provider's own address."""
    api_key_env: str | None = None
    """The environment variable that holds the key; default is the provider's own."""
    price: (
        Annotated[
            Annotated[Usd, Tag("<number>")] | Annotated[Price, Tag("<price>")],
            Discriminator(
                lambda value: "<number>" if isinstance(value, int | float) else "<price>"
            ),
        ]
        | None
    ) = None
    """USD for a million tokens, in and out; 0 for what costs nothing. Default is the list price."""
    structured: Literal["native", "text"] | None = None
    """How a `schema` is asked for: by the provider's own means, or in words.

    Default is native where the model is known to have it."""

    kind = "model"
    example = {"model": "openai/gpt-5-mini", "system": "You write."}

    @property
    def called(self) -> tuple[str, ...]:
        return self.model

    @property
    def key_env(self) -> str | None:
        return self.api_key_env

    @property
    def system_prompt(self) -> str:
        return self.system

    @property
    def plain_texts(self) -> Written:
        yield ("system",), self.system
