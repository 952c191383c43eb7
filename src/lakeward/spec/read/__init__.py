"""Reading YAML: documents with positions, the loader, and every problem with file, line and column."""
