"""Results as people and scripts read them: records, text, incidents, trends, Data Docs."""
