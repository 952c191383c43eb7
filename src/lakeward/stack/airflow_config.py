"""Configuration of the embedded Airflow: `airflow.cfg`, passwords of users, connections. All files have mode 0600."""

from __future__ import annotations

import configparser
import io
import json
from typing import Any

from lakeward.connectors.iceberg.catalogs import login
from lakeward.stack import private
from lakeward.stack.site import REGISTRY_ROLE, StackContext

ADMIN = "admin"
USERS = (ADMIN, "op", "user", "viewer")  # each user has the role of the same name
PARALLELISM = 4
_HEADER = "# Written by `lakeward stack up` at every start: a change here does not last.\n"


def write(site: StackContext) -> None:
    """Write all files that Airflow reads at its start; secrets are generated once."""
    home = private.folder(site.airflow_home)
    private.folder(home / "plugins")
    passwords = {
        user: site.secret("airflow.password" if user == ADMIN else f"airflow.{user}.password") for user in USERS
    }
    private.write(passwords_file_of(site), json.dumps(passwords))
    private.write(site.home.secrets / "connections.json", json.dumps(connections(site), indent=2))
    private.write(home / "airflow.cfg", _HEADER + _text(settings(site)))


def passwords_file_of(site: StackContext) -> Any:
    """The password file of the auth manager: user -> password."""
    return site.home.secrets / "airflow.passwords.json"


def settings(site: StackContext) -> dict[str, dict[str, object]]:
    """Section -> key -> value, sized for one machine: one worker, one parser, four tasks."""
    database = f"postgresql+psycopg2://{REGISTRY_ROLE}@{site.host('postgres')}:{site.ports['postgres']}/airflow"
    plugins = site.project.root / "plugins"
    return {
        "core": {
            "executor": "LocalExecutor",
            "parallelism": PARALLELISM,
            "load_examples": False,
            "dags_folder": site.project.dags,
            "plugins_folder": plugins if plugins.is_dir() else site.airflow_home / "plugins",
            "fernet_key": _fernet_key(site),
            "execution_api_server_url": f"{site.airflow}/execution/",
            "simple_auth_manager_users": ",".join(f"{user}:{user}" for user in USERS),
            "simple_auth_manager_passwords_file": passwords_file_of(site),
            "dags_are_paused_at_creation": False,
            # If a busy machine exceeds the import timeout of a Dag file, its Dags disappear, and with them supervision.
            "dagbag_import_timeout": 180,
            # Airflow hides values in the extra of a connection by their names; it does not know this one of Iceberg.
            "sensitive_var_conn_names": login.CREDENTIAL,
        },
        # No password: libpq and asyncpg read PGPASSFILE.
        "database": {"sql_alchemy_conn": database},
        "api": {
            "host": site.listen,  # the default listens on every address
            "port": site.ports["airflow"],
            "workers": 1,
            "base_url": site.airflow,
            "secret_key": site.secret("airflow.api.key"),
        },
        "api_auth": {"jwt_secret": site.secret("airflow.jwt.key")},
        "dag_processor": {
            "parsing_processes": 1,
            "dag_file_processor_timeout": 240,
            # Repeated parsing of Dag files was half of Airflow's idle CPU.
            "min_file_process_interval": 60,
            "refresh_interval": 30,
        },
        "scheduler": {
            "enable_health_check": False,
            # A task dies with its scheduler. Until this timeout its run counts as running and delays the next run of
            # streams_reconcile: by default for five minutes. A live task sends a heartbeat every five seconds.
            "task_instance_heartbeat_timeout": 60,
            # Queued tasks of a dead scheduler are adopted at this interval: by default also five minutes, because the
            # dead scheduler still counts as alive when the next one starts.
            "orphaned_tasks_check_interval": 60,
        },
        "logging": {"base_log_folder": site.home.logs / "tasks"},
        "secrets": {
            "backend": "airflow.secrets.local_filesystem.LocalFilesystemBackend",
            "backend_kwargs": json.dumps({"connections_file_path": str(site.home.secrets / "connections.json")}),
        },
        "usage_data_collection": {"enabled": False},
    }


def connections(site: StackContext) -> dict[str, dict[str, Any]]:
    """The Airflow connections of Lakeward's Dags."""
    return {
        "lakeward_registry": {
            "conn_type": "postgres",
            "host": site.host("postgres"),
            "port": site.ports["postgres"],
            "schema": "lakeward",
            "login": REGISTRY_ROLE,
            "password": site.secret(f"{REGISTRY_ROLE}.password"),
        },
        "lakeward_kafka": {"conn_type": "kafka", "extra": {"bootstrap.servers": site.kafka}},
        "lakeward_connect": {
            "conn_type": "spark_connect",
            "host": "sc://localhost",
            "port": site.ports["connect"],
            "password": site.secret(site.connect_token.name),
        },
    }


def _fernet_key(site: StackContext) -> str:
    from cryptography.fernet import Fernet

    return private.keep(private.folder(site.home.secrets) / "airflow.fernet.key", Fernet.generate_key().decode())


def _text(sections: dict[str, dict[str, object]]) -> str:
    parser = configparser.ConfigParser(interpolation=None)
    # Airflow interpolates what it reads: a percent sign in a path must be doubled.
    parser.read_dict({name: {k: str(v).replace("%", "%%") for k, v in keys.items()} for name, keys in sections.items()})
    text = io.StringIO()
    parser.write(text)
    return text.getvalue()
