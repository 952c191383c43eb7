"""The suites of a project: lint, import and export, proposals, and the configured checks of a run."""
