"""The page's API: streams, tables, checks and the audit log as JSON, for the page inside Airflow and for scripts.

It reads the registry, and for one stream also what its report reads. It changes nothing: an operation is a run of the
stream's Dag, which Airflow's own API starts. Who may call a route is decided by a `Gate`, which Airflow provides.
"""

from __future__ import annotations

from pathlib import Path

STATIC = Path(__file__).with_name("static")
"""The built page."""
