"""YAML text as a document: plain values that know where in the file they are written."""

from loopkit.document.document import (
    Document,
    Entry,
    Node,
    Path,
    Style,
    looks_like_unquoted_colon,
)
from loopkit.document.mistakes import MAX_BYTES, MAX_LEVELS, MAX_VALUES
from loopkit.document.reading import decode, read, read_file
from loopkit.document.replacing import NotWritable, refuse_unwritable, replace_file
from loopkit.document.scalars import Scalar
from loopkit.document.writing import inline, to_yaml

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
    "decode",
    "inline",
    "looks_like_unquoted_colon",
    "read",
    "read_file",
    "refuse_unwritable",
    "replace_file",
    "to_yaml",
]
