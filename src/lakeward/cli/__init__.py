"""The `lakeward` command: one file a noun, no business logic."""
