"""Computing checks: the bridge to Great Expectations, and the expectations that only Lakeward has."""
