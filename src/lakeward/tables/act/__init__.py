"""Actions on the Spark Connect server. What a procedure returns is kept, never believed: `verify` reads metadata."""
