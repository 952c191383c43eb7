"""The project's own Python, read and never run: modules of named functions, and their requirements."""
