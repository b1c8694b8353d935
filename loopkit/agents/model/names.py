"""Names of models: the keys under which LiteLLM's table may list a name that people write.

Its documentation has them write `bedrock/…`, `vertex_ai/…` or `cohere/…`; the table divides these
providers further. A version that is not listed has the price of the model without a version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_BEDROCK = ("bedrock", "bedrock_converse", "bedrock_mantle")
_SOLD_AS: Mapping[str, tuple[str, ...]] = {
    "ai21_chat": ("ai21",),
    "amazon-nova": ("amazon_nova",),
    "anthropic_text": ("anthropic",),
    "azure": ("azure", "azure_text"),
    "azure_ai": ("azure_ai", "azure", "openai"),
    "bedrock": _BEDROCK,
    "bedrock_converse": _BEDROCK,
    "bedrock_mantle": _BEDROCK,
    "cohere": ("cohere", "cohere_chat"),
    "ollama_chat": ("ollama",),
    "sagemaker_chat": ("sagemaker",),
    "vertex_ai_beta": ("vertex_ai",),
    "watsonx_text": ("watsonx",),
}
"""By prefix: the providers that the table gives its models, where those have other names."""
_LISTED_UNDER: Mapping[str, tuple[str, ...]] = {
    "amazon_nova": ("amazon-nova/",),
    "azure_text": ("azure/",),
    "fireworks_ai": tuple(
        f"fireworks_ai/accounts/fireworks/{kind}/" for kind in ("models", "routers")
    ),
    "ollama_chat": ("ollama/",),
    "sagemaker_chat": ("sagemaker/",),
    "vertex_ai": ("vertex_ai/meta/",),
    "vertex_ai_beta": ("vertex_ai/",),
    "watsonx_text": ("watsonx/",),
}
"""By prefix: how the table's keys begin, where that is neither the prefix nor empty."""
_RESELLER = "github"
"""It sells models of others under their own names."""

_ROUTE = re.compile(r"(?:converse|invoke|chat_completions|mantle|openai|responses|nova(?:-2)?)/")
"""The interface of a provider that is called; the price is the same for all."""
_AWS_PLACE = re.compile(r"^(?:(?:[a-z]+-)+\d+/|(?:global|apac|[a-z]{2}(?:-gov)?)\.(?=.+\.))")
_AWS_WINDOW = re.compile(r"(?<=:\d):\d+k$|\[\w+\]$")
_GOOGLE_VERSION = re.compile(r"-\d+$")
_FINE_TUNED = re.compile(r"(?<=ft:)([^:]+)(?::[^:]*){3}$")
_SNAPSHOT = re.compile(r"-\d{4}-\d\d-\d\d$")
_VERSIONED = frozenset({"vertex_ai", "vertex_ai_beta", "gemini", "databricks"})


def keys(model: str) -> Iterator[str]:
    """The keys under which a model may be listed, the likeliest first."""
    prefix, slash, name = model.partition("/")
    if not slash:
        yield from (model, _ordinary(model))
        return
    for form in _forms(prefix, name):
        for start in (f"{prefix}/", *_LISTED_UNDER.get(prefix, ()), ""):
            yield start + form


def sells(model: str, provider: str | None) -> bool:
    """Whether the prefix of a model is that of a provider in the table; a name without one fits."""
    prefix, slash, _ = model.partition("/")
    if not slash or provider is None or prefix == _RESELLER:
        return True
    names = _SOLD_AS.get(prefix, (prefix,))
    return any(provider == name or provider.startswith(f"{name}-") for name in names)


def _forms(prefix: str, name: str) -> Iterator[str]:
    """The name as it is written, then without its region, its route and its version."""
    yield name
    bare = name
    while route := _ROUTE.match(bare):
        bare = bare[route.end() :]
    yield bare
    if prefix in _BEDROCK:
        whole = _AWS_WINDOW.sub("", bare.rpartition("/")[2] if "arn:" in bare else bare)
        yield whole
        yield _AWS_PLACE.sub("", whole)
    elif prefix in _VERSIONED:
        yield f"{bare}@latest"
        yield _GOOGLE_VERSION.sub("", bare)
    else:
        yield _ordinary(bare)


def _ordinary(name: str) -> str:
    return _FINE_TUNED.sub(r"\1", name) if "ft:" in name else _SNAPSHOT.sub("", name)
