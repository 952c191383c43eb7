"""What Airflow would give for a connection."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Given:
    """The fields of one."""

    host: str | None = None
    port: int | None = None
    login: str | None = None
    password: str | None = None
    schema: str | None = None
    extra_dejson: dict[str, object] = field(default_factory=dict)
    conn_type: str | None = ""
