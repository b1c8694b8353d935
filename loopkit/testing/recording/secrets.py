"""Secrets that a recording must leave out, besides those the journal removed already."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from loopkit.language import Machine
from loopkit.outside.redaction import Redact, redactor

_IN_ADDRESS = re.compile(r"(?<=://)[^\s/@\"'`]+@")
_BEARER = re.compile(r"\b(Bearer|Basic) +[A-Za-z0-9._~+/=-]{8,}")


def recording_redactor(machine: Machine, environment: Mapping[str, str] = os.environ) -> Redact:
    """A function that takes the environment's secrets, and credentials of addresses, out."""
    redact = redactor(environment, machine.key_names)

    def cleaned(text: str) -> str:
        return _BEARER.sub(r"\1 [credentials]", _IN_ADDRESS.sub("[credentials]@", redact(text)))

    return cleaned
