"""hypothesis, an optional library that is not installed with loopkit."""

from __future__ import annotations

try:
    from hypothesis import strategies
    from hypothesis.errors import HypothesisException
except ImportError as error:
    raise ImportError(
        "the properties of machines need hypothesis: pip install 'loopkit[hypothesis]'"
    ) from error

__all__ = ["HypothesisException", "strategies"]
