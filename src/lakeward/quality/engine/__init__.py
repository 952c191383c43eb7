"""Computing checks: the bridge to Great Expectations, and Lakeward's own expectations."""
