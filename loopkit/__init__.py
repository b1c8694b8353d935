"""loopkit: validate-and-revise loops with language models, declared and proven."""

__version__ = "0.1.0"
