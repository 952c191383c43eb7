"""Alerts to a webhook: a POST each, tried again while the receiver is not well."""

import json
import time

import httpx

TRIES = 4
PAUSE_S = 0.2
POSITION = ("_kafka_topic", "_kafka_partition", "_kafka_offset")


def post(df, batch):
    """Post every row. A batch that runs again sends the same keys, so that the receiver can drop what it has."""
    to = batch.connection
    token = {"Authorization": f"Bearer {to.password}"} if to.password else {}
    where = f"{to.schema_ or 'https'}://{to.host}:{to.port or 443}{to.extra.get('path', '/')}"
    with httpx.Client(headers=token, timeout=10) as client:
        for row in df.toLocalIterator():  # in pieces: a burst of alerts need not fit into memory
            record = row.asDict()
            key = "/".join([batch.key, *(str(record[name]) for name in POSITION)])
            send(client, where, {"Idempotency-Key": key}, json.dumps(record, default=str))


def send(client, where, headers, body):
    """Send one. What is refused for good is this record's fault; anything else may pass, and the batch waits."""
    for attempt in range(TRIES):
        try:
            answer = client.post(where, content=body, headers=headers | {"Content-Type": "application/json"})
        except httpx.TransportError as error:
            problem = repr(error)
        else:
            if answer.is_success:
                return
            problem = f"it answers {answer.status_code}"
            if answer.status_code < 500 and answer.status_code not in (408, 429):
                raise ValueError(f"{where} refuses {headers['Idempotency-Key']}: {problem}")
        time.sleep(PAUSE_S * 2**attempt)
    raise ConnectionError(f"{where}: {problem}")
