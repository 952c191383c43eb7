"""The parts other than Airflow: PostgreSQL, Kafka, the Spark Connect server, the checker."""

from __future__ import annotations

import sys
from datetime import datetime

from lakeward.connectors.iceberg import catalog
from lakeward.connectors.iceberg.catalog import create_schema, spark_conf
from lakeward.connectors.spark import connect_server
from lakeward.jars import pyspark_jars
from lakeward.platform import ports
from lakeward.platform.errors import LakewardError
from lakeward.quality.runs.request import place
from lakeward.registry import checkers, engine
from lakeward.stack import kafka, postgres, private
from lakeward.stack.part import Part
from lakeward.stack.program import Program
from lakeward.stack.site import CATALOG_ROLE, DATABASES, REGISTRY_ROLE


class PostgresPart(Part):
    """PostgreSQL: the databases airflow, catalog, lakeward and served."""

    name = group = listens = "postgres"

    @property
    def server(self) -> postgres.Postgres:
        folder, port = self.site.home.root / "postgres", self.site.ports["postgres"]
        return postgres.Postgres(folder, port, host=self.site.host("postgres"))

    def prepare(self) -> None:
        self.server.initialise(self._admin())
        self.server.release()

    def program(self) -> Program:
        # SIGINT is PostgreSQL's fast shutdown: roll back, checkpoint, exit.
        return Program(self.server.command(), postgres.environment(), stop="INT", stop_wait_s=30)

    def healthy(self, since: datetime) -> bool:
        return self.server.ready(self._admin())

    def populate(self) -> None:
        """Create roles, databases and the tables of the catalog. Idempotent."""
        roles = {role: self.site.secret(f"{role}.password") for role in (REGISTRY_ROLE, CATALOG_ROLE)}
        self.server.prepare(self._admin(), roles, DATABASES)
        create_schema(self.site.runtime().lake, self.site.catalog_pgpass)

    def _admin(self) -> str:
        return self.site.secret("postgres.password")


class KafkaPart(Part):
    """Kafka: one KRaft node."""

    name = group = listens = "kafka"

    @property
    def broker(self) -> kafka.Kafka:
        at = self.site.ports
        return kafka.Kafka(self.site.home.root / "kafka", at["kafka"], at["kafka-controller"])

    def prepare(self) -> None:
        self.broker.initialise(self.site.java)

    def program(self) -> Program:
        return Program(self.broker.command(self.site.java), self.site.environment())

    def healthy(self, since: datetime) -> bool:
        return self.broker.ready()


class ConnectPart(Part):
    """The Spark Connect server for maintenance, checks and sql, protected by a token."""

    name = group = listens = "connect"
    heap = "1g"

    def prepare(self) -> None:
        folder = private.folder(self.site.home.root / "connect")
        conf = spark_conf(self.site.runtime().lake) | connect_server.server_conf(
            self.site.ports["connect"], self.heap, private.folder(folder / "tmp")
        )
        conf |= {
            "spark.sql.warehouse.dir": str(self.site.home.warehouse),
        }
        private.write(folder / "spark.conf", "".join(f"{key} {value}\n" for key, value in conf.items()))

    def program(self) -> Program:
        home = pyspark_jars().parent
        folder = self.site.home.root / "connect"
        environment = self.site.environment(
            SPARK_HOME=str(home),
            SPARK_LOCAL_IP=ports.HOST,
            SPARK_CONNECT_AUTHENTICATE_TOKEN=self.site.secret(self.site.connect_token.name),
            PGPASSFILE=str(self.site.catalog_pgpass),
            PYSPARK_PYTHON=sys.executable,
            **catalog.environment(self.site.runtime().lake),
        )
        command = [str(home / "bin" / "spark-submit"), "--properties-file", str(folder / "spark.conf")]
        command += ["--class", connect_server.MAIN, "spark-internal"]
        return Program(command, environment, folder=str(folder))

    def healthy(self, since: datetime) -> bool:
        return ports.answers(self.site.ports["connect"]) and connect_server.answers(
            self.site.connect, self.site.secret(self.site.connect_token.name)
        )


class CheckerPart(Part):
    """The checker: a resident process with Great Expectations loaded, which executes the check runs of the registry."""

    name = group = "checker"

    def program(self) -> Program:
        # A run has ten seconds to end, then its process is killed and the run is released.
        return Program([sys.executable, "-m", "lakeward.quality.resident"], self.site.environment(), stop_wait_s=40)

    def healthy(self, since: datetime) -> bool:
        url = self.site.home.registry_url_file
        try:
            with engine.connect(url.read_text().strip(), self.site.home.pgpass) as connection:
                return checkers.alive(connection, place(self.site.project.root, self.site.runtime().lake), since)
        except (LakewardError, OSError):  # the registry is down, or was never started
            return False
