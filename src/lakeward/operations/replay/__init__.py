"""replay: quarantined records processed again by the current generation."""
