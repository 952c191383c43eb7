"""AWS and compatible services: accounts by their connections, object stores."""
