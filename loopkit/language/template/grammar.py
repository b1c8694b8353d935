"""The grammar of templates: text → tree, refusing by name what templates can't do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce

from jinja2 import TemplateSyntaxError, nodes

from loopkit.document.problems import did_you_mean
from loopkit.language.template.errors import TemplateError, limit
from loopkit.language.template.sandbox import FILTERS, LOOP_FIELDS, SANDBOX, TESTS
from loopkit.values import Value, field

MAX_LENGTH = 100_000
"""Characters that a template may have."""
MAX_DEPTH = 50
# Python, to which Jinja compiles, has a limit of 20 for loops in loops.
MAX_LOOPS = 10

# `Scope` has no line; the one statement that can stand in it is refused, with its line.
_ALLOWED = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign,
    nodes.AssignBlock, nodes.FilterBlock, nodes.Name, nodes.Const, nodes.Getattr, nodes.Getitem,
    nodes.Slice, nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair, nodes.Keyword, nodes.Filter,
    nodes.Test, nodes.Call, nodes.Compare, nodes.Operand, nodes.CondExpr, nodes.And, nodes.Or,
    nodes.Not, nodes.Neg, nodes.Pos, nodes.Concat, nodes.Add, nodes.Sub, nodes.Mul, nodes.Div,
    nodes.FloorDiv, nodes.Mod, nodes.Scope,
)  # fmt: skip
_NAMED = {
    "FromImport": "import",
    "CallBlock": "call",
    "ScopedEvalContextModifier": "autoescape",
    "NSRef": "namespace",
    "Pow": "**",
}
_TAGS = (
    "if", "elif", "else", "endif", "for", "endfor",
    "set", "endset", "filter", "endfilter", "raw", "endraw",
)  # fmt: skip
_OTHER_NAMES = {
    **dict.fromkeys(("upcase", "uppercase", "toupper", "to_upper"), "upper"),
    **dict.fromkeys(("downcase", "lowercase", "tolower", "to_lower"), "lower"),
    **dict.fromkeys(("json", "to_json", "dumps"), "tojson"),
    **dict.fromkeys(("size", "len"), "length"),
    "strip": "trim",
    **dict.fromkeys(("words", "word_count"), "wordcount"),
    "titlecase": "title",
    "sorted": "sort",
    "uniq": "unique",
    "filter": "select",
}
"""Filters and functions of other languages."""
_HOW = "write `{{ name }}` for a value, `{% if … %}` and `{% for … %}` for blocks"
_BLOCKS = ("if", "for", "set", "filter", "raw")
_TAG = re.compile(r"\{%[-+]?\s*(\w+)([^%]*)")


def tree_of(text: str) -> nodes.Template:
    """The tree of the template; raises TemplateError for what is wrong with it."""
    if len(text) > MAX_LENGTH:
        message = f"the template has {len(text):,} characters, at most {MAX_LENGTH:,} are allowed"
        raise limit(message, "move text into an input")
    try:
        tree = SANDBOX.parse(text)
    except TemplateSyntaxError as error:
        raise _syntax_error(error, text) from error
    except RecursionError as error:
        raise _too_deep(text, 1) from error
    except ValueError as error:  # Python reads no number of thousands of digits
        too_long = TemplateError("template-syntax", "a number has too many digits")
        raise too_long.at(text, 1) from error
    for node, depth, loops in _walk(tree):
        if depth > MAX_DEPTH or loops > MAX_LOOPS:
            raise _too_deep(text, node.lineno)
        if wrong := _foreign(node):
            raise wrong[0].at(text, node.lineno, wrong[1])
    return tree


def _syntax_error(error: TemplateSyntaxError, text: str) -> TemplateError:
    said = error.message or "the template cannot be read"
    if said.startswith("Unexpected end of template"):
        return _missing_end(text, error.lineno)
    char = re.fullmatch(r"(unexpected char '.*') at (\d+)", said, re.DOTALL)
    if char:
        column = int(char[2]) - text.rfind("\n", 0, int(char[2]))
        return TemplateError("template-syntax", char[1], error.lineno, column, 1, _HOW)
    unknown = re.match(r"Encountered unknown tag '(.*?)'", said)
    if unknown:
        return _unknown_tag(unknown[1], text, error.lineno)
    quoted = re.findall(r"'([^']+)'", said)
    first = re.split(r"\.\s|\.$", said)[0]
    message = first[:1].lower() + first[1:]
    words = quoted[-1] if quoted and " " not in quoted[-1] else ""
    return TemplateError("template-syntax", message, help=_HOW).at(text, error.lineno, words)


def _unknown_tag(tag: str, text: str, line: int) -> TemplateError:
    if tag in _TAGS:
        message = f"nothing is open that `{tag}` could belong to"
        remedy = "check the tags before"
    else:
        near = "elif" if tag in ("elseif", "elsif") else tag
        message = f"unknown tag `{tag}`"
        remedy = did_you_mean(near, _TAGS)
    return TemplateError("template-syntax", message, help=remedy).at(text, line, tag)


def _missing_end(text: str, line: int) -> TemplateError:
    """The error for a block that is still open at the end, at the tag that opened it."""
    opened: list[tuple[str, int]] = []
    for tag in _TAG.finditer(text):
        name = tag[1]
        if name in _BLOCKS and not (name == "set" and "=" in tag[2]):
            opened.append((name, text.count("\n", 0, tag.start()) + 1))
        elif name.startswith("end") and opened:
            opened.pop()
    name, line = opened[-1] if opened else ("", line)
    message = f"`{{% {name} %}}` is never closed" if name else "the template ends too early"
    remedy = f"add `{{% end{name} %}}`" if name else "close what is open"
    return TemplateError("template-syntax", message, help=remedy).at(text, line, name)


def _walk(tree: nodes.Template) -> Iterator[tuple[nodes.Node, int, int]]:
    """Each node, outer ones first, in the text's order, with its depth and loops around it.

    Not recursive: what comes from Jinja's parser may be nested deeper than Python's stack.
    """
    waiting: list[tuple[nodes.Node, int, int]] = [(tree, 0, 0)]
    while waiting:
        node, depth, loops = waiting.pop()
        yield node, depth, loops
        within = loops + isinstance(node, nodes.For)
        inner = [(part, depth + 1, within) for part in node.iter_child_nodes()]
        waiting.extend(reversed(inner))


def _too_deep(text: str, line: int) -> TemplateError:
    message = f"the template is nested more than {MAX_DEPTH} deep, or {MAX_LOOPS} loops deep"
    return limit(message, "split it with `{% set %}`").at(text, line)


_Wrong = tuple[TemplateError, str]


def _foreign(node: nodes.Node) -> _Wrong | None:
    """The mistake in this node alone, and its word."""
    match node:
        case nodes.Call():
            return _foreign_call(node)
        case nodes.Filter() | nodes.Test():
            return _foreign_filter(node)
        case _ if not isinstance(node, _ALLOWED):
            word = _NAMED.get(type(node).__name__, type(node).__name__.lower())
            remedy = "templates have values, filters, `if`, `for`, `set` and `filter`"
            return _forbidden(f"templates have no `{word}`", remedy, word)
        case _:
            return None


def _forbidden(message: str, remedy: str, word: str) -> _Wrong:
    return TemplateError("template-forbidden", message, help=remedy), word


def _foreign_call(node: nodes.Call) -> _Wrong | None:
    called = node.node
    if isinstance(called, nodes.Name) and called.name == "range":
        return None
    name = called.attr if isinstance(called, nodes.Getattr) else getattr(called, "name", "")
    meant = _OTHER_NAMES.get(str(name).lower(), name)
    remedy = f"write `| {meant}`" if meant in FILTERS else "only `range(n)` can be called"
    return _forbidden("templates call no functions and no methods", remedy, str(name))


def _foreign_filter(node: nodes.Filter | nodes.Test) -> _Wrong | None:
    kind, known = ("filter", FILTERS) if isinstance(node, nodes.Filter) else ("test", TESTS)
    if node.name not in known:
        meant = _OTHER_NAMES.get(node.name.lower(), node.name)
        remedy = did_you_mean(meant, sorted(known))
        message = f"unknown {kind} `{node.name}`"
        return TemplateError(f"unknown-{kind}", message, help=remedy), node.name
    return None


Path = tuple[str, ...]


class Anything(Value, frozen=True):
    """Data of which nothing is known: every field may be read."""

    optional: bool = False
    """It may be absent: a template has to ask before it uses it. So in each of the shapes."""


class Scalar(Value, frozen=True):
    """A text, a number, true or false: it has no fields."""

    optional: bool = False


class Fields(Value, frozen=True):
    """A mapping, or a text with fields."""

    fields: Mapping[str, Shape] = field(default_factory=dict)
    optional: bool = False
    others: Shape | None = None


class Items(Value, frozen=True):
    item: Shape = field(default_factory=Anything)
    optional: bool = False


Shape = Anything | Scalar | Fields | Items

_LOOP = Fields({name: Anything(optional=name in ("previtem", "nextitem")) for name in LOOP_FIELDS})
SAME_LIST = frozenset(
    ("list", "reverse", "sort", "unique", "select", "reject", "selectattr", "rejectattr")
)
_ONE_ITEM = frozenset(("first", "last", "min", "max"))
_OTHER_LIST = frozenset(("batch", "dictsort", "groupby", "items", "map"))
_ASKING_TESTS = frozenset(("defined", "undefined", "none"))


class Scope(Value, frozen=True):
    local: Mapping[str, Shape] = field(default_factory=dict)
    """Names that the template has set itself."""
    sure: frozenset[Path] = frozenset()
    """Paths that are there, because of a condition around this part."""

    def having(self, paths: frozenset[Path]) -> Scope:
        return self.replace(sure=self.sure | paths)

    def binding(self, target: nodes.Node, shape: Shape) -> Scope:
        if isinstance(target, nodes.Name):
            sure = frozenset(path for path in self.sure if path[0] != target.name)
            return Scope({**self.local, target.name: shape}, sure)
        scope = self
        for part in target.iter_child_nodes():
            scope = scope.binding(part, item_of(shape))
        return scope


def path_of(node: nodes.Node | None) -> Path | None:
    """Return `("input", "issue")` for `input.issue` and `input["issue"]`; None for all else."""
    steps = steps_of(node)
    path = tuple([step for step in steps if isinstance(step, str)])
    return path if path and len(path) == len(steps) else None


def steps_of(node: nodes.Node | None) -> tuple[str | int, ...]:
    """The path of a node with the numbers of items in it; () if it is not a path."""
    steps: list[str | int] = []
    while isinstance(node, (nodes.Getattr, nodes.Getitem)):
        step = _step(node)
        if step is None:
            return ()
        steps.append(step)
        node = node.node
    return (node.name, *reversed(steps)) if isinstance(node, nodes.Name) else ()


def _step(node: nodes.Getattr | nodes.Getitem) -> str | int | None:
    if isinstance(node, nodes.Getattr):
        return node.attr
    value = node.arg.value if isinstance(node.arg, nodes.Const) else None
    return value if isinstance(value, str | int) else None


def present_if(test: nodes.Node, outcome: bool) -> frozenset[Path]:
    """The paths that are there when the condition comes out as `outcome`."""
    match test:
        case nodes.Not(node=inner):
            return present_if(inner, not outcome)
        case nodes.And(left=left, right=right) | nodes.Or(left=left, right=right):
            first = present_if(left, outcome)
            second = present_if(right, outcome)
            # Both sides of a true `and`, and of a false `or`, came out that way.
            return first | second if isinstance(test, nodes.And) == outcome else first & second
        case nodes.Test(name=name, node=inner) if name in _ASKING_TESTS:
            return _prefixes(path_of(inner)) if outcome == (name == "defined") else frozenset()
        case _:
            return _prefixes(path_of(test)) if outcome else frozenset()


def _prefixes(path: Path | None) -> frozenset[Path]:
    return frozenset(path[:end] for end in range(1, len(path) + 1)) if path else frozenset()


class Survey:
    """Walks a template in the order in which it is filled.

    Without `names` every name may be anything; `free` and `paths` then say what a template reads.
    """

    def __init__(self, text: str, names: Mapping[str, Shape] | None) -> None:
        self._text = text
        self._names = names
        self.problems: list[TemplateError] = []
        self.free: set[str] = set()
        self.paths: set[Path] = set()

    def block(self, body: Iterable[nodes.Node], scope: Scope) -> Scope:
        """Follow the statements; return the scope after them."""
        for statement in body:
            scope = self._statement(statement, scope)
        return scope

    def _statement(self, node: nodes.Node, scope: Scope) -> Scope:
        match node:
            case nodes.If():
                return self._if(node, scope)
            case nodes.For():
                self._for(node, scope)
            case nodes.Assign(target=target, node=assigned):
                return scope.binding(target, self._value(assigned, scope))
            case nodes.AssignBlock(target=target, filter=filter_, body=body):
                self.block(body, scope)
                self._values([filter_] if filter_ else [], scope)
                return scope.binding(target, Scalar())
            case nodes.FilterBlock(filter=filter_, body=body):
                self.block(body, scope)
                self._value(filter_, scope)
            case _:
                self._values(node.iter_child_nodes(), scope)
        return scope

    def _if(self, node: nodes.If, scope: Scope) -> Scope:
        ends: list[Scope] = []
        for branch in (node, *node.elif_):
            self._value(branch.test, scope, asking=True)
            ends.append(self.block(branch.body, scope.having(present_if(branch.test, True))))
            scope = scope.having(present_if(branch.test, False))
        ends.append(self.block(node.else_, scope))
        return self._merge(ends)

    def _merge(self, ends: list[Scope]) -> Scope:
        """The scope after branches of which one was taken."""
        local: dict[str, Shape] = {}
        for name in {name for end in ends for name in end.local}:
            shapes = [self._shape_of(name, end) or Anything(optional=True) for end in ends]
            local[name] = reduce(either, shapes)
        return Scope(local, frozenset.intersection(*(end.sure for end in ends)))

    def _shape_of(self, name: str, scope: Scope) -> Shape | None:
        if name in scope.local:
            return scope.local[name]
        return Anything() if self._names is None else self._names.get(name)

    def _for(self, node: nodes.For, scope: Scope) -> None:
        listed = self._value(node.iter, scope)
        inner = scope.binding(node.target, item_of(listed))
        if node.test is not None:
            self._value(node.test, inner, asking=True)
            inner = inner.having(present_if(node.test, True))
        inner = inner.binding(nodes.Name("loop", "store"), _LOOP)
        self.block(node.body, inner)
        self.block(node.else_, scope)

    def _values(self, parts: Iterable[nodes.Node], scope: Scope) -> None:
        for part in parts:
            if isinstance(part, nodes.Expr):
                self._value(part, scope)
            else:
                self._values(part.iter_child_nodes(), scope)

    def _value(self, node: nodes.Node, scope: Scope, *, asking: bool = False) -> Shape:
        """The shape of an expression; `asking` where it may be missing."""
        path = path_of(node)
        if path is not None:
            return self._at_path(path, node, scope, asking=asking)
        match node:
            case nodes.Getattr() | nodes.Getitem():
                return self._member(node, scope, asking=asking)
            case nodes.Filter():
                return self._filter(node, scope)
            case nodes.And() | nodes.Or():
                return self._either_side(node, scope, asking=asking)
            case nodes.CondExpr():
                return self._conditional(node, scope, asking=asking)
            case _:
                return self._computation(node, scope)

    def _computation(self, node: nodes.Node, scope: Scope) -> Shape:
        if isinstance(node, nodes.Not | nodes.Test):
            asked = isinstance(node, nodes.Not) or node.name in _ASKING_TESTS
            self._value(node.node, scope, asking=asked)
            self._values([*node.iter_child_nodes(exclude=("node",))], scope)
            return Scalar()
        if isinstance(node, nodes.Call):
            self._values(node.args, scope)
            return Items(Scalar())
        if isinstance(node, nodes.Tuple | nodes.List):
            shapes = [self._value(item, scope) for item in node.items]
            same = all(shape == shapes[0] for shape in shapes)
            return Items(shapes[0] if shapes and same else Anything())
        self._values(node.iter_child_nodes(), scope)
        return Anything() if isinstance(node, nodes.Dict | nodes.Add) else Scalar()

    def _either_side(self, node: nodes.And | nodes.Or, scope: Scope, *, asking: bool) -> Shape:
        disjunction = isinstance(node, nodes.Or)
        self._value(node.left, scope, asking=asking or disjunction)
        known = scope.having(present_if(node.left, not disjunction))
        self._value(node.right, known, asking=asking)
        return Anything()

    def _conditional(self, node: nodes.CondExpr, scope: Scope, *, asking: bool) -> Shape:
        self._value(node.test, scope, asking=True)
        met = scope.having(present_if(node.test, True))
        shape = self._value(node.expr1, met, asking=asking)
        if node.expr2 is None:
            if not asking:
                remedy = 'write `… else ""`'
                self._problem("may-be-missing", "this `if` has no `else`", remedy, node, ("if",))
            return absent(shape)
        unmet = scope.having(present_if(node.test, False))
        return either(shape, self._value(node.expr2, unmet, asking=asking))

    def _filter(self, node: nodes.Filter, scope: Scope) -> Shape:
        defaulting = node.name in ("default", "d")
        source = self._value(node.node, scope, asking=defaulting) if node.node else Scalar()
        arguments = [self._value(part, scope) for part in node.args]
        self._values(node.kwargs, scope)
        member = self._attribute(node, source)
        if defaulting:
            return either(present(source), arguments[0] if arguments else Scalar())
        if node.name in SAME_LIST:
            return present(source) if isinstance(source, Items) else Items()
        if node.name in _ONE_ITEM:
            return item_of(source)
        if node.name in _OTHER_LIST:
            return Items(member if node.name == "map" else Anything())
        return Scalar()

    def _attribute(self, node: nodes.Filter, source: Shape) -> Shape:
        """The shape of the field that `map(attribute="a.b")` and its like read."""
        named = [pair.value for pair in node.kwargs if getattr(pair, "key", "") == "attribute"]
        if node.name in ("selectattr", "rejectattr", "groupby"):
            named += node.args[:1]
        first = named[0] if named else None
        if not isinstance(first, nodes.Const) or not isinstance(first.value, str):
            return Anything()
        shape = item_of(source)
        for step in first.value.split("."):
            shape = self._field(shape, (step,), node) or Anything()
        return shape

    def _member(self, node: nodes.Getattr | nodes.Getitem, scope: Scope, *, asking: bool) -> Shape:
        holder = self._value(node.node, scope, asking=asking)
        step = _step(node)
        if isinstance(step, str):
            return self._field(holder, ("", step), node) or Anything()
        if isinstance(node, nodes.Getitem):
            self._values([node.arg], scope)
            if isinstance(node.arg, nodes.Slice):
                return present(holder)
        return present(item_of(holder))

    def _at_path(self, path: Path, node: nodes.Node, scope: Scope, *, asking: bool) -> Shape:
        if path[0] not in scope.local:
            self.free.add(path[0])
            self.paths.add(path)
        shape = self._shape_of(path[0], scope)
        if shape is None:
            remedy = did_you_mean(path[0], sorted({*(self._names or ()), *scope.local}))
            self._problem("unknown-name", f"unknown name `{path[0]}`", remedy, node, path[:1])
        for end in range(1, len(path) + 1):
            if shape is None:
                return Anything()
            here = path[:end]
            if shape.optional and not asking and here not in scope.sure:
                shown = ".".join(here)
                remedy = f'put `{{% if {shown} %}}` around it, or `{shown} | default("")`'
                self._problem(
                    "may-be-missing", f"`{shown}` may be missing here", remedy, node, here
                )
                return Anything()
            if end < len(path):
                shape = self._field(shape, path[: end + 1], node)
        return present(shape) if shape and path in scope.sure else shape or Anything()

    def _field(self, holder: Shape, path: Path, node: nodes.Node) -> Shape | None:
        """The shape of the last step of `path` in its holder; None after a problem."""
        step, shown = path[-1], ".".join(path[:-1])
        called = f"`{shown}`" if shown else "this"
        if (found := member(holder, step)) is not None:
            return found
        match holder:
            case Fields(fields=fields):
                remedy = did_you_mean(step, sorted(fields)) or "it has none"
            case Items():
                remedy = f"it is a list: write `{{% for item in {shown or '…'} %}}`"
            case _:
                remedy = "it is a single value"
        message = f"{called} has no field `{step}`"
        self._problem("unknown-field", message, remedy, node, path)
        return None

    def _problem(self, code: str, message: str, remedy: str, node: nodes.Node, words: Path) -> None:
        wrong = TemplateError(code, message, help=remedy)
        self.problems.append(wrong.at(self._text, node.lineno, ".".join(filter(None, words))))


def either(first: Shape, second: Shape) -> Shape:
    optional = first.optional or second.optional
    first, second = present(first), present(second)
    shape = first if first == second else Anything()
    return shape.replace(optional=True) if optional else shape


def present(shape: Shape) -> Shape:
    return shape.replace(optional=False) if shape.optional else shape


def absent(shape: Shape) -> Shape:
    return shape if shape.optional else shape.replace(optional=True)


def member(shape: Shape, name: str) -> Shape | None:
    """The shape of a field; None where there can't be one of this name."""
    if isinstance(shape, Fields):
        return shape.fields.get(name, shape.others)
    return Anything() if isinstance(shape, Anything) else None


def item_of(shape: Shape) -> Shape:
    if isinstance(shape, Items):
        return shape.item
    return Anything() if isinstance(shape, Anything) else Scalar()
