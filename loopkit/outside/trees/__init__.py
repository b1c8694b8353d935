"""Trees: all files of a folder as one value, their differences, copies and merges."""
