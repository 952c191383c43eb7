from __future__ import annotations

import subprocess
import sys
import uuid

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from lakeward.registry.engine import connect
from lakeward.registry.schema import metadata

MIGRATE = """
import sys
from pathlib import Path
from lakeward.registry.engine import migrate
migrate(sys.argv[1], Path(sys.argv[2]))
"""


def test_the_migrations_make_exactly_the_schema(registry):
    assert compare_metadata(MigrationContext.configure(registry), metadata) == []


def test_two_at_once_migrate_one_after_the_other(postgres):
    name = f"twice_{uuid.uuid4().hex[:8]}"
    postgres.create_database(name)
    url = postgres.url(name)
    command = [sys.executable, "-c", MIGRATE, url, str(postgres.pgpass)]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [(process.communicate()[1], process.returncode) for process in both] == [("", 0), ("", 0)]
    with connect(url, postgres.pgpass) as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_the_password_file_that_is_given_wins_over_the_environments(postgres, tmp_path, monkeypatch):
    other = tmp_path / "pgpass"
    other.write_text("127.0.0.1:*:*:*:wrong\n")
    other.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(other))
    with connect(postgres.url(postgres.create_database()), postgres.pgpass) as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar_one() == 1
