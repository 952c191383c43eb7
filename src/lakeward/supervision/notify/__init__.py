"""Messages to people: one for each incident, updated while it is open, and resolved."""
