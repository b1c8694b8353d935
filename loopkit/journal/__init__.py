"""The records of runs, durable and in order; `journal` says what is promised of them."""
