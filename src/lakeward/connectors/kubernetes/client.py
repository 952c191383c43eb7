"""Calls to the API of Kubernetes about the pods of drivers: create, read, list, delete, and what is allowed.

What the API refuses is named by its own words, with a code for each kind of refusal. An API that does not answer, that
is overloaded or that refuses the login is a dependency that is down: nothing is known about pods then.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lakeward.connectors.kubernetes import access
from lakeward.connectors.kubernetes.access import HOW, Access
from lakeward.platform.errors import DependencyDown, LakewardError
from lakeward.platform.runtime import PodPlace

ANSWER_S = 10.0
PAGE = 1000
RENEWED_S = 60.0
UNANSWERED = "LW-2551"
"""Code of a call without an answer: it may have been carried out."""
Pod = Mapping[str, Any]
_VERBS = {"GET": "list", "POST": "create", "DELETE": "delete"}


@dataclass(frozen=True)
class Pods:
    """Pods by name, and the time of the server that listed them (seconds since 1970)."""

    by_name: Mapping[str, Pod]
    at: float


class Apis:
    """The API servers of a process, by connection. Each access is found again after a minute: logins are renewed."""

    def __init__(self, connections: Path | None) -> None:
        self._connections = connections
        self._found: dict[str | None, tuple[float, Api]] = {}

    def of(self, place: PodPlace) -> Api:
        """The API server of a place.

        Raises:
            SpecError: there is no access to it.
            DependencyDown: the program that gets the login fails.
        """
        at, found = self._found.get(place.connection, (float("-inf"), None))
        if found is None or time.monotonic() - at > RENEWED_S:
            found = Api(access.find(place.connection, self._connections))
            self._found[place.connection] = time.monotonic(), found
        return found


class Api:
    """The API server of one cluster."""

    def __init__(self, given: Access) -> None:
        self._access = given

    @property
    def server(self) -> str:
        """Its address."""
        return self._access.server

    def version(self) -> str:
        """Its version, e.g. `v1.36.3`."""
        return str(self._call("GET", "/version")[1].get("gitVersion", ""))

    def create(self, namespace: str, pod: Pod) -> Pod | None:
        """Create a pod; None if one of this name exists.

        Raises:
            DependencyDown: the API does not answer or refuses it; no pod was made, unless the answer was lost.
            LakewardError: the pod is invalid, or an admission rule forbids it.
        """
        status, body = self._call("POST", _pods(namespace), pod, expected=(409,))
        return None if status == 409 else body

    def read(self, namespace: str, name: str) -> Pod | None:
        """One pod; None if it is not there.

        Raises:
            DependencyDown: the API cannot be asked.
        """
        status, body = self._call("GET", f"{_pods(namespace)}/{quote(name)}", expected=(404,))
        return None if status == 404 else body

    def pods(self, namespace: str, selector: str) -> Pods:
        """All pods with these labels. One call for up to 1,000.

        Raises:
            DependencyDown: the API cannot be asked.
        """
        found: dict[str, Pod] = {}
        at, more = time.time(), ""
        while True:
            query = f"?labelSelector={quote(selector)}&limit={PAGE}{f'&continue={quote(more)}' if more else ''}"
            _, body = self._call("GET", _pods(namespace) + query)
            found |= {str(each["metadata"]["name"]): each for each in body.get("items", ())}
            at = float(body.get("_date") or at)
            more = str((body.get("metadata") or {}).get("continue") or "")
            if not more:
                return Pods(found, at)

    def delete(self, namespace: str, name: str, uid: str, grace_s: int) -> bool:
        """Delete one pod, and no later one of its name. False if it is not there.

        Raises:
            DependencyDown: the API cannot be asked, or refuses.
        """
        options = {
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace_s, "preconditions": {"uid": uid},
        }  # fmt: skip
        status, _ = self._call("DELETE", f"{_pods(namespace)}/{quote(name)}", options, expected=(404, 409))
        return status not in (404, 409)

    def namespace(self, name: str) -> str | None:
        """The phase of a namespace (`Active`, `Terminating`), `?` if it may not be read; None if it is not there."""
        status, body = self._call("GET", f"/api/v1/namespaces/{quote(name)}", expected=(404, 403))
        if status == 403:
            return "?"
        return None if status == 404 else str((body.get("status") or {}).get("phase", "?"))

    def allowed(self, namespace: str, verbs: Sequence[str]) -> list[str]:
        """The verbs of these that this login may not use on pods of the namespace."""
        refused = []
        for verb in verbs:
            attributes = {"namespace": namespace, "verb": verb, "resource": "pods"}
            request = {
                "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes},
            }  # fmt: skip
            _, body = self._call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", request)
            if (body.get("status") or {}).get("allowed") is not True:
                refused.append(verb)
        return refused

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, expected: Sequence[int] = ()
    ) -> tuple[int, dict[str, Any]]:
        import httpx  # a pass without drivers on Kubernetes does not need it

        given = self._access
        token = given.token()
        headers = {"Accept": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        try:
            # No proxy of the environment: the API server is inside.
            with httpx.Client(verify=given.trust or False, timeout=ANSWER_S, trust_env=False) as client:
                answer = client.request(method, given.server + path, json=body, headers=headers)
        except httpx.HTTPError as error:
            raise self._away(error) from None
        try:
            found = answer.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._silent(f"HTTP status {answer.status_code}, and no JSON")
        if answer.status_code < 300 or answer.status_code in expected:
            if date := answer.headers.get("date"):
                found["_date"] = parsedate_to_datetime(date).timestamp()
            return answer.status_code, found
        raise self._refusal(answer.status_code, found, _VERBS.get(method, "use"))

    def _away(self, error: Exception) -> DependencyDown:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if isinstance(error.__cause__, ssl.SSLError) or "CERTIFICATE_VERIFY_FAILED" in text:
            return DependencyDown(
                f"The certificate of the Kubernetes API {self.server} is not trusted", why=text,
                next=f"correct certificate-authority in {self._access.named}, then: lakeward doctor", code="LW-2550",
            )  # fmt: skip
        return self._silent(text)

    def _silent(self, why: str) -> DependencyDown:
        return DependencyDown(
            f"The Kubernetes API {self.server} does not answer", why=why,
            next="drivers on Kubernetes run on; when it answers: lakeward doctor", code="LW-2551",
        )  # fmt: skip

    def _refusal(self, status: int, body: Mapping[str, Any], verb: str) -> LakewardError:
        """The error of an answer that is none of the expected ones."""
        why = f"HTTP status {status}: {body.get('message') or body.get('reason') or 'no message'}"
        message = str(body.get("message") or "")
        kind = str((body.get("details") or {}).get("kind") or "")
        if status == 401:
            return DependencyDown(
                f"The Kubernetes API {self.server} refuses the login", why=why,
                next=f"renew the token or certificate in {self._access.named}, then: lakeward doctor", code="LW-2552",
            )  # fmt: skip
        if (status == 404 and kind == "namespaces") or "because it is being terminated" in message:
            return DependencyDown(
                "The namespace of a driver is missing", why=why,
                next="kubectl create namespace NAME, or correct namespace: of the driver in conf/lakeward.yaml",
                code="LW-2555",
            )  # fmt: skip
        if status == 403 and "exceeded quota" in message:
            return DependencyDown(
                "Kubernetes has no room for a driver: a quota is used up", why=why,
                next="kubectl describe resourcequota -n NAMESPACE; raise it, or make the driver smaller",
                code="LW-2554",
            )  # fmt: skip
        if status == 403 and " cannot " in message:
            return DependencyDown(
                f"The Kubernetes API {self.server} does not allow this login to {verb} pods", why=why,
                next=f"kubectl apply -k deploy/kubernetes, or give its rights to this login ({HOW})", code="LW-2553",
            )  # fmt: skip
        if status in (403, 400, 422):
            return LakewardError(
                "Kubernetes refuses the pod of a driver", why=why,
                next=f"correct the driver's entry in conf/lakeward.yaml, or the rule that forbids the pod ({HOW})",
                code="LW-2556",
            )  # fmt: skip
        return self._silent(why)


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace)}/pods"
