"""How the bytes of a record become columns, and how records that do not fit are detected."""
