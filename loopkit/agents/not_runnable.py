"""The error of machines and runs that can't go on with what they were given."""


class NotRunnable(Exception):
    """A machine or a run that can't be started like this; the message says what to do."""
