"""Rewriting: a checked template -> the same one, counting all that can grow or loop.

Operators become filters, which are ours; each round of a loop takes a step first. Nothing is left
in the tree that calls a function of Python or an object's method.
"""

from __future__ import annotations

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from loopkit.language.template.meter import NODE


def rewrite_tree(tree: nodes.Template) -> nodes.Template:
    """Return the tree rewritten, in place."""
    _Bounding().visit(tree)
    return tree


def _filter(name: str, node: nodes.Expr, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(args), [], None, None, lineno=node.lineno)


def _constant(value: object, node: nodes.Node) -> nodes.Const:
    return nodes.Const(value, lineno=node.lineno)


def _parts(body: list[nodes.Node]) -> int:
    """Return the units for passing the body once: its nodes, and its text, which is copied."""
    inner = [node for part in body for node in (part, *part.find_all(nodes.Node))]
    text = sum(len(node.data) for node in inner if isinstance(node, nodes.TemplateData))
    return NODE * len(inner) + 2 * text


class _Bounding(NodeTransformer):
    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 - Jinja's names
        parts = _parts(node.body)
        self.generic_visit(node)
        if node.test is not None:
            asked = NODE * sum(1 for _ in node.test.find_all(nodes.Node))
            counted = _filter("step", _constant(asked, node))
            node.test = nodes.And(counted, node.test, lineno=node.lineno)
        step = _filter("step", _constant(parts, node))
        node.body = [nodes.ExprStmt(step, lineno=node.lineno), *node.body]
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802
        self.generic_visit(node)
        return _filter("~", nodes.List(node.nodes, lineno=node.lineno))

    def visit_Compare(self, node: nodes.Compare) -> nodes.Filter:  # noqa: N802
        self.generic_visit(node)
        signs = [(_constant(operand.op, node), operand.expr) for operand in node.ops]
        return _filter("compare", node.expr, *(part for sign in signs for part in sign))

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        bounds = (node.arg.start, node.arg.stop, node.arg.step)
        return _filter("[:]", node.node, *(bound or _constant(None, node) for bound in bounds))

    def visit_Call(self, node: nodes.Call) -> nodes.Filter:  # noqa: N802
        self.generic_visit(node)
        return _filter("range()", node.args[0], *node.args[1:])

    def _new(self, node: nodes.Expr) -> nodes.Filter:
        self.generic_visit(node)
        return _filter("new", node)

    visit_List = visit_Dict = _new  # noqa: N815

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:  # noqa: N802
        return self._new(node) if node.ctx == "load" else node

    def _operator(self, node: nodes.BinExpr) -> nodes.Filter:
        self.generic_visit(node)
        return _filter(node.operator, node.left, node.right)

    visit_Add = visit_Sub = visit_Mul = visit_Div = visit_FloorDiv = visit_Mod = _operator  # noqa: N815
