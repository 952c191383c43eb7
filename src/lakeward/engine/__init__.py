"""One batch of one stream: read, decode, route, transform, write; with the Spark session and the checkpoint."""
