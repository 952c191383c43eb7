"""Where messages go. A channel sends the first message of an incident and changes it afterwards."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Protocol

import httpx
import structlog

from lakeward.errors import Transient
from lakeward.registry.incidents import Incident
from lakeward.telemetry.mask import mask

log = structlog.get_logger(__name__)

TIMEOUT_S = 5.0


class Undelivered(Transient):
    """Raised when a message did not arrive; it is sent again with the next pass."""


class Channel(Protocol):
    """One place where people read."""

    @property
    def name(self) -> str:
        """As it stands with the message."""

    def send(self, incident: Incident) -> dict[str, Any]:
        """Send the newest text; returns what is needed to change the message later.

        Raises:
            Undelivered: it did not arrive.
        """


def event(incident: Incident) -> str:
    """`opened` (the first message), `updated` or `resolved`."""
    if incident.closed_at is not None:
        return "resolved"
    return "updated" if incident.message else "opened"


def words(incident: Incident) -> str:
    """The message as people read it, masked."""
    state = {"opened": "OPEN", "updated": "STILL OPEN", "resolved": "RESOLVED"}[event(incident)]
    lines = [f"{state} [incident {incident.id}] {incident.text}"]
    if incident.closed_at is None and incident.fields.get("next"):
        lines.append(f"next: {incident.fields['next']}")
    lines.append(f"since {incident.opened_at:%Y-%m-%d %H:%M:%S} UTC")
    return mask("\n".join(lines))


def once(incident: Incident) -> str:
    """The same for the same text of the same incident: a receiver that gets it twice may drop the second."""
    return f"{incident.id}-{hashlib.sha256(incident.text.encode()).hexdigest()[:16]}"


class Log:
    """Where nothing is configured: the log of the task that looks after the streams."""

    name = "log"

    def send(self, incident: Incident) -> dict[str, Any]:
        """Write it."""
        (log.info if incident.closed_at is not None else log.error)(words(incident), incident=incident.id)
        return {}


@dataclass(frozen=True)
class Webhook:
    """A POST of JSON for every new text. `text` is what Slack, Mattermost, Teams relays and most others show; the
    same `incident` names the same message, for receivers that change it.

    What the receiver answers as `id` comes back as `message` with the next text.
    """

    url: str
    name: str = "webhook"

    def send(self, incident: Incident) -> dict[str, Any]:
        """Post it."""
        before = incident.message or {}
        body = {
            "text": words(incident),
            "incident": incident.id,
            "event": event(incident),
            "kind": incident.kind,
            "subject": incident.subject,
            "streams": incident.fields.get("streams") or [],
            "next": mask(str(incident.fields.get("next") or "")),
            "opened_at": incident.opened_at.isoformat(),
            "closed_at": incident.closed_at.isoformat() if incident.closed_at else None,
        } | ({"message": before["id"]} if before.get("id") else {})
        answer = _post(self.url, body, {"Idempotency-Key": once(incident)})
        found = answer.get("id") or before.get("id")
        return {"id": found} if found else {}


@dataclass(frozen=True)
class Slack:
    """Slack's own API: one message an incident in a channel, really changed (`chat.postMessage`, `chat.update`)."""

    token: str
    channel: str
    url: str = "https://slack.com/api"
    name: str = "slack"

    def send(self, incident: Incident) -> dict[str, Any]:
        """Post the message, or change it; its end is also told below it, so that a phone rings once more."""
        before = incident.message or {}
        text = words(incident)
        if not before.get("ts"):
            found = self._call("chat.postMessage", {"channel": self.channel, "text": text})
            return {"ts": found["ts"], "channel": found.get("channel", self.channel)}
        place = {"channel": before.get("channel", self.channel), "ts": before["ts"]}
        self._call("chat.update", {**place, "text": text})
        if incident.closed_at is not None:
            self._call("chat.postMessage", {"channel": place["channel"], "thread_ts": before["ts"], "text": text})
        return place

    def _call(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = _post(f"{self.url.rstrip('/')}/{method}", body, {"Authorization": f"Bearer {self.token}"})
        if not answer.get("ok"):
            raise Undelivered("Slack refuses a message", why=f"{method}: {answer.get('error', 'no reason given')}")
        return answer


def _post(url: str, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    """POST JSON; the answer's JSON object, empty if it is none.

    Raises:
        Undelivered: no answer, or one that is not 2xx. The address is not told: its path may be a secret.
    """
    place = url.split("://")[-1].split("/")[0].split("@")[-1]
    try:
        answer = httpx.post(url, json=body, headers=headers, timeout=TIMEOUT_S)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Undelivered("A message was not delivered", why=f"{place}: {type(error).__name__}") from None
    if not answer.is_success:
        raise Undelivered("A message was not delivered", why=f"{place} answered {answer.status_code}")
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
