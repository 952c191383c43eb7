"""Message channels: log, webhook and Slack. A channel sends the first message of an incident and updates it later."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypedDict

import httpx
import structlog

from lakeward.platform.errors import Transient
from lakeward.platform.text import moment
from lakeward.registry.incidents import Incident, Sent
from lakeward.supervision import page_links
from lakeward.telemetry.mask import mask

log = structlog.get_logger(__name__)

TIMEOUT_S = 5.0
_RESENT = "wait: the next reconcile pass sends it again"
_LATER = (408, 425, 429)
"""Answers of the 4xx that ask for a later retry."""
_SLACK_LATER = (
    "ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout",
)  # fmt: skip


class Undelivered(Transient):
    """Raised when a message was not delivered; the next pass sends it again."""


class MessageRefused(Undelivered):
    """Raised when the receiver is available and rejects this message: an immediate retry is of no use."""


class Channel(Protocol):
    """One destination of messages."""

    @property
    def name(self) -> str:
        """The name recorded with the message."""

    def send(self, incident: Incident) -> Sent:
        """Send the newest text; returns what is needed to update the message later.

        Raises:
            MessageRefused: the receiver rejects it.
            Undelivered: it was not delivered.
        """


def event(incident: Incident) -> str:
    """`opened` (the first message), `updated` or `resolved`."""
    if incident.closed_at is not None:
        return "resolved"
    return "updated" if (incident.message or {}).get("text") else "opened"


def words(incident: Incident, airflow: str = "", docs: str = "") -> str:
    """The message as people read it, masked, with the section of the runbook; and with links to the run and to the page
    if the address of Airflow is known."""
    state = {"opened": "OPEN", "updated": "STILL OPEN", "resolved": "RESOLVED"}[event(incident)]
    lines = [f"{state} [incident {incident.id}] {incident.text}"]
    if incident.closed_at is None and incident.fields.get("next"):
        lines.append(f"next: {incident.fields['next']}")
    lines.append(f"since {moment(incident.opened_at)}")
    links = links_of(incident, airflow, docs)
    lines = [mask("\n".join(lines)), *(f"{name}: {links[name]}" for name in ("runbook", "run") if links[name])]
    return "\n".join([*lines, links["page"]] if links["page"] else lines)


class Links(TypedDict):
    """Where a message leads; empty where the address is not known. The runbook is a path of the docs without one."""

    page: str
    run: str
    runbook: str


def links_of(incident: Incident, airflow: str, docs: str) -> Links:
    """The links of an incident.

    Args:
        airflow: the address that people use for Airflow.
        docs: where the folder `docs` can be read, e.g. `https://git.example.com/lake/blob/main`.
    """
    runbook = page_links.runbook_of(incident)
    return {
        "page": page_links.of_incident(airflow, incident),
        "run": page_links.run_of(airflow, incident),
        "runbook": f"{docs.rstrip('/')}/{runbook}" if docs else runbook,
    }


def once(incident: Incident) -> str:
    """The idempotency key: equal for the same text of the same incident, so that a receiver can drop duplicates."""
    return f"{incident.id}-{hashlib.sha256(incident.text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Log:
    """The channel without configuration: the log of the reconcile task."""

    airflow: str = ""
    docs: str = ""
    name: str = "log"

    def send(self, incident: Incident) -> Sent:
        """Write the message to the log."""
        (log.info if incident.closed_at is not None else log.error)(
            words(incident, self.airflow, self.docs), incident=incident.id
        )
        return {}


@dataclass(frozen=True)
class Webhook:
    """A JSON POST for every new text. Slack, Mattermost, Teams relays and most others show `text`. `incident` is equal
    for all texts of an incident, for receivers that update messages.

    The `id` of the receiver's answer is sent as `message` with the next text. If the receiver rejects that, because the
    message was deleted, the text is sent as a new message.
    """

    url: str
    airflow: str = ""
    docs: str = ""
    name: str = "webhook"

    def send(self, incident: Incident) -> Sent:
        """Post the message."""
        known = (incident.message or {}).get("id")
        links = links_of(incident, self.airflow, self.docs)
        body = {
            "text": words(incident, self.airflow, self.docs),
            "page": links["page"] or None,
            "run": links["run"] or None,
            "runbook": links["runbook"],
            "incident": incident.id,
            "event": event(incident),
            "kind": incident.kind,
            "subject": incident.subject,
            "streams": incident.streams,
            "next": mask(str(incident.fields.get("next") or "")),
            "opened_at": incident.opened_at.isoformat(),
            "closed_at": incident.closed_at.isoformat() if incident.closed_at else None,
        }
        key = once(incident)
        if known:
            try:
                answer = _post(self.url, body | {"message": known}, {"Idempotency-Key": key})
            except MessageRefused as error:
                _log_resend(incident, error)
                key += "-again"  # the receiver may have cached its answer to the first key
            else:
                return {"id": answer.get("id") or known}
        answer = _post(self.url, body, {"Idempotency-Key": key})
        return {"id": answer["id"]} if answer.get("id") else {}


@dataclass(frozen=True)
class Slack:
    """Slack's API: one message for each incident in a channel, updated in place (`chat.postMessage`, `chat.update`)."""

    token: str
    channel: str
    url: str = "https://slack.com/api"
    airflow: str = ""
    docs: str = ""
    name: str = "slack"

    def send(self, incident: Incident) -> Sent:
        """Post the message, or update it. Its end is also posted as a reply, which notifies people once more.

        A message that cannot be updated (deleted, or its channel is missing) is posted again.
        """
        before: Sent = incident.message or {}
        text = words(incident, self.airflow, self.docs)
        if before.get("ts"):
            place: Sent = {"channel": before.get("channel", self.channel), "ts": before["ts"]}
            try:
                self._call("chat.update", {**place, "text": text})
            except MessageRefused as error:
                _log_resend(incident, error)
            else:
                if incident.closed_at is not None:
                    reply = {"channel": place["channel"], "thread_ts": place["ts"], "text": text}
                    self._call("chat.postMessage", reply)
                return place
        posted = self._call("chat.postMessage", {"channel": self.channel, "text": text})
        return {"ts": str(posted["ts"]), "channel": str(posted.get("channel", self.channel))}

    def _call(self, method: str, body: Mapping[str, object]) -> dict[str, object]:
        answer = _post(f"{self.url.rstrip('/')}/{method}", body, {"Authorization": f"Bearer {self.token}"})
        if not answer.get("ok"):
            why = str(answer.get("error", "no reason given"))
            if why in _SLACK_LATER:
                raise Undelivered(
                    "Slack did not accept a message now", why=f"{method}: {why}", next=_RESENT, code="LW-2512"
                )
            raise MessageRefused(
                "Slack rejected a message",
                why=f"{method}: {why}",
                next="correct the token or the channel of the Airflow connection lakeward_notify",
                code="LW-2510",
            )
        return answer


def _log_resend(incident: Incident, error: MessageRefused) -> None:
    log.warning("message not updatable, sent again", why=error.why, incident=incident.id)


def _post(url: str, body: Mapping[str, object], headers: dict[str, str]) -> dict[str, object]:
    """POST JSON; the answer's JSON object, empty if it is none.

    Raises:
        MessageRefused: a 4xx answer that rejects the message.
        Undelivered: no answer, or another answer that is not 2xx. The error omits the path of the address, which may
            be a secret.
    """
    place = url.split("://")[-1].split("/")[0].split("@")[-1]
    try:
        answer = httpx.post(url, json=body, headers=headers, timeout=TIMEOUT_S)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Undelivered(
            "A message was not delivered", why=f"{place}: {type(error).__name__}", next=_RESENT, code="LW-2503"
        ) from None
    if not answer.is_success:
        why = f"{place} answered {answer.status_code}"
        if answer.is_client_error and answer.status_code not in _LATER:
            raise MessageRefused(
                "The receiver rejected a message",
                why=why,
                next="correct the address in the Airflow connection lakeward_notify, or the receiver",
                code="LW-2511",
            )
        raise Undelivered("A message was not delivered", why=why, next=_RESENT, code="LW-2509")
    try:
        content = answer.json()
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
