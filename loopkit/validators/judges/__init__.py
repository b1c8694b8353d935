"""Judges: what each is asked, and how a verdict and findings are read of its answer.

`prompt` asks and `reader` reads, whichever form the answer has: a report in our form or in one
that a `map` gives (`report`), or a verdict in text (`text`).
"""
