"""The range of a check run: which snapshots and rows it covers, file statistics, the first bad snapshot."""
