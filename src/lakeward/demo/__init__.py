"""The demo: a year of New York flights through the whole stack, and the proof that nothing was lost or doubled."""
