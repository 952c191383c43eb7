"""How the bytes of a record become columns, and how a record that does not fit is told from one that does."""
