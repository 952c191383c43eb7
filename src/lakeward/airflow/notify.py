"""Messages to people, configured as the Airflow connection `lakeward_notify`. Without it they are in the task's log.

| what people use | host | password | extra |
|---|---|---|---|
| any webhook, e.g. Slack's or Mattermost's | `https://hooks.example.com` | the secret path after it | |
| Slack, with the message changed in place | | bot token with `chat:write` | `{"channel": "C0123456"}` |

`docs` of the extra is where the project's folder `docs` can be read: links to the runbook begin with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from airflow.sdk import BaseNotifier

from lakeward.airflow.connection_files import AirflowConnection

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakeward.supervision.notify.channel import Channel
    from lakeward.supervision.observe import Connect

log = structlog.get_logger(__name__)

NOTIFY = "lakeward_notify"


class IncidentNotifier(BaseNotifier):
    """Sends a message for every incident that is new, changed or closed; each text once."""

    def __init__(self, connect: Connect, channel: Channel | None = None) -> None:
        super().__init__()
        self.connect, self.channel = connect, channel

    def notify(self, context: Context) -> None:
        """Send all pending messages.

        Raises:
            DependencyDown: the registry cannot be reached.
        """
        from lakeward.airflow.webserver.links import airflow_address
        from lakeward.supervision.notify.deliver import deliver

        sent = deliver(self.connect, self.channel or channel_of(_connection(), airflow_address())).sent
        if sent:
            log.info("messages sent", incidents=list(sent))


def channel_of(connection: AirflowConnection | None, airflow: str = "") -> Channel:
    """The channel of a connection; the log without one.

    Args:
        airflow: the address that people use for Airflow; empty: messages have no link.
    """
    from lakeward.supervision.notify.channel import Log, Slack, Webhook

    if connection is None:
        return Log(airflow)
    target, docs = connection.extra_dejson.get("channel"), str(connection.extra_dejson.get("docs") or "")
    if target:
        url = _url(connection) if connection.host else "https://slack.com/api"
        return Slack(connection.password or "", str(target), url, airflow, docs)
    secret = f"/{connection.password.lstrip('/')}" if connection.password else ""
    return Webhook(_url(connection) + secret, airflow, docs)


def _url(connection: AirflowConnection) -> str:
    """The address: a full URL in the host, or composed as in Airflow's http connections."""
    host = connection.host or ""
    if "://" in host:
        return host.rstrip("/")
    port = f":{connection.port}" if connection.port else ""
    return f"{connection.schema or 'https'}://{host}{port}".rstrip("/")


def _connection() -> AirflowConnection | None:
    from airflow.sdk import BaseHook

    from lakeward.airflow.connections import optional

    return optional(BaseHook.get_connection, NOTIFY)


async def channel_async() -> Channel:
    """The configured channel, inside the triggerer's event loop."""
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException

    from lakeward.airflow.webserver.links import airflow_address

    try:
        return channel_of(await BaseHook.aget_connection(NOTIFY), airflow_address())
    except AirflowNotFoundException:
        return channel_of(None, airflow_address())
