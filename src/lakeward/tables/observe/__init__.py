"""Facts about tables, read from metadata with PyIceberg."""
