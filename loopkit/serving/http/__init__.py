"""The server of runs over HTTP: an API, streams of events, and who may use them."""
