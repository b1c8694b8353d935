"""The environment variables that hold the keys of providers."""

from __future__ import annotations

_ALWAYS = {
    "anthropic", "cerebras", "codestral", "deepinfra", "fireworks_ai", "gemini", "lambda_ai",
    "meta_llama", "moonshot", "nebius", "novita", "nvidia_nim", "openai", "perplexity", "sambanova",
}  # fmt: skip
"""The providers that LiteLLM asks only with a key, at whatever address."""
_AT_HOME = {
    "cohere", "deepseek", "groq", "mistral", "openrouter", "replicate", "together_ai", "xai",
}  # fmt: skip
"""Those that it asks without one too, so that servers of one's own may need none."""
_SEVERAL_WAYS = {
    "azure", "azure_ai", "bedrock", "databricks", "datarobot", "oci", "sagemaker", "snowflake",
    "vertex_ai", "watsonx",
}  # fmt: skip
"""Those that also take a profile, a role or a token."""
_OF_AWS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_OTHER_NAMES = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "bedrock": _OF_AWS,
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "datarobot": ("DATAROBOT_API_TOKEN",),
    "fireworks_ai": (
        *("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"),
        *("FIREWORKSAI_API_KEY", "FIREWORKS_AI_TOKEN"),
    ),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "lambda_ai": ("LAMBDA_API_KEY",),
    "meta_llama": ("LLAMA_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
    "perplexity": ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
    "replicate": ("REPLICATE_API_KEY", "REPLICATE_API_TOKEN"),
    "sagemaker": _OF_AWS,
    "snowflake": ("SNOWFLAKE_JWT",),
    "together_ai": ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"),
    "vertex_ai": ("GOOGLE_APPLICATION_CREDENTIALS",),
}


def variables_of(provider: str) -> tuple[str, ...]:
    """The usual variables of a provider, of which one is enough."""
    usual = f"{provider.removesuffix('_chat').upper()}_API_KEY"
    return _OTHER_NAMES.get(provider, (usual,))


def needed_variables(provider: str) -> tuple[str, ...]:
    """Those of a provider that asks for a key; none for servers of one's own, and unknown ones."""
    known = _ALWAYS | _AT_HOME | _SEVERAL_WAYS
    return variables_of(provider) if provider.removesuffix("_chat") in known else ()


def is_only_way(provider: str, base_url: str | None) -> bool:
    """Whether a provider, asked at this address, takes nothing but a key."""
    return provider in _ALWAYS or (base_url is None and provider.removesuffix("_chat") in _AT_HOME)


ALL_VARIABLES = frozenset(
    name for one in (_ALWAYS | _AT_HOME | _SEVERAL_WAYS) for name in variables_of(one)
)
