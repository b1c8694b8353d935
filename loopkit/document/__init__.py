"""YAML text as a document: plain values that know where in the file they are written."""

from loopkit.document.document import Document, Node, looks_like_unquoted_colon
from loopkit.document.mistakes import MAX_BYTES
from loopkit.document.reading import decode, read, read_file
from loopkit.document.replacing import NotWritable, refuse_unwritable, replace_file
from loopkit.document.writing import inline, to_yaml

__all__ = [
    "MAX_BYTES",
    "Document",
    "Node",
    "NotWritable",
    "decode",
    "inline",
    "looks_like_unquoted_colon",
    "read",
    "read_file",
    "refuse_unwritable",
    "replace_file",
    "to_yaml",
]
