"""File source: files that arrive in a folder."""
