"""Delta tables in a check run: versions as a chain of commits, reads of added files, statistics from the log."""
