"""replay: process quarantined records again with the current generation."""
