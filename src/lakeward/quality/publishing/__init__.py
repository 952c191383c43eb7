"""Moving `verified` to exactly the checked snapshot: branch, pointer table, audit tags, release by a person."""
