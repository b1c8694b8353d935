"""The one Jinja environment, and the sandbox around the data of a template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import StrictUndefined, Undefined, pass_context
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from loopkit.language.template.filters import FILTERS, TESTS
from loopkit.language.template.meter import spend
from loopkit.language.template.operators import OPERATORS
from loopkit.language.template.plain_data import FieldedText, Record, to_text

_SHOWN = 100

LOOP_FIELDS = (
    "index",
    "index0",
    "revindex",
    "revindex0",
    "first",
    "last",
    "length",
    "previtem",
    "nextitem",
)


class Missing(Undefined):
    """A value that is not there: false in a condition, an error wherever it is used."""

    __slots__ = ()
    __str__ = StrictUndefined.__str__
    __iter__ = StrictUndefined.__iter__
    __len__ = StrictUndefined.__len__
    __contains__ = StrictUndefined.__contains__
    __eq__ = StrictUndefined.__eq__
    __ne__ = StrictUndefined.__ne__
    __hash__ = StrictUndefined.__hash__


class Sandbox(ImmutableSandboxedEnvironment):
    """Reaches the fields and items of plain data and nothing else of any object."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self._member(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        return self._member(obj, argument)

    def is_safe_callable(self, obj: Any) -> bool:
        return False

    def at(self, path: Sequence[str | int], names: Mapping[str, object]) -> Any:
        """The value at a path; its first step is a name."""
        name, *steps = path
        value = names[str(name)] if name in names else self.undefined(name=str(name))
        for key in steps:
            value = self._member(value, key)
        return value

    def _member(self, holder: Any, key: Any) -> Any:
        # Mostly it is one of these, which needs no further look.
        if type(holder) is dict:
            return holder[key] if key in holder else self._no_member(key)
        if isinstance(holder, Undefined):
            return holder
        if isinstance(holder, LoopContext):
            return getattr(holder, key) if key in LOOP_FIELDS else self._no_member(key)
        if isinstance(holder, (str, list, tuple, range)) and isinstance(key, int):
            return holder[key] if -len(holder) <= key < len(holder) else self._no_member(key)
        fields = _fields_of(holder)
        if isinstance(holder, Record) and key in holder.left_out:
            return None
        return fields[key] if key in fields else self._no_member(key)

    def _no_member(self, key: object) -> Undefined:
        kind = "item" if isinstance(key, int) else "field"
        shown = to_text(key)[:_SHOWN]
        return self.undefined(f"there is no {kind} `{shown}`")


def _fields_of(holder: object) -> Mapping[Any, object]:
    if isinstance(holder, Mapping):
        return holder
    if isinstance(holder, FieldedText):
        return holder.fields
    # The groups that `groupby` makes are named tuples.
    names = getattr(holder, "_fields", ()) if isinstance(holder, tuple) else ()
    return dict(zip(names, holder, strict=True)) if names and isinstance(holder, tuple) else {}


def print_value(value: object) -> str:
    """Return the text that a template prints for a value, and spend for it."""
    text = to_text(value)
    spend(2 * len(text))
    return text


# Taking the context keeps Jinja from printing constants while it compiles.
@pass_context
def _finalize(_: Context, value: object) -> str:
    return print_value(value)


def _sandbox() -> Sandbox:
    sandbox = Sandbox(
        undefined=Missing,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        # A block scalar of YAML says itself how it ends.
        keep_trailing_newline=True,
        autoescape=False,
        optimized=False,
    )
    sandbox.filters = {**FILTERS, **OPERATORS}
    sandbox.tests = dict(TESTS)
    sandbox.globals = {}
    return sandbox


SANDBOX = _sandbox()
