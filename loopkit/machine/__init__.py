"""One machine made ready: its graph, what is known at each place, its compiled decisions."""
