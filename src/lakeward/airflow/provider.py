"""What Lakeward tells Airflow about itself: a provider package with the types of connections its streams name.

Airflow's connection form offers the types of installed providers alone. Lakeward needs neither the Kafka nor the Amazon
provider, so it brings the form of a type along, unless the provider that owns the type is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, ClassVar

_NONE: Mapping[str, str] = MappingProxyType({})


class Form:
    """The form of a type of connections. Airflow loads the class for its attributes and calls nothing.

    Attributes:
        conn_type, hook_name, conn_name_attr: the type, its name in the form, and an attribute that Airflow demands.
        owner: the package of the provider that owns the type.
        hidden: standard fields that are not used.
        labels, placeholders: field -> its name, and an example.
    """

    conn_type: ClassVar[str]
    hook_name: ClassVar[str]
    conn_name_attr: ClassVar[str] = "conn_id"
    owner: ClassVar[str]
    hidden: ClassVar[tuple[str, ...]] = ()
    labels: ClassVar[Mapping[str, str]] = _NONE
    placeholders: ClassVar[Mapping[str, str]] = _NONE

    @classmethod
    def document(cls) -> dict[str, Any]:
        """As `connection-types` of a provider."""
        return {
            "connection-type": cls.conn_type,
            "hook-class-name": f"{cls.__module__}.{cls.__name__}",
            "hook-name": cls.hook_name,
            "ui-field-behaviour": {
                "hidden-fields": list(cls.hidden),
                "relabeling": dict(cls.labels),
                "placeholders": dict(cls.placeholders),
            },
        }


class Kafka(Form):
    """A Kafka cluster."""

    conn_type = "kafka"
    hook_name = "Apache Kafka"
    owner = "airflow.providers.apache.kafka"
    hidden = ("schema",)
    labels: ClassVar[Mapping[str, str]] = {
        "host": "Bootstrap server", "login": "SASL user name", "password": "SASL password",
        "extra": "librdkafka properties",
    }  # fmt: skip
    placeholders: ClassVar[Mapping[str, str]] = {"extra": '{"bootstrap.servers": "broker-1:9092,broker-2:9092"}'}


class Postgres(Form):
    """A PostgreSQL database: the registry, or a sink."""

    conn_type = "postgres"
    hook_name = "Postgres"
    owner = "airflow.providers.postgres"
    labels: ClassVar[Mapping[str, str]] = {"schema": "Database"}
    placeholders: ClassVar[Mapping[str, str]] = {"port": "5432", "extra": '{"sslmode": "verify-full"}'}


class Aws(Form):
    """An account of AWS or of a compatible service."""

    conn_type = "aws"
    hook_name = "Amazon Web Services"
    owner = "airflow.providers.amazon"
    hidden = ("host", "schema", "port")
    labels: ClassVar[Mapping[str, str]] = {"login": "Access key", "password": "Secret key"}
    placeholders: ClassVar[Mapping[str, str]] = {"extra": '{"region_name": "eu-central-1"}'}


class Iceberg(Form):
    """The login of an Iceberg REST catalog."""

    conn_type = "iceberg"
    hook_name = "Iceberg"
    owner = "airflow.providers.apache.iceberg"
    hidden = ("schema", "port")
    labels: ClassVar[Mapping[str, str]] = {
        "host": "Catalog URI (Lakeward takes it from its settings)", "login": "Client id",
        "password": "Client secret, or token without a client id", "extra": "Iceberg's login properties",
    }  # fmt: skip
    placeholders: ClassVar[Mapping[str, str]] = {"extra": '{"scope": "PRINCIPAL_ROLE:ALL"}'}


class Http(Form):
    """The receiver of messages about incidents."""

    conn_type = "http"
    hook_name = "HTTP"
    owner = "airflow.providers.http"
    hidden = ("login",)
    labels: ClassVar[Mapping[str, str]] = {"schema": "Scheme", "password": "Secret path or token"}
    placeholders: ClassVar[Mapping[str, str]] = {"host": "https://hooks.example.com"}


class Kubernetes(Form):
    """A cluster of Kubernetes, on which drivers run as pods."""

    conn_type = "kubernetes"
    hook_name = "Kubernetes Cluster Connection"
    owner = "airflow.providers.cncf.kubernetes"
    hidden = ("host", "schema", "login", "password", "port")
    placeholders: ClassVar[Mapping[str, str]] = {
        "extra": '{"kube_config_path": "/etc/lakeward/prod.kubeconfig", "namespace": "streams"}'
    }


FORMS: tuple[type[Form], ...] = (Kafka, Postgres, Aws, Iceberg, Http, Kubernetes)


def get_provider_info() -> dict[str, Any]:
    """The entry point `apache_airflow_provider`."""
    return {
        "package-name": "lakeward",
        "name": "Lakeward",
        "description": "Streams, tables and checks of a streaming lakehouse, run from Airflow.",
        "versions": [metadata.version("lakeward")],
        "connection-types": [form.document() for form in FORMS if not _installed(form.owner)],
    }


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # a package above it does not exist
        return False
