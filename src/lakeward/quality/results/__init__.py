"""Results of check runs: records, text, incidents, trends, Data Docs, the results table."""
