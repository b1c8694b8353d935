raise AssertionError("a check imports nothing")
