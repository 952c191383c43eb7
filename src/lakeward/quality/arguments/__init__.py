"""Arguments of expectations, settled before Spark sees them: names, literals, nulls, conditions, patterns."""
