"""Delta tables in a check run: their versions as a line of commits, the rows of some of them, what their log states."""
