"""File sink: a folder of batches, plain files, exactly once."""
