"""Logs, masking of secrets, and the named steps at which tests make a process fail."""
