"""An Iceberg table as the source of a stream: its appends, snapshot by snapshot. See docs/adr/0031."""
