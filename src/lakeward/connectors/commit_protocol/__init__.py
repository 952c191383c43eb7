"""The commit protocol, the same for every sink: position, offsets, continuity check, fence, row counts, audit."""
