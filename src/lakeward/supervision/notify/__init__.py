"""Messages to people: one for each incident, updated while it lasts, and its end."""
