"""Judges: the prompt of each, and how verdict and findings are read from its answer.

`forms` says which of three forms an answer has: our own report (`own_form`), one that a `map`
reads (`report_form`), or a verdict in text (`text_form`). `prompt` asks for it and `reader` reads
it, by `report` or by `text`. What they share is in `form`: above all, when a verdict and its
findings agree.
"""
