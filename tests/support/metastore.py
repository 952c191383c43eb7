"""A Hive Metastore of a test's own: the server's classes are in pyspark's jars, its database is Derby in a folder."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lakeward.jars import find_java, pyspark_jars
from lakeward.platform import ports

START_S = 90.0
_SOURCE = """
public class Start {
  public static void main(String[] given) throws Throwable {
    var conf = new org.apache.hadoop.hive.conf.HiveConf();
    // The tables of locks, which the persistence layer does not know.
    try { org.apache.hadoop.hive.metastore.txn.TxnDbUtil.prepDb(conf); } catch (java.sql.SQLException there) { }
    org.apache.hadoop.hive.metastore.HiveMetaStore.main(given);
  }
}
"""


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


def _launch(folder: Path, port: int) -> subprocess.Popen[bytes]:
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
    }
    text = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in given.items())
    conf = folder / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    (folder / "warehouse").mkdir(exist_ok=True)
    (conf / "hive-site.xml").write_text(f"<configuration>{text}</configuration>")
    (folder / "Start.java").write_text(_SOURCE)
    command = [
        str(find_java().binary), "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        f"-Dderby.stream.error.file={folder / 'derby.log'}", f"-Dhive.log.dir={folder}",
        "-cp", os.pathsep.join([str(conf), f"{pyspark_jars()}/*"]), str(folder / "Start.java"), "-p", str(port),
    ]  # fmt: skip
    with (folder / "log").open("ab") as sink:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True, cwd=folder
        )


@contextmanager
def running(folder: Path) -> Iterator[Metastore]:
    """A metastore on a free port, ended whatever happens."""
    port = ports.any_free()
    made = Metastore(port, _launch(folder, port), folder)
    try:
        made.wait()
        yield made
    finally:
        made.server.kill()
        made.server.wait()
