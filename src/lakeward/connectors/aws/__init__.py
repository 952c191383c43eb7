"""AWS, and what speaks its protocols: accounts by their connections, object stores."""
