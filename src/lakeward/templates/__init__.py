"""Files that `lakeward init` copies into a new project. `dags/` equals the repository's own, by a test."""
