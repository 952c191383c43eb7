"""Backends: start, find and end a detached driver. One small class each."""
