"""Calls to the ResourceManager's REST API: list applications, ask about one, kill one, queues.

The addresses of a highly available ResourceManager are tried in their order, and a standby is passed over. One that
does not answer, is overloaded or refuses the login is a dependency that is down: nothing is known about drivers then.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from lakeward.connectors.yarn.site import HOW
from lakeward.platform.errors import DependencyDown, LakewardError

ANSWER_S = 10.0
ROOT = "/ws/v1/cluster"
_HIDDEN = "resourceRequests,timeouts,appNodeLabelExpression,amNodeLabelExpression,resourceInfo"
App = Mapping[str, Any]


@dataclass(frozen=True)
class Queue:
    """A queue: its name, its state (`RUNNING`, `STOPPED`), and whether other queues are below it."""

    name: str
    state: str
    leaf: bool


class ResourceManager:
    """The ResourceManager of one cluster, by the web addresses of the active one and its standbys."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = tuple(address.rstrip("/") for address in addresses)

    @property
    def named(self) -> str:
        """Its addresses, for messages."""
        return " ".join(self._addresses)

    def version(self) -> str:
        """Hadoop's version, e.g. `3.4.2`.

        Raises:
            DependencyDown: it does not answer, or only standbys do.
        """
        return str((self._get("/info").get("clusterInfo") or {}).get("hadoopVersion") or "")

    def apps(self, tag: str) -> list[App]:
        """All applications with a tag, those that have ended and are remembered among them. One call.

        Raises:
            DependencyDown: it cannot be asked.
        """
        found = self._get(f"/apps?applicationTags={quote(tag)}&deSelects={_HIDDEN}")
        if "apps" not in found:
            raise self._silent("its answer has no list of applications")
        return list((found["apps"] or {}).get("app") or ())

    def app(self, name: str) -> App | None:
        """One application; None if it is not known.

        Raises:
            DependencyDown: it cannot be asked.
        """
        found = self._get(f"/apps/{quote(name)}", missing=True)
        return found.get("app")

    def kill(self, name: str) -> bool:
        """Ask for the end of an application. False if it is not known.

        Raises:
            DependencyDown: it cannot be asked, or does not allow it to this user.
        """
        # Without Kerberos the user is what this says, or one for all if the administrator set it so.
        path = f"/apps/{quote(name)}/state?user.name={quote(_user())}"
        status, body = self._call("PUT", path, {"state": "KILLED"})
        if status == 404:
            return False
        if status >= 300:
            raise DependencyDown(
                f"The ResourceManager {self.named} does not kill {name}", why=_words(status, body),
                next=f"yarn application -kill {name}   as a user who may, or change the queue's administer ACL ({HOW})",
                code="LW-2574",
            )  # fmt: skip
        return True

    def queues(self) -> list[Queue]:
        """All queues.

        Raises:
            DependencyDown: it cannot be asked.
        """
        scheduler = (self._get("/scheduler").get("scheduler") or {}).get("schedulerInfo") or {}
        return list(_below(scheduler.get("rootQueue") or scheduler))

    def _get(self, path: str, *, missing: bool = False) -> Mapping[str, Any]:
        status, body = self._call("GET", path)
        if status == 404 and missing:
            return {}
        if status >= 300:
            raise self._refused(status, body)
        return body

    def _call(self, method: str, path: str, content: Mapping[str, Any] | None = None) -> tuple[int, Mapping[str, Any]]:
        """The answer of the first ResourceManager that is active."""
        import httpx  # a pass without drivers on YARN does not need it

        tried = []
        for address in self._addresses:
            try:
                # No proxy of the environment: it is inside. A standby redirects to the active one, which is asked too.
                answer = httpx.request(
                    method, f"{address}{ROOT}{path}", json=content, timeout=ANSWER_S, trust_env=False,
                    headers={"Accept": "application/json"},
                )  # fmt: skip
            except httpx.HTTPError as error:
                tried.append(f"{address}: {type(error).__name__}{f': {error}' if str(error) else ''}")
                continue
            try:
                body = answer.json()
            except ValueError:
                body = None
            if answer.is_redirect or answer.headers.get("Refresh") or (body is None and "standby" in answer.text[:500]):
                tried.append(f"{address}: it is a standby")
                continue
            if answer.status_code >= 500 or (not isinstance(body, dict) and answer.status_code not in (401, 403)):
                tried.append(f"{address}: {_words(answer.status_code, body)}")
                continue
            return answer.status_code, body if isinstance(body, dict) else {}
        raise self._silent("; ".join(tried) or "no address of it is known")

    def _silent(self, why: str) -> DependencyDown:
        return DependencyDown(
            f"The ResourceManager {self.named} does not answer", why=why,
            next="drivers on YARN run on; when it answers: lakeward doctor", code="LW-2565",
        )  # fmt: skip

    def _refused(self, status: int, body: Mapping[str, Any]) -> LakewardError:
        return DependencyDown(
            f"The ResourceManager {self.named} refuses the login", why=_words(status, body),
            next=f"its web address must answer without a login: Kerberos (SPNEGO) is not supported there ({HOW})",
            code="LW-2566",
        )  # fmt: skip


def _below(queue: Mapping[str, Any], path: str = "") -> Iterator[Queue]:
    name = str(queue.get("queueName") or "root")
    full = str(queue.get("queuePath") or (f"{path}.{name}" if path and not name.startswith("root.") else name))
    children = (queue.get("queues") or {}).get("queue") or (queue.get("childQueues") or {}).get("queue") or ()
    below = [children] if isinstance(children, Mapping) else list(children)
    yield Queue(full, str(queue.get("state") or "RUNNING"), not below)
    for each in below:
        yield from _below(each, full)


def _user() -> str:
    """The user of this process, as Hadoop's client names it; a user without a name has a number."""
    given = os.environ.get("HADOOP_USER_NAME")
    if given:
        return given
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _words(status: int, body: object) -> str:
    thrown = body.get("RemoteException") if isinstance(body, Mapping) else None
    message = thrown.get("message") if isinstance(thrown, Mapping) else None
    return f"HTTP status {status}{f': {message}' if message else ''}"
