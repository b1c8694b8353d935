"""Agents: the authors and judges that a machine declares, each known by the key of its kind.

Names of models are checked here as well, by those of the providers that LiteLLM knows: they are
read from its files, because to import it takes seconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from loopkit.document.problems import closest, is_slip
from loopkit.language.agents.agent import AgentBase, CalledAgent
from loopkit.language.agents.model import ModelAgent
from loopkit.language.agents.program import LEAST_USD, ProgramAgent, Tools
from loopkit.language.section import (
    FROM_LIST,
    Argv,
    Duration,
    ErrorRule,
    Noun,
    Phrases,
    Text,
    Texts,
    Variables,
    Written,
    by_type,
    fault,
    one_of,
    templates_of,
)

TextForm = Literal["text", "stream_json"]


class JsonReply(Noun):
    """`reply: {json: PATH}`: the reply is one field of the JSON that the command prints."""

    json_: str = Field(alias="json")
    """The dotted path of the field."""


class CommandAgent(CalledAgent):
    """An agent that is a program, given as a list of arguments. No shell is involved."""

    command: Argv
    """The program and its arguments; each is a template."""
    stdin: Text | None = None
    """A template for the program's stdin; it can use `prompt`. Default: the prompt, unless an
    argument uses it."""
    reply: Annotated[TextForm | JsonReply, by_type("<kind>", "<json>")] = "text"
    """How to read the reply from stdout."""
    system: Text = ""
    """The system prompt, which the program's templates can use as `{{ system }}`. Not a template
    itself."""
    tools: Tools = ()
    """The program's own tools that the agent may use; its templates can use `{{ agent.tools }}`."""
    resume: Texts = ()
    """Arguments to add when a kept session with a known id is continued; they use `session`."""
    env: Variables = ()
    """Environment variables to pass on, besides the harmless ones."""
    errors: Annotated[tuple[ErrorRule, ...], FROM_LIST] = ()
    """How exit codes and output map to classes of errors. The first match counts."""
    protect: Phrases = ()
    """Patterns of files in the workspace that it must not change, such as `tests/**`; `.git` is
    always among them. Changes are undone before anything is judged."""
    price_per_run: Annotated[float, Field(ge=0)] | None = None
    """The maximum cost of one run of the program, in USD."""

    kind = "command"
    front_matter = frozenset({"description", "tools"})
    is_sent_turns = False
    works_on_files: ClassVar[bool] = True
    if_in_doubt = "ask"

    @property
    def unbounded(self) -> Mapping[str, float]:
        if self.reply != "stream_json":
            return {}
        return {"tokens": 1} if self.price_per_run else {"tokens": 1, "cost_usd": LEAST_USD}

    @property
    def own_names(self) -> Mapping[str, object]:
        if self.file is None and not self.system and not self.tools:
            return {}
        return {"system": self.system, "agent": {"tools": list(self.tools)}}

    @property
    def templates(self) -> Written:
        yield from templates_of("command", self.command, self.stdin)
        yield from ((("resume", index), text) for index, text in enumerate(self.resume))


def _yes(value: object) -> object:
    if value is not True:
        message = "an agent that is played from outside has `outside: true`"
        remedy = "write that, or give the agent a `model` or a `command` instead"
        raise fault("wrong-kind", message, help=remedy)
    return value


class OutsideAgent(AgentBase):
    """An agent that is played from outside: by a coding program, a service, or a person with an
    editor."""

    outside: Annotated[Literal[True], BeforeValidator(_yes)]
    """`true`: the run waits, without a process, until the artifact is delivered."""
    timeout: Duration | None = None
    """The time limit for the delivery; after it there is a transient error. Default: no limit."""
    protect: Phrases = ()
    """As for a program."""

    kind = "outside"
    is_called = False

    @property
    def works_on_files(self) -> bool:
        return self.workspace is not None


AGENT_NOUNS: tuple[type[AgentBase], ...] = (ProgramAgent, ModelAgent, CommandAgent, OutsideAgent)
"""Every kind of agent: the one table of them. What has none of their keys is taken for a model; a
program may name a model too."""
AGENT_KINDS = {noun.kind: noun for noun in AGENT_NOUNS}


def noun_with(keys: Container[str]) -> type[AgentBase]:
    return next((noun for kind, noun in AGENT_KINDS.items() if kind in keys), ModelAgent)


if TYPE_CHECKING:
    Agent = ProgramAgent | ModelAgent | CommandAgent | OutsideAgent
else:
    Agent = one_of(AGENT_NOUNS, ModelAgent.kind)

NEAR = 0.8
"""The similarity from which a name counts as a misspelt known one."""
NAMES = "types/utils.py"
SPOKEN_LIKE_OPENAI = "llms/openai_like/providers.json"
MODELS = "model_prices_and_context_window_backup.json"
CONSTANTS = "constants.py"
_CLASS = "\nclass LlmProviders(str, Enum):\n"
_INDENTED = re.compile(r"(?:    .*\n|\n)*")
_PROVIDER = re.compile(r'"litellm_provider": "([^"]+)"')
_LISTED = re.compile(r'^    "([^"]+)": \{', re.MULTILINE)
_WORDS = re.compile(r"([^a-z]+)")
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


def listed_provider(model: str) -> str:
    """The provider of a model that LiteLLM lists under this name; else empty."""
    _, _, entry = _text(MODELS).partition(f"\n    {json.dumps(model)}: {{")
    found = _PROVIDER.search(entry.partition("\n    }")[0])
    return found[1] if found and found[1] in known_providers() else ""


@cache
def similar_model(model: str, providers: Container[str]) -> str:
    """The listed model of a provider that differs from this one by a slip in one word; else empty.

    New models differ in numbers, and by words that other names have.
    """
    provider, slash, name = model.partition("/")
    if not slash or provider not in providers or is_listed(model) or is_listed(name):
        return ""
    names = [one.removeprefix(f"{provider}/") for one in _LISTED.findall(_text(MODELS))]
    names = [one for one in names if "/" not in one]
    words = {word for one in names for word in _WORDS.split(one)}
    written = _WORDS.split(name)
    for one in names:
        other = _WORDS.split(one)
        wrong = [(a, b) for a, b in zip(written, other, strict=False) if a != b]
        if len(written) == len(other) and len(wrong) == 1 and wrong[0][0] not in words:
            meant = f"{provider}/{one}"
            if is_slip(*wrong[0]) and (is_listed(meant) or listed_provider(one) == provider):
                return meant
    return ""


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
