"""The error of machines and runs that can't go on with what they were given."""


class NotRunnable(Exception):
    """A machine that can't be started with these options; the message says what to do."""
