"""A run as its events make it: records, state, ledger, and the next step."""
