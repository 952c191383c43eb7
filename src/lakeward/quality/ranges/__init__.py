"""Which snapshots and rows a run looks at: snapshot chain, batches, file statistics, the first bad snapshot."""
