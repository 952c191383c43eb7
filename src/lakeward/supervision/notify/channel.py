"""Where messages go. A channel sends the first message of an incident and changes it afterwards."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Protocol

import httpx
import structlog

from lakeward.platform.errors import Transient
from lakeward.platform.text import moment
from lakeward.registry.incidents import Incident
from lakeward.telemetry.mask import mask

log = structlog.get_logger(__name__)

TIMEOUT_S = 5.0
_LATER = (408, 425, 429)
"""Answers of the 4xx by which a receiver only asks for patience."""
_SLACK_LATER = (
    "ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout",
)  # fmt: skip


class Undelivered(Transient):
    """Raised when a message did not arrive; it is sent again with the next pass."""


class MessageRefused(Undelivered):
    """Raised when the receiver is there and does not take this message: the same again is no use for a while."""


class Channel(Protocol):
    """One place where people read."""

    @property
    def name(self) -> str:
        """As it stands with the message."""

    def send(self, incident: Incident) -> dict[str, Any]:
        """Send the newest text; returns what is needed to change the message later.

        Raises:
            MessageRefused: the receiver does not take it.
            Undelivered: it did not arrive.
        """


def event(incident: Incident) -> str:
    """`opened` (the first message), `updated` or `resolved`."""
    if incident.closed_at is not None:
        return "resolved"
    return "updated" if (incident.message or {}).get("text") else "opened"


def words(incident: Incident) -> str:
    """The message as people read it, masked."""
    state = {"opened": "OPEN", "updated": "STILL OPEN", "resolved": "RESOLVED"}[event(incident)]
    lines = [f"{state} [incident {incident.id}] {incident.text}"]
    if incident.closed_at is None and incident.fields.get("next"):
        lines.append(f"next: {incident.fields['next']}")
    lines.append(f"since {moment(incident.opened_at)}")
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

    What the receiver answers as `id` comes back as `message` with the next text. If it refuses that, because somebody
    deleted the message, the text is sent anew.
    """

    url: str
    name: str = "webhook"

    def send(self, incident: Incident) -> dict[str, Any]:
        """Post it."""
        known = (incident.message or {}).get("id")
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
        }
        key = once(incident)
        if known:
            try:
                answer = _post(self.url, body | {"message": known}, {"Idempotency-Key": key})
            except MessageRefused as error:
                _anew(incident, error)
                key += "-anew"  # the answer to the first one may be remembered by its key
            else:
                return {"id": answer.get("id") or known}
        answer = _post(self.url, body, {"Idempotency-Key": key})
        return {"id": answer["id"]} if answer.get("id") else {}


@dataclass(frozen=True)
class Slack:
    """Slack's own API: one message an incident in a channel, really changed (`chat.postMessage`, `chat.update`)."""

    token: str
    channel: str
    url: str = "https://slack.com/api"
    name: str = "slack"

    def send(self, incident: Incident) -> dict[str, Any]:
        """Post the message, or change it; its end is also told below it, so that a phone rings once more.

        One that cannot be changed (somebody deleted it, or its channel is gone) is posted anew.
        """
        before = incident.message or {}
        text = words(incident)
        if before.get("ts"):
            place = {"channel": before.get("channel", self.channel), "ts": before["ts"]}
            try:
                self._call("chat.update", {**place, "text": text})
            except MessageRefused as error:
                _anew(incident, error)
            else:
                if incident.closed_at is not None:
                    below = {"channel": place["channel"], "thread_ts": place["ts"], "text": text}
                    self._call("chat.postMessage", below)
                return place
        found = self._call("chat.postMessage", {"channel": self.channel, "text": text})
        return {"ts": found["ts"], "channel": found.get("channel", self.channel)}

    def _call(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = _post(f"{self.url.rstrip('/')}/{method}", body, {"Authorization": f"Bearer {self.token}"})
        if not answer.get("ok"):
            why = str(answer.get("error", "no reason given"))
            kind = Undelivered if why in _SLACK_LATER else MessageRefused
            raise kind("Slack refuses a message", why=f"{method}: {why}")
        return answer


def _anew(incident: Incident, error: MessageRefused) -> None:
    log.warning("A message cannot be changed any more, it is sent anew", why=error.why, incident=incident.id)


def _post(url: str, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    """POST JSON; the answer's JSON object, empty if it is none.

    Raises:
        MessageRefused: an answer that puts the blame on the message (4xx).
        Undelivered: no answer, or another one that is not 2xx. The address is not told: its path may be a secret.
    """
    place = url.split("://")[-1].split("/")[0].split("@")[-1]
    try:
        answer = httpx.post(url, json=body, headers=headers, timeout=TIMEOUT_S)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Undelivered(
            "A message was not delivered", why=f"{place}: {type(error).__name__}", code="LW-2503"
        ) from None
    if not answer.is_success:
        kind = MessageRefused if answer.is_client_error and answer.status_code not in _LATER else Undelivered
        raise kind("A message was not delivered", why=f"{place} answered {answer.status_code}")
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
