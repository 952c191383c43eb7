"""What keeps streams alive: observe registry and backends, decide (pure), act, notify people."""
