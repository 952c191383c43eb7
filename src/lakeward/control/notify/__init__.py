"""Messages to people: one for each incident, changed while it lasts, and told its end."""
