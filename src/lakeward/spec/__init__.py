"""What a user may write: models of the YAML files, the loader with file:line errors, checks, the deploy plan."""
