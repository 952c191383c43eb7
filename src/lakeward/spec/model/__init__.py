"""The Pydantic models of streams, tables, suites and settings: the grammar of the YAML files."""
