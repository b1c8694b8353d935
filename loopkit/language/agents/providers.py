"""Names of the providers that LiteLLM knows, read from its files: to import it takes seconds."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from loopkit.document.problems import closest

NEAR = 0.8
"""The similarity from which a name counts as a misspelt known one."""
NAMES = "types/utils.py"
SPOKEN_LIKE_OPENAI = "llms/openai_like/providers.json"
MODELS = "model_prices_and_context_window_backup.json"
CONSTANTS = "constants.py"
_CLASS = "\nclass LlmProviders(str, Enum):\n"
_INDENTED = re.compile(r"(?:    .*\n|\n)*")
_NAME = re.compile(r'^    [A-Z]\w* = "([^"]+)"', re.MULTILINE)


@cache
def known_providers() -> frozenset[str]:
    """Provider names allowed before the slash of a model; empty if LiteLLM keeps them elsewhere."""
    # A pattern would look at each line before the class, of which there are thousands.
    _, _, after = _text(NAMES).partition(_CLASS)
    body = _INDENTED.match(after)
    names = _NAME.findall(body[0]) if body else []
    own = json.loads(_text(SPOKEN_LIKE_OPENAI) or "{}")
    return frozenset(names) | own.keys() if names else frozenset()


def meant_model(model: str) -> str:
    """The model with the provider that was probably meant by a misspelt one; empty if none was."""
    provider, slash, rest = model.partition("/")
    known = known_providers()
    if not slash or not known or provider in known or is_listed(model):
        return ""
    near = closest(provider, sorted(known), NEAR)
    return f"{near}/{rest}" if near else ""


@cache
def is_listed(model: str) -> bool:
    """Whether LiteLLM lists a model under this very name, so that it needs no provider."""
    return f"\n    {json.dumps(model)}: {{" in _text(MODELS)


def has_no_provider(model: str) -> bool:
    """Whether LiteLLM finds no provider for a model that names none.

    It goes by the names that it knows, and by those of deployments and of fine-tuned models, which
    have colons. Where its files don't tell its names, every model may have a provider.
    """
    if "/" in model or ":" in model or not known_providers():
        return False
    return not any(json.dumps(model) in _text(names) for names in (MODELS, CONSTANTS))


@cache
def _text(name: str) -> str:
    spec = find_spec("litellm")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder, name)
        if path.is_file():
            return path.read_bytes().decode()
    return ""
