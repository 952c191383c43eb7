"""A driver submitted to YARN by `spark-submit` in cluster mode, without waiting for its end.

The program is the main class `PythonRunner` with `-m lakeward.driver.yarn LAUNCH_ID URL_FILE`, as on a standalone
cluster: no file of ours is shipped. What `spark-submit` is given has paths, sizes and tags, and neither token, password
nor address of the registry. See docs/adr/0106.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from lakeward import jars
from lakeward.connectors.iceberg import catalog
from lakeward.connectors.yarn.site import CONF, HOW
from lakeward.jars.java import DEEP_STACK, ROOM_FOR_CLASSES
from lakeward.platform import process_group
from lakeward.platform.errors import DependencyDown, LakewardError, expect
from lakeward.platform.runtime import Launch, YarnPlace

MAIN, PROGRAM = "org.apache.spark.deploy.PythonRunner", "lakeward.driver.yarn"
PYTHON = "spark.pyspark.python"
SUBMIT_S = 120.0
"""How long spark-submit may take. What it may have submitted by then is found by its tag."""
_INHERITED = ("PATH", "HOME", "LANG", "JAVA_HOME", "HADOOP_USER_NAME", "KRB5CCNAME", "KRB5_CONFIG")
_BEFORE_THE_JVM = ("spark.driver.", "spark.yarn.", "spark.executorEnv.", "spark.hadoop.", "spark.pyspark.")
_SUBMITTED = re.compile(r"Submitted application (application_\d+_\d+)")
_QUEUE = re.compile(r"unknown queue|to non-leaf queue|is STOPPED. Cannot accept|Queue \S+ does not exist")
_LOGIN = re.compile(r"GSS initiate failed|via:\[.*KERBEROS|No valid credentials|Ticket expired|LoginException")
_RIGHTS = re.compile(r"does not have permission to submit|AccessControlException|cannot submit applications? to queue")
_SIZE = re.compile(r"above the max threshold|InvalidResourceRequestException")
_FULL = re.compile(
    r"maximum system application limit|exceeds? the maximum .{0,20}applications|already has \d+ applications"
)
_AWAY = re.compile(r"ConnectException|Connection refused|NoRouteToHost|UnknownHostException|ConnectTimeout")
_THROWN = re.compile(r"(?:Exception|Error)\b.*?: (.*)")


def digest(token: str) -> str:
    """What a tag says about a token, from which it cannot be found."""
    return hashlib.sha256(token.encode()).hexdigest()[:32]


def deployment_tag(deployment: str) -> str:
    """The tag of all drivers of a deployment. YARN's tags are lower case, and of ASCII."""
    return f"lakeward-{deployment}"


def launch_tag(token: str) -> str:
    """The tag of one launch."""
    return f"lakeward-launch-{digest(token)}"


def driver_tag(driver: str) -> str:
    """The tag by which people find a driver."""
    return f"lakeward-driver-{driver.lower()}"[:100]


def settings(launch: Launch, place: YarnPlace, python: str) -> dict[str, str]:
    """The Spark conf that has to be known before the driver's JVM starts."""
    runtime, given = launch.runtime, launch.conf
    classpath = [
        *jars.spark_classpath(runtime.jars),
        *jars.own.libraries(),
        *catalog.libraries(runtime.lake, runtime.jars),
    ]
    options = [DEEP_STACK, ROOM_FOR_CLASSES, "-XX:+ExitOnOutOfMemoryError"]
    if "-XX:+Use" not in given.get("spark.driver.extraJavaOptions", ""):
        options.append("-XX:+UseSerialGC")
    options.append(given.get("spark.driver.extraJavaOptions", ""))
    tags = [deployment_tag(place.deployment), launch_tag(launch.token), driver_tag(launch.driver)]
    return {
        # Spark's own jars are those of the nodes' pyspark: 400 MB that are not uploaded for each launch.
        "spark.yarn.jars": f"local:{jars.pyspark_jars()}/*",
        "spark.driver.cores": "1",
        # The ResourceManager's retries of a quarter of an hour would outlast the pass.
        "spark.hadoop.yarn.resourcemanager.connect.max-wait.ms": "20000",
        "spark.hadoop.yarn.resourcemanager.connect.retry-interval.ms": "2000",
        "spark.hadoop.ipc.client.connect.max.retries": "3",
        **{f"spark.yarn.appMasterEnv.{name}": value for name, value in catalog.variables_of(runtime.lake).items()},
        **{key: value for key, value in given.items() if key.startswith(_BEFORE_THE_JVM)},
        "spark.app.name": f"lakeward {launch.driver}",
        "spark.driver.extraClassPath": ":".join(str(jar) for jar in classpath),
        "spark.driver.extraJavaOptions": " ".join(option for option in options if option),
        "spark.yarn.queue": str(place.queue),
        "spark.yarn.tags": ",".join(tags),
        "spark.yarn.maxAppAttempts": "1",  # who starts a driver again is decided by reconcile alone
        "spark.yarn.submit.waitAppCompletion": "false",
        PYTHON: python,
        "spark.pyspark.driver.python": python,
    }


