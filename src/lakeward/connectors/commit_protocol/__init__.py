"""Landing exactly once, whatever the sink: position, offsets, continuity check, fence, row counts, audit."""
