"""The suites of a project: lint, import and export, proposals, and what a run is configured to check."""