def submit(launch: Launch, place: YarnPlace) -> str:
    """Submit a driver; returns the id of its application.

    Raises:
        DependencyDown: YARN does not take it now: its queue, the user's rights, the login.
        LakewardError: it is refused, or spark-submit does not work here.
    """
    python = launch.conf.get(PYTHON, sys.executable)
    home = jars.pyspark_jars().parent
    with tempfile.TemporaryDirectory(prefix="lakeward-yarn-") as folder:
        conf, log = Path(folder) / "spark.conf", Path(folder) / "log"
        conf.write_text("".join(_lines(settings(launch, place, python))))
        command = [
            str(home / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", "cluster",
            "--properties-file", str(conf), "--class", MAIN, "spark-internal",
            "-m", "", PROGRAM, launch.id, str(launch.runtime.registry_url_file),
        ]  # fmt: skip
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment |= {"SPARK_HOME": str(home), CONF: expect(place.hadoop_conf, "the folder of Hadoop's files")}
        code = _run(command, environment, log)
        text = log.read_text(errors="replace")
    if found := _SUBMITTED.search(text):
        if code == 0 or not (refused := _refusal(text, place)):
            return found[1]
        raise refused
    raise _refusal(text, place) or LakewardError(
        "spark-submit did not submit a driver to YARN", why=_last(text, code),
        next=f"run it by hand: HADOOP_CONF_DIR={place.hadoop_conf} {command[0]} --master yarn ..   ({HOW})",
        code="LW-2571",
    )  # fmt: skip


def _run(command: list[str], environment: Mapping[str, str], log: Path) -> int | None:
    """Its exit code; None if it took too long, and was ended."""
    with log.open("wb") as sink:
        try:
            return process_group.run(command, limit_s=SUBMIT_S, env=environment, cwd=log.parent, output=sink)
        except OSError as error:
            sink.write(f"{command[0]}: {error.strerror}".encode())
            return 127
        except subprocess.TimeoutExpired:
            return None


def _lines(conf: Mapping[str, str]) -> Iterator[str]:
    from lakeward.connectors.kafka.spark_options import escaped

    return (f"{key} {escaped(value)}\n" for key, value in conf.items() if value)


def _refusal(text: str, place: YarnPlace) -> LakewardError | None:
    """The error of what YARN said; None if it is not known."""
    why = _said(text)
    if _QUEUE.search(text):
        return DependencyDown(
            f"YARN does not take drivers in the queue {place.queue}", why=why,
            next="yarn queue -status NAME; correct queue: of the driver in conf/lakeward.yaml, or start the queue",
            code="LW-2567",
        )  # fmt: skip
    if _LOGIN.search(text):
        return DependencyDown(
            "YARN refuses the login of this user: Kerberos", why=why,
            next=f"kinit (klist shows what is valid), as the user of Airflow's tasks ({HOW})", code="LW-2572",
        )  # fmt: skip
    if _RIGHTS.search(text):
        return DependencyDown(
            f"YARN does not allow this user to submit to the queue {place.queue}", why=why,
            next=f"add the user to the queue's acl_submit_applications, or name another queue ({HOW})", code="LW-2568",
        )  # fmt: skip
    if _SIZE.search(text):
        return LakewardError(
            "A driver is larger than YARN's largest container", why=why,
            next="make memory: of the driver smaller, or raise yarn.scheduler.maximum-allocation-mb", code="LW-2573",
        )  # fmt: skip
    if _FULL.search(text):
        return DependencyDown(
            f"YARN has no room for a driver in the queue {place.queue}: too many applications", why=why,
            next="yarn application -list; end some, or raise the queue's maximum-applications", code="LW-2576",
        )  # fmt: skip
    if _AWAY.search(text):
        return DependencyDown(
            "YARN's ResourceManager does not take a submission", why=why,
            next=f"start it, or correct yarn.resourcemanager.address in {place.hadoop_conf}/yarn-site.xml",
            code="LW-2575",
        )  # fmt: skip
    return None


def _said(text: str) -> str:
    """The message of the first exception."""
    found = next((match[1] for line in text.splitlines() if (match := _THROWN.search(line))), "")
    return found.strip()[:300] or "no message"


def _last(text: str, code: int | None) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
    ended = f"it did not end within {SUBMIT_S:.0f} s" if code is None else f"exit code {code}"
    return f"{ended}: {lines[-1][:300]}" if lines else ended
