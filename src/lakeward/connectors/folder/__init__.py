"""A folder of batches: plain files, exactly once."""
