"""A Hive Metastore of a test's own: the server's classes are in pyspark's jars.

Its database is Derby in its folder, or a database of the PostgreSQL of the tests, which `on_postgres` prepares.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakeward.jars import find_java, pyspark_jars
from lakeward.jars.places import spark_classpath
from lakeward.platform import ports, private

START_S = 90.0
_SOURCE = """
public class Start {
  public static void main(String[] given) throws Throwable {
    var conf = new org.apache.hadoop.hive.conf.HiveConf();
    // The tables of locks, which the persistence layer does not know.
    if (conf.get("javax.jdo.option.ConnectionURL").startsWith("jdbc:derby:"))
    try { org.apache.hadoop.hive.metastore.txn.TxnDbUtil.prepDb(conf); } catch (java.sql.SQLException there) { }
    org.apache.hadoop.hive.metastore.HiveMetaStore.main(given);
  }
}
"""
_LOCKS = """
TXNS TXN_ID:k TXN_STATE:c TXN_STARTED:n TXN_LAST_HEARTBEAT:n TXN_USER:t TXN_HOST:t
TXN_COMPONENTS TC_TXNID:n TC_DATABASE:t TC_TABLE:t TC_PARTITION:t TC_OPERATION_TYPE:c
COMPLETED_TXN_COMPONENTS CTC_TXNID:n CTC_DATABASE:t CTC_TABLE:t CTC_PARTITION:t
HIVE_LOCKS HL_LOCK_EXT_ID:n HL_LOCK_INT_ID:n HL_TXNID:n HL_DB:t HL_TABLE:t HL_PARTITION:t HL_LOCK_STATE:c \
HL_LOCK_TYPE:c HL_LAST_HEARTBEAT:n HL_ACQUIRED_AT:n HL_USER:t HL_HOST:t HL_HEARTBEAT_COUNT:i HL_AGENT_INFO:t \
HL_BLOCKEDBY_EXT_ID:n HL_BLOCKEDBY_INT_ID:n
COMPACTION_QUEUE CQ_ID:k CQ_DATABASE:t CQ_TABLE:t CQ_PARTITION:t CQ_STATE:c CQ_TYPE:c CQ_TBLPROPERTIES:t \
CQ_WORKER_ID:t CQ_START:n CQ_RUN_AS:t CQ_HIGHEST_TXN_ID:n CQ_META_INFO:b CQ_HADOOP_JOB_ID:t
COMPLETED_COMPACTIONS CC_ID:k CC_DATABASE:t CC_TABLE:t CC_PARTITION:t CC_STATE:c CC_TYPE:c CC_TBLPROPERTIES:t \
CC_WORKER_ID:t CC_START:n CC_END:n CC_RUN_AS:t CC_HIGHEST_TXN_ID:n CC_META_INFO:b CC_HADOOP_JOB_ID:t
AUX_TABLE MT_KEY1:t MT_KEY2:n MT_COMMENT:t
WRITE_SET WS_DATABASE:t WS_TABLE:t WS_PARTITION:t WS_TXNID:n WS_COMMIT_ID:n WS_OPERATION_TYPE:c
NEXT_TXN_ID NTXN_NEXT:n
NEXT_LOCK_ID NL_NEXT:n
NEXT_COMPACTION_QUEUE_ID NCQ_NEXT:n
"""
"""The tables of locks, which `TxnDbUtil` makes with types of Derby: their columns, with kinds of `_TYPES`."""
_TYPES = {"k": "bigint PRIMARY KEY", "n": "bigint", "i": "integer", "t": "varchar(767)", "c": "char(1)", "b": "bytea"}


def on_postgres(service: Any, database: str, file: Path) -> Path:
    """Prepare an empty database for a metastore; `file` then leads `running` to it."""
    import psycopg2

    where = {"host": service.host, "port": service.port, "user": service.user, "password": service.password}
    with closing(psycopg2.connect(dbname=database, **where)) as link, link, link.cursor() as cursor:
        for line in _LOCKS.strip().splitlines():
            table, *columns = line.split()
            typed = ", ".join(f"{name} {_TYPES[kind]}" for name, kind in (each.split(":") for each in columns))
            cursor.execute(f"CREATE TABLE {table} ({typed})")
            if table.startswith("NEXT_"):
                cursor.execute(f"INSERT INTO {table} VALUES (1)")
    given = {
        "javax.jdo.option.ConnectionURL": service.jdbc(database),
        "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
        "javax.jdo.option.ConnectionUserName": service.user,
        "javax.jdo.option.ConnectionPassword": service.password,
    }
    return private.write(file, json.dumps(given))


@dataclass
class Metastore:
    """A running metastore.

    Attributes:
        port: of its Thrift protocol.
        server: the process.
        folder: its database, its log and the warehouse.
    """

    port: int
    server: subprocess.Popen[bytes]
    folder: Path

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    @property
    def properties(self) -> dict[str, str]:
        """For `Lake.properties`."""
        return {"type": "hive", "uri": f"thrift://{ports.HOST}:{self.port}", "warehouse": str(self.warehouse)}

    def wait(self, patience_s: float = START_S) -> None:
        """Wait until it answers."""
        end = time.monotonic() + patience_s
        while not ports.answers(self.port):
            log = (self.folder / "log").read_text(errors="replace")[-3000:]
            assert self.server.poll() is None and time.monotonic() < end, log
            time.sleep(0.2)


def _launch(folder: Path, port: int, database: Mapping[str, str]) -> subprocess.Popen[bytes]:
    given = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:{folder}/db;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": str(folder / "warehouse"),
        # Iceberg's documentation wants it: otherwise the metastore refuses changes of columns.
        "hive.metastore.disallow.incompatible.col.type.changes": "false",
        "hive.async.log.enabled": "false",  # a library is missing for it
        "datanucleus.connectionPoolingType": "HikariCP",
        "hive.txn.timeout": "10s",
        "hive.metastore.event.db.notification.api.auth": "false",
        "hive.metastore.server.min.threads": "8",
        **database,
    }
    text = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in given.items())
    conf = folder / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    (folder / "warehouse").mkdir(exist_ok=True)
    private.write(conf / "hive-site.xml", f"<configuration>{text}</configuration>")
    (folder / "Start.java").write_text(_SOURCE)
    driver = [str(jar) for jar in spark_classpath() if jar.name.startswith("postgresql-")]
    classes = os.pathsep.join([str(conf), f"{pyspark_jars()}/*", *driver])
    command = [
        str(find_java().binary), "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        f"-Dderby.stream.error.file={folder / 'derby.log'}", f"-Dhive.log.dir={folder}",
        "-cp", classes, str(folder / "Start.java"), "-p", str(port),
    ]  # fmt: skip
    with (folder / "log").open("ab") as sink:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True, cwd=folder
        )


@contextmanager
def running(folder: Path, database: Path | None = None) -> Iterator[Metastore]:
    """A metastore on a free port, ended whatever happens.

    Args:
        database: the file of `on_postgres`; without one it has Derby.
    """
    port = ports.any_free()
    given = json.loads(database.read_text()) if database is not None else {}
    made = Metastore(port, _launch(folder, port, given), folder)
    try:
        made.wait()
        yield made
    finally:
        made.server.kill()
        made.server.wait()
