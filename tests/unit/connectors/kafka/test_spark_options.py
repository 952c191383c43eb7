"""What Spark's Kafka client is told, and what it finds in a private file instead."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lakeward.connectors.kafka import spark_options
from lakeward.connectors.kafka.cluster import Cluster
from lakeward.platform import private
from lakeward.platform.errors import SpecError


def cluster(folder: Path, *lines: str) -> Cluster:
    file = private.write(private.folder(folder) / "orders.properties", "\n".join(("bootstrap.servers=a:1", *lines)))
    return Cluster("orders", "a:1", file)


BROKERS = {"kafka.bootstrap.servers": "a:1", "kafka.metadata.recovery.strategy": "rebootstrap"}
SASL = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=scram-sha-512", "sasl.username=ward")


def test_brokers_alone_need_no_file(tmp_path: Path) -> None:
    assert spark_options.options(Cluster("orders", "a:1")) == BROKERS


def test_the_login_is_in_a_private_file_that_follows_the_connection(tmp_path: Path) -> None:
    found = spark_options.options(cluster(tmp_path, *SASL, 'sasl.password=a"\\é'))
    file = tmp_path / "java" / "orders.properties"
    assert found == {
        **BROKERS,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.config.providers": "file",
        "kafka.config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "kafka.config.providers.file.param.allowed.paths": str(tmp_path / "java"),
        "kafka.sasl.jaas.config": f"${{file:{file}:sasl.jaas.config}}",
    }
    assert file.read_text() == (
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="ward" password="a\\\\"\\\\\\\\\\u00e9";\n'
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    spark_options.options(cluster(tmp_path, *SASL, "sasl.password=changed"))
    assert 'password="changed"' in file.read_text()


def test_certificates_are_the_same_pem_for_both_clients(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("-----BEGIN CERTIFICATE-----\n")
    unnamed = "ssl.endpoint.identification.algorithm=none"
    assert spark_options.options(cluster(tmp_path, "security.protocol=SSL", f"ssl.ca.location={ca}", unnamed)) == {
        **BROKERS,
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(ca),
        "kafka.ssl.endpoint.identification.algorithm": "",
    }
    assert not (tmp_path / "java").exists()


def test_a_folder_that_takes_no_login_is_named(tmp_path: Path) -> None:
    (tmp_path / "java").write_text("a file where the folder should be")
    with pytest.raises(SpecError, match="cannot be written for Spark") as refused:
        spark_options.options(cluster(tmp_path, *SASL, "sasl.password=hush"))
    assert str(tmp_path / "java") in refused.value.why
    assert "hush" not in str(refused.value)
