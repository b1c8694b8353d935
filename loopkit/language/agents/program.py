"""The agent `program`: one of the coding programs that loopkit knows, without flags or patterns."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from loopkit.language.agents.agent import CalledAgent, KeptSession, Session
from loopkit.language.agents.model import Price, Rate
from loopkit.language.section import (
    Duration,
    Phrases,
    Text,
    Texts,
    Variables,
    Word,
    Written,
    by_type,
    fault,
)
from loopkit.programs import PROGRAMS
from loopkit.programs.port import Auth, Command, Configuration, Options, Permissions, Program

LEAST_USD = 1e-8
"""What a limit on cost has to have left for a program that can report any cost."""


def _split_at_commas(value: object) -> object:
    return (
        tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value
    )


Tools = Annotated[Texts, BeforeValidator(_split_at_commas, json_schema_input_type=str | list[str])]
"""Names in a list, or in one text with commas, as coding programs write them."""

if TYPE_CHECKING:
    Name = str
else:
    Name = Literal[tuple(PROGRAMS)]


class ProgramAgent(CalledAgent):
    """An agent that is a coding program: Claude Code, Codex, Gemini CLI, Copilot, opencode, Qwen
    Code."""

    program: Name
    """The coding program. Any other is started with `command:`."""
    model: Word | None = None
    """The model, by the program's own name for it. Default: the program's own."""
    effort: Word | None = None
    """How much it thinks, in the program's own words. Default: the program's own."""
    permissions: Permissions = "edit"
    """What it may do without asking: `read` files, `edit` them, or `all`, commands included."""
    tools: Tools = ()
    """The program's own tools that it may use besides those that `permissions` allows."""
    max_turns: int | None = Field(None, ge=1)
    """The most turns of one call. An answer that is not done by then is a content fault."""
    instructions: Text = ""
    """A text that is added to the program's own system prompt; not a template."""
    base_url: str | None = None
    """The address of the provider. Default: the program's own."""
    env: Variables = ()
    """Further environment variables that it may see."""
    args: Texts = ()
    """Further arguments of the program, added unchanged."""
    config: Configuration = "user"
    """Whether the user's own settings, hooks, servers and memory apply, or `none` of them."""
    auth: Auth = "login"
    """Who pays: the user's `login`, for which no key is passed, or the `key` in the environment."""
    idle_timeout: Duration | None = None
    """The time after which a program that prints nothing is ended. Default: `timeout` alone."""
    price: Rate | None = None
    """The price in USD per million tokens, for a program that counts tokens and tells no cost."""
    price_per_run: Annotated[float, Field(ge=0)] | None = None
    """The maximum cost of one call, in USD."""
    protect: Phrases = ()
    """As for a program that is started with `command`."""
    session: Annotated[Session | KeptSession, by_type("<session>", "<turns>")] = "keep"
    """`keep`: one conversation for all revisions of a state; `fresh`: a new one for each."""

    kind = "program"
    front_matter = frozenset({"description", "model", "tools"})
    prompt_key: ClassVar[str] = "instructions"
    is_sent_turns = False
    works_on_files: ClassVar[bool] = True
    if_in_doubt = "ask"
    goes_on: ClassVar[bool] = True
    models: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="after")
    def _obeys_what_it_is_asked(self) -> Self:
        for key, remedy in self.known.lacks.items():
            # A stored definition has every key, also those that nobody wrote.
            if getattr(self, key) == type(self).model_fields[key].default:
                continue
            message = f"`{self.program}` has no way to obey `{key}`"
            raise fault("program-lacks", message, (key,), help=remedy)
        if self.auth == "login" and (named := [name for name in self.env if name in self.keys]):
            message = f"`{named[0]}` bills a key, and with `auth: login` no key is passed"
            raise fault("no-effect", message, help="write `auth: key`, or remove it")
        return self

    @cached_property
    def known(self) -> Program:
        """What loopkit knows of the program."""
        return PROGRAMS[self.program]

    @property
    def keys(self) -> tuple[str, ...]:
        return self.known.key_variables

    @property
    def payment(self) -> str:
        """Who pays for it, in words."""
        if self.auth == "login":
            return "your login, no key is passed"
        return f"the key in {' or '.join(self.keys)}"

    @property
    def begins_anew(self) -> bool:
        # A call in doubt goes on in its session, whatever becomes of revisions.
        return not isinstance(self.session, KeptSession) or self.session.if_lost == "fresh"

    @property
    def called(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.program, self.model)))

    @property
    def unbounded(self) -> Mapping[str, float]:
        return {"tokens": 1} if self.price_per_run else {"tokens": 1, "cost_usd": LEAST_USD}

    @property
    def plain_texts(self) -> Written:
        yield from self.written("instructions")

    def usd_for(self, tokens_in: int, tokens_out: int) -> float | None:
        """What tokens cost by its own price; without one, the most that a call costs."""
        if (price := self.price) is None:
            return self.price_per_run
        rate = price if isinstance(price, Price) else Price(input=price, output=price)
        return (tokens_in * rate.input + tokens_out * rate.output) / 1e6

    def start(self, session: str | None = None) -> Command:
        """How a call is started, or how it goes on with a session."""
        options = Options(**{key: getattr(self, key) for key in Options.__dataclass_fields__})
        return self.known.command(options, session)
