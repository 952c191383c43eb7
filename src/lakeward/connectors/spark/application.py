"""Temporary Spark application: a private Spark Connect server that ends with the process that started it.

It has the configuration and protocol of the shared Connect server and its own token, so that the same code runs on
both. See docs/adr/0049.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from lakeward.connectors.iceberg import catalog
from lakeward.connectors.kafka.spark_options import escaped
from lakeward.connectors.spark import connect_server, master
from lakeward.jars import pyspark_jars
from lakeward.platform import machine, ports, private
from lakeward.platform.errors import LakewardError, Unhealthy, expect
from lakeward.platform.runtime import Runtime
from lakeward.spec.model import driver_conf
from lakeward.spec.model.settings import Driver

START_S = 120.0
STOP_S = 15
END_S = 1.0
_INHERITED = ("PATH", "HOME", "LANG", "JAVA_HOME")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# The JVM is stopped when our end of the pipe closes, that is, also when this process is killed.
_TIED = f"""
exec 3<&0 </dev/null
"$@" & jvm=$!
{{
  cat <&3; kill "$jvm"
  for _ in {" ".join("." * STOP_S)}; do kill -0 "$jvm" || exit; sleep 1; done
  kill -KILL "$jvm"
}} >/dev/null 2>&1 & tie=$!
wait "$jvm"; code=$?
kill "$tie" 2>/dev/null
exit "$code"
"""
_SIGNS = re.compile(r"OutOfMemoryError|Exception|ERROR|Error:")


@dataclass(frozen=True)
class Application:
    """A running application.

    Attributes:
        runtime: the deployment's, with this application as its Connect server.
        start_s: how long it took to answer.
    """

    runtime: Runtime
    start_s: float
    _process: subprocess.Popen[bytes]
    _log: Path

    def ended(self) -> str:
        """Why the application ended, as a clause; empty while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)  # its client may notice the end before this process does
        code = self._process.poll()
        return "" if code is None else f"its Spark application ended (exit code {code}): {_last_error(self._log)}"


@contextmanager
def application(runtime: Runtime, name: str, driver: Driver) -> Iterator[Application]:
    """Run an application for the duration of the block.

    Args:
        runtime: has the lake, the jars and the secrets.
        name: the driver's name in `conf/lakeward.yaml`.
        driver: its cores and memory, or its cluster, and its Spark settings.

    Raises:
        Unhealthy: it did not start; `why` has the last error of Spark's log.
        DependencyDown: the master of its cluster does not answer.
        SpecError: the cluster needs a secret, and the secret is missing.
    """
    begun = monotonic()
    with TemporaryDirectory(prefix="lakeward-application-") as temporary:  # mode 0700
        folder, port, token = Path(temporary), ports.any_free(), secrets.token_urlsafe(32)
        (folder / "tmp").mkdir()
        conf = _conf(runtime, name, driver, port, folder)
        private.write(folder / "spark.conf", "".join(f"{key} {escaped(value)}\n" for key, value in conf.items()))
        home = pyspark_jars().parent
        command = [str(home / "bin" / "spark-submit"), "--properties-file", str(folder / "spark.conf")]
        command += ["--class", connect_server.MAIN, "spark-internal"]
        log = folder / "log"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                ["/bin/sh", "-c", _TIED, "sh", *command],
                stdin=subprocess.PIPE, stdout=sink, stderr=sink, cwd=folder, start_new_session=True,
                env=_environment(runtime, home, token),
            )  # fmt: skip
        address = f"localhost:{port}"
        own = runtime.model_copy(
            update={"connect": address, "connect_token_file": private.write(folder / "token", token)}
        )
        try:
            while not (ports.answers(port) and connect_server.answers(address, token)):
                if process.poll() is not None or monotonic() - begun > machine.patience(START_S):
                    raise _not_started(name, log)
                sleep(0.2)
            yield Application(own, round(monotonic() - begun, 1), process, log)
        finally:
            expect(process.stdin, "the pipe to the process").close()
            process.wait()


def _conf(runtime: Runtime, name: str, driver: Driver, port: int, folder: Path) -> dict[str, str]:
    declared = driver_conf.conf([], driver)
    server = connect_server.server_conf(port, declared["spark.driver.memory"], folder / "tmp")
    java = " ".join(part for part in (server[_JAVA_OPTIONS], declared.pop(_JAVA_OPTIONS, "")) if part)
    conf = catalog.spark_conf(runtime.lake) | server
    if driver.master is not None:
        conf |= master.conf(runtime, master.reach(driver.master))
    conf |= declared | {
        _JAVA_OPTIONS: java,
        "spark.app.name": f"lakeward {name}",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    if driver.authenticate:  # in a private file that the JVM reads; no UI shows it
        conf["spark.authenticate.secret"] = master.secret(runtime, name)
    return conf


def _environment(runtime: Runtime, home: Path, token: str) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    passwords = runtime.pgpass or os.environ.get("PGPASSFILE")
    if passwords:
        inherited["PGPASSFILE"] = str(passwords)
    return {
        **inherited,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": ports.HOST,
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": token,
        **catalog.environment(runtime.lake, runtime.jars),
    }


def _not_started(name: str, log: Path) -> LakewardError:
    return Unhealthy(
        f"The Spark application {name} did not start",
        why=_last_error(log),
        next=f"correct drivers: {{{name}: ..}} in conf/lakeward.yaml, or choose engine connect",
        code="LW-3169",
    )


def _last_error(log: Path) -> str:
    """The last log line that contains an error."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if _SIGNS.search(line)]
    return lines[-1][:300] if lines else "its log has no error"
