"""YAML text as a document: plain values that know where in the file they are written."""

from loopkit.source.document import (
    Document,
    Entry,
    Node,
    Path,
    Style,
    looks_like_unquoted_colon,
)
from loopkit.source.mistakes import MAX_BYTES, MAX_LEVELS, MAX_VALUES
from loopkit.source.reading import decoded, read, read_file
from loopkit.source.replacing import NotWritable, refuse_unwritable, replace_file
from loopkit.source.scalars import Scalar
from loopkit.source.writing import inline, written

__all__ = [
    "MAX_BYTES",
    "MAX_LEVELS",
    "MAX_VALUES",
    "Document",
    "Entry",
    "Node",
    "NotWritable",
    "Path",
    "Scalar",
    "Style",
    "decoded",
    "inline",
    "looks_like_unquoted_colon",
    "read",
    "read_file",
    "refuse_unwritable",
    "replace_file",
    "written",
]
