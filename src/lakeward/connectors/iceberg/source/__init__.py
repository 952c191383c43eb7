"""An Iceberg table as a source of a stream: what is appended to it, snapshot by snapshot. See docs/adr/0031."""
