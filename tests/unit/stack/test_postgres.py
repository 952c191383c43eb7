"""The embedded PostgreSQL: whole clusters only, passwords always, libpq and the JDBC driver read one password file."""

from __future__ import annotations

import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from lakeward import jars
from lakeward.platform import ports
from lakeward.platform.errors import LakewardError
from lakeward.stack import service_user
from lakeward.stack.postgres import Postgres, pgpass


def test_nobody_gets_in_without_the_password(postgres: Any) -> None:
    for user in ("lakeward", "postgres"):
        with pytest.raises(psycopg2.OperationalError, match="password"):
            psycopg2.connect(
                host=postgres.host, port=postgres.port, dbname="lakeward", user=user, passfile="/nonexistent"
            )


def test_it_listens_on_loopback_only(postgres: Any, database: str) -> None:
    with closing(
        psycopg2.connect(
            host=postgres.host, port=postgres.port, dbname=database, user=postgres.user, passfile=str(postgres.pgpass)
        )
    ) as link, link.cursor() as cursor:  # fmt: skip
        cursor.execute("SHOW listen_addresses")
        assert cursor.fetchone() == ("127.0.0.1",)
        cursor.execute("SHOW max_wal_size")
        assert cursor.fetchone() == ("512MB",), "the settings are in force"


def test_prepare_is_safe_to_repeat_and_takes_any_password(postgres: Any) -> None:
    server: Postgres = postgres._server
    tricky = "it's a:\\\"pass%word"
    for _ in range(2):
        server.prepare(postgres.admin_password, {"somebody": tricky}, {"somewhere": "somebody"})
    with closing(server.connect("somewhere", "somebody", password=tricky)) as link:
        assert link.info.user == "somebody"
    postgres.drop_database("somewhere")


def test_the_jdbc_driver_reads_the_same_password_file(postgres: Any, database: str, tmp_path: Path) -> None:
    source = tmp_path / "Ask.java"
    source.write_text("""
        import java.sql.*;
        public class Ask {
          public static void main(String[] a) throws Exception {
            java.util.Properties p = new java.util.Properties();
            p.setProperty("user", a[1]);
            try (Connection c = DriverManager.getConnection(a[0], p)) {
              ResultSet r = c.createStatement().executeQuery("select current_user");
              r.next();
              System.out.println(r.getString(1));
            }
          }
        }""")
    java = jars.find_java()
    [driver] = [jar for jar in jars.spark_classpath(jars.ensure()) if jar.name.startswith("postgresql-")]
    if not (java.home / "bin" / "javac").exists():
        pytest.skip("this Java cannot compile")
    done = subprocess.run(
        [java.binary, "-cp", driver, source, postgres.jdbc(database), postgres.user],
        env={"PGPASSFILE": str(postgres.pgpass)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "lakeward", done.stderr


def test_a_cluster_that_cannot_be_made_leaves_no_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Postgres(tmp_path / "pg", ports.any_free(), {"fsync": "off"})
    # A program that fails, in place of one that would have to be broken: initdb is not ours.
    monkeypatch.setattr("lakeward.stack.postgres.binary", lambda name: Path("/bin/false"))
    with pytest.raises(LakewardError, match="Cannot initialise PostgreSQL"):
        server.initialise("x")
    assert not server.data.exists()
    assert not list(server.folder.glob("password-*")), "the administrator's password does not stay on the disk"


def test_a_password_file_covers_both_names_of_loopback() -> None:
    assert pgpass(5, {"a": "x", "b": "y"}).splitlines() == [
        "127.0.0.1:5:*:a:x",
        "127.0.0.1:5:*:b:y",
        "localhost:5:*:a:x",
        "localhost:5:*:b:y",
    ]


def test_a_folder_only_root_may_enter_is_known_as_such(tmp_path: Path) -> None:
    stranger = service_user.ServiceUser("nobody", 65534, 65534)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    assert not stranger.may_reach(closed / "data")
    assert stranger.may_reach(Path("/etc/passwd"))
