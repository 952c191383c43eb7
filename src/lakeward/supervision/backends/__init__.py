"""Start, find and end a detached driver: one small class a backend."""
