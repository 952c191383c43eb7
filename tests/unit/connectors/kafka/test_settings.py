"""What a Kafka connection may say; nothing else is taken, and nothing is left out in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.connectors.kafka.settings import check
from lakeward.platform.errors import SpecError

BROKERS = {"bootstrap.servers": "a:1"}
SASL = {
    **BROKERS, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "ward",
    "sasl.password": "hush",
}  # fmt: skip


def test_brokers_alone_are_a_connection() -> None:
    found = check("c", "there", {"bootstrap.servers": " a:1 , b:2 "})
    assert (found.librdkafka(), found.secure, found.principal) == (
        {"bootstrap.servers": "a:1,b:2"}, False, "User:ANONYMOUS",
    )  # fmt: skip


def test_a_user_and_an_authority_reach_the_client_and_no_text(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("-----BEGIN CERTIFICATE-----\n")
    more = {"security.protocol": "sasl_ssl", "ssl.ca.location": str(file), "sasl.password": " with spaces "}
    del (given := {**SASL, **more})["sasl.mechanism"]
    found = check("c", "there", {**given, "sasl.mechanisms": "scram-sha-256"})
    assert found.librdkafka() == {
        "bootstrap.servers": "a:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "ward", "sasl.password": " with spaces ", "ssl.ca.location": str(file),
    }  # fmt: skip
    assert found.principal == "User:ward"
    assert "with spaces" not in f"{found!r} {found}"
    unverified = check("c", "there", {**BROKERS, "security.protocol": "SSL", VERIFY: "none"})
    assert unverified.librdkafka()[VERIFY] == "none"


VERIFY = "ssl.endpoint.identification.algorithm"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "bootstrap.servers is missing: bootstrap servers are host:port"),
        ({"bootstrap.servers": "a"}, "bootstrap.servers is not valid"),
        ({"bootstrap.servers": 7}, "bootstrap.servers must be a text"),
        ({**BROKERS, "group.id": "g"}, "group.id is not supported: Lakeward joins no consumer group"),
        ({**BROKERS, "sasl.usrname": "g"}, "sasl.usrname is unknown; did you mean sasl.username?"),
        ({**BROKERS, "x": "y"}, "x is unknown; valid: bootstrap.servers, security.protocol, sasl.mechanism"),
        ({**BROKERS, "schema": "y"}, "schema is not supported"),
        ({**BROKERS, "security.protocol": "TLS"}, "TLS is not supported; valid: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_"),
        ({**BROKERS, "sasl.password": "hush"}, "sasl.password needs security.protocol SASL_SSL or SASL_PLAINTEXT"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "GSSAPI is not supported; valid: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({**SASL, "sasl.mechanisms": "PLAIN"}, "are the same setting"),
        ({**SASL, "ssl.ca.location": "/ca"}, "ssl.ca.location needs security.protocol SSL or SASL_SSL"),
        ({**SASL, "sasl.password": " "}, "sasl.password must be a text that is not empty"),
        ({**SASL, "security.protocol": "SASL_SSL", "ssl.ca.location": "ca.pem"}, "ca.pem must be an absolute path"),
        ({**BROKERS, "security.protocol": "SSL", "ssl.ca.location": "/no/ca.pem"}, "/no/ca.pem cannot be read"),
        ({**BROKERS, "security.protocol": "SSL", "ssl.ca.location": "/dev/null"}, "has no certificate in PEM format"),
        ({**BROKERS, "security.protocol": "SSL", VERIFY: "maybe"}, "maybe is not supported; valid: https, none"),
        ({**BROKERS, "enable.ssl.certificate.verification": "false"}, "Spark always verifies"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_its_name(given: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError) as refused:
        check("orders", "over there", given)
    assert words in refused.value.why
    assert "orders" in refused.value.what
    assert refused.value.why.startswith("over there: ")
    assert "hush" not in str(refused.value)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(SpecError) as refused:
        check("orders", "there", {"security.protocol": "SASL_SSL", "group.id": "g"})
    for words in ("bootstrap.servers is missing", "sasl.mechanism is missing", "sasl.password is missing", "group.id"):
        assert words in refused.value.why
