"""A Kubernetes of this machine: etcd, a real API server, and a kubelet that runs the command of a pod as a process.

There is no scheduler and no controller: the kubelet binds the pods. What the API server decides is real: names, labels,
rights, quotas, admission, eviction, deletion with grace and preconditions. What a node does is not: see `Kubelet`.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from ruamel.yaml import YAML

from lakeward.platform import ports

SPACE, IMAGE, NODE = "streams", "lakeward:test", "node-one"
ADDRESS = "127.0.0.1"
"""Of each pod."""
ADMIN = "token-of-the-administrator"
MANIFESTS = Path(__file__).parents[2] / "deploy" / "kubernetes"
_DELETE = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}


class Refusal(Exception):
    """Raised when the API server refuses a call of the test itself."""


@dataclass
class KubeCluster:
    """etcd and an API server with RBAC, on ports of loopback.

    Attributes:
        folder: for data and logs.
        binary, etcd: the API server and its store.
    """

    folder: Path
    binary: str
    etcd: str
    port: int = field(default_factory=ports.any_free)
    etcd_ports: tuple[int, int] = field(default_factory=lambda: (ports.any_free(), ports.any_free()))
    server: subprocess.Popen[bytes] | None = None
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def certificate(self) -> Path:
        return self.folder / "certs" / "apiserver.crt"

    def start(self) -> KubeCluster:
        self.folder.mkdir(parents=True, exist_ok=True)
        client, peer = self.etcd_ports
        urls = [f"http://127.0.0.1:{port}" for port in (client, peer)]
        self._run(
            "etcd", self.etcd, "--data-dir", str(self.folder / "etcd"), "--listen-client-urls", urls[0],
            "--advertise-client-urls", urls[0], "--listen-peer-urls", urls[1],
            "--initial-advertise-peer-urls", urls[1], "--initial-cluster", f"default={urls[1]}",
        )  # fmt: skip
        key = self.folder / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        (self.folder / "tokens.csv").write_text(f"{ADMIN},admin,admin,system:masters\n")
        self.start_server()
        return self

    def start_server(self) -> None:
        key = str(self.folder / "sa.key")
        self.server = self._run(
            "apiserver", self.binary, f"--etcd-servers=http://127.0.0.1:{self.etcd_ports[0]}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={self.port}",
            f"--cert-dir={self.folder / 'certs'}", "--authorization-mode=RBAC",
            f"--token-auth-file={self.folder / 'tokens.csv'}", "--service-account-issuer=https://kubernetes.test",
            f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
        )  # fmt: skip
        end = time.monotonic() + 180
        while True:
            with suppress(httpx.HTTPError, OSError, Refusal):
                self.call("GET", "/readyz", plain=True)
                return
            assert time.monotonic() < end, (self.folder / "apiserver.log").read_text()[-3000:]
            time.sleep(0.5)

    def stop_server(self) -> None:
        assert self.server is not None
        self.server.kill()
        self.server.wait()

    def install(self) -> None:
        """Apply deploy/kubernetes, as `kubectl apply -k` does, and what a cluster has by itself."""
        for kind in ("namespace", "service-accounts", "role", "role-binding"):
            for document in YAML(typ="safe", pure=True).load_all((MANIFESTS / f"{kind}.yaml").read_text()):
                self.create(document)
        self.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
        trust = {"ca.crt": self.certificate.read_text()}
        self.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"}, "data": trust})

    def allow_executors(self) -> None:
        """Apply deploy/kubernetes/executors."""
        for kind in ("role", "role-binding"):
            self.create(YAML(typ="safe", pure=True).load((MANIFESTS / "executors" / f"{kind}.yaml").read_text()))

    def create(self, document: dict[str, Any]) -> dict[str, Any]:
        """Create an object, in the namespace of the test if it has one."""
        group = document["apiVersion"]
        plural = document["kind"].lower() + "s"
        root = f"/api/{group}" if group == "v1" else f"/apis/{group}"
        where = "" if document["kind"] == "Namespace" else f"/namespaces/{SPACE}"
        return self.call("POST", f"{root}{where}/{plural}", document)

    def secret(self, name: str, **files: str) -> None:
        encoded = {key.replace("__", "."): base64.b64encode(text.encode()).decode() for key, text in files.items()}
        self.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded})

    def kubeconfig(self, account: str, file: Path) -> Path:
        """The login of a service account, as a kubeconfig with a token that the API server issues."""
        token = self.token(account, 3600)
        content = {
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{
                "name": "test", "cluster": {"server": self.url, "certificate-authority": str(self.certificate)},
            }],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": account, "namespace": SPACE}}],
            "users": [{"name": account, "user": {"token": token}}],
        }  # fmt: skip
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))
        file.chmod(0o600)
        return file

    def token(self, account: str, seconds: int, bound: str = "") -> str:
        """A token of a service account, as the API server issues it.

        Args:
            bound: a Secret, with which the token ends.
        """
        request: dict[str, Any] = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        if bound:
            request["spec"]["boundObjectRef"] = {"apiVersion": "v1", "kind": "Secret", "name": bound}
        path = f"/api/v1/namespaces/{SPACE}/serviceaccounts/{account}/token"
        return str(self.call("POST", path, request)["status"]["token"])

    def refuses(self, token: str) -> bool:
        """Whether a token is refused."""
        trust = ssl.create_default_context(cafile=str(self.certificate))
        with httpx.Client(verify=trust, timeout=30, trust_env=False) as client:
            headers = {"Authorization": f"Bearer {token}"}
            return client.get(f"{self.url}/api/v1/namespaces/{SPACE}/pods", headers=headers).status_code == 401

    def call(
        self, method: str, path: str, body: Any = None, *, plain: bool = False, kind: str = "application/json"
    ) -> dict[str, Any]:
        """A call of the administrator."""
        trust = ssl.create_default_context(cafile=str(self.certificate))
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": kind}
        content = None if body is None else json.dumps(body)
        with httpx.Client(verify=trust, timeout=30, trust_env=False) as client:
            answer = client.request(method, self.url + path, content=content, headers=headers)
        if answer.status_code >= 300:
            raise Refusal(answer.text)
        return {} if plain else dict(answer.json())

    def pods(self) -> list[dict[str, Any]]:
        return list(self.call("GET", f"/api/v1/namespaces/{SPACE}/pods")["items"])

    def evict(self, pod: str) -> None:
        """What `kubectl drain` does with a pod."""
        self.call(
            "POST", f"/api/v1/namespaces/{SPACE}/pods/{pod}/eviction",
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": SPACE}},
        )  # fmt: skip

    def end(self) -> None:
        for process in reversed(self._started):
            if process.poll() is None:
                process.kill()
            process.wait()

    def _run(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
        self._started.append(process)
        return process


@dataclass
class Running:
    """A container of the kubelet. `reason`: why it ends, if the kubelet ends it."""

    process: subprocess.Popen[bytes]
    log: Path
    reason: str = ""
    term_at: float | None = None


class Kubelet(threading.Thread):
    """Runs the container of each pod as a process of this machine, in a group of its own, which ends with it.

    Mounted paths are folders of the test: a value of the environment that starts with one is rewritten. Limits of
    memory and CPU are not enforced. It looks at the pods every half second and survives an API server that is away.

    Attributes:
        full, silent: it has no room for pods; it does nothing.
        full_for: it has no room for pods with this name of an application.
        bound: a Secret with which the tokens end that it mounts.
    """

    def __init__(self, cluster: KubeCluster, images: Sequence[str] = (IMAGE,)) -> None:
        super().__init__(name="kubelet", daemon=True)
        self._cluster, self._images = cluster, set(images)
        self.full = self.silent = False
        self.full_for = ""
        self.bound = ""
        self.running: dict[str, Running] = {}
        self._halt = threading.Event()

    def run(self) -> None:
        while not self._halt.wait(0.5):
            if not self.silent:
                with suppress(httpx.HTTPError, Refusal, OSError):
                    self._turn()

    def end(self) -> None:
        self._halt.set()
        self.join()
        for each in self.running.values():
            with suppress(ProcessLookupError):
                os.killpg(each.process.pid, signal.SIGKILL)
            each.process.wait()

    def evict_for_memory(self, uid: str) -> None:
        """What a node under pressure does: the process is killed, and the pod fails as Evicted."""
        self.running[uid].reason = "Evicted"
        os.killpg(self.running[uid].process.pid, signal.SIGKILL)

    def renew(self, pod: dict[str, Any]) -> None:
        """Write the mounted files of a pod again, as a kubelet does with tokens that are about to expire."""
        self._mount(pod)

    def _turn(self) -> None:
        pods = self._cluster.pods()
        there = {pod["metadata"]["uid"] for pod in pods}
        for pod in pods:
            uid, phase = pod["metadata"]["uid"], pod["status"].get("phase")
            if uid in self.running:
                self._watch(pod, self.running[uid])
            elif phase == "Pending" and not pod["metadata"].get("deletionTimestamp"):
                self._start(pod)
            elif pod["metadata"].get("deletionTimestamp"):
                self._forget(pod)
            # What the garbage collector of a cluster does: a pod goes with the one that it belongs to.
            owners = pod["metadata"].get("ownerReferences", ())
            if owners and not pod["metadata"].get("deletionTimestamp") and not {o["uid"] for o in owners} & there:
                self._cluster.call("DELETE", _path(pod))

    def _start(self, pod: dict[str, Any]) -> None:
        metadata, [container] = pod["metadata"], pod["spec"]["containers"]
        if not pod["spec"].get("nodeName"):
            if self.full or metadata["labels"]["app.kubernetes.io/name"] == self.full_for:
                message = "0/1 nodes are available: 1 Insufficient cpu."
                unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
                self._status(pod, {"conditions": [unscheduled]})
                return
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": metadata["name"]}, "target": target}
            self._cluster.call("POST", f"{_path(pod)}/binding", binding)
        if container["image"] not in self._images:
            message = f'Back-off pulling image "{container["image"]}": not found'
            self._container(pod, {"waiting": {"reason": "ImagePullBackOff", "message": message}}, "Pending")
            return
        try:
            mounted = self._mount(pod)
        except Refusal as error:
            reason = {"reason": "CreateContainerConfigError", "message": json.loads(str(error))["message"]}
            self._container(pod, {"waiting": reason}, "Pending")
            return
        root = self._cluster.folder / "pods" / metadata["uid"]
        log = root / "log"
        with log.open("ab") as sink:
            process = subprocess.Popen(
                [*container["command"], *container.get("args", ())], stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
                env=self._environment(pod, mounted), cwd=mounted[container["workingDir"]], start_new_session=True,
            )  # fmt: skip
        self.running[metadata["uid"]] = Running(process, log)
        self._container(pod, {"running": {}}, "Running")

    def _environment(self, pod: dict[str, Any], mounted: dict[str, Path]) -> dict[str, str]:
        """What a kubelet gives to the container; a path in a mounted folder is where this machine has it."""
        given = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "JAVA_HOME") if name in os.environ}
        given |= {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self._cluster.port)}
        fields = {
            "metadata.uid": pod["metadata"]["uid"], "metadata.name": pod["metadata"]["name"], "spec.nodeName": NODE,
            "status.podIP": ADDRESS,
        }  # fmt: skip
        for each in pod["spec"]["containers"][0]["env"]:
            source = each.get("valueFrom")
            value = each.get("value", "") if source is None else fields[source["fieldRef"]["fieldPath"]]
            for path, folder in mounted.items():
                if value == path or value.startswith(f"{path}/"):
                    value = f"{folder}{value.removeprefix(path)}"
            given[each["name"]] = value
        return given

    def _mount(self, pod: dict[str, Any]) -> dict[str, Path]:
        """The volumes of a pod as folders of this machine: mounted path -> folder."""
        root = self._cluster.folder / "pods" / pod["metadata"]["uid"]
        volumes = {each["name"]: each for each in pod["spec"]["volumes"]}
        mounted = {}
        for each in pod["spec"]["containers"][0]["volumeMounts"]:
            folder = mounted[each["mountPath"]] = root / "mounted" / each["mountPath"].lstrip("/")
            folder.mkdir(parents=True, exist_ok=True)
            for name, content, mode in self._files(pod, volumes[each["name"]]):
                (folder / name).unlink(missing_ok=True)
                (folder / name).write_bytes(content)
                (folder / name).chmod(mode)
        return mounted

    def _files(self, pod: dict[str, Any], volume: dict[str, Any]) -> Iterator[tuple[str, bytes, int]]:
        """Name, content and mode of the files of a volume."""
        if secret := volume.get("secret"):
            found = self._cluster.call("GET", f"/api/v1/namespaces/{SPACE}/secrets/{secret['secretName']}")["data"]
            chosen = {item["key"]: item["path"] for item in secret.get("items", ())} or {key: key for key in found}
            for key, path in chosen.items():
                if key not in found:
                    raise Refusal(json.dumps({"message": f"references non-existent secret key: {key}"}))
                yield path, base64.b64decode(found[key]), secret["defaultMode"]
        for source in volume.get("projected", {}).get("sources", ()):
            mode = volume["projected"]["defaultMode"]
            if token := source.get("serviceAccountToken"):
                account, seconds = pod["spec"]["serviceAccountName"], token["expirationSeconds"]
                yield token["path"], self._cluster.token(account, seconds, self.bound).encode(), mode
            for item in source.get("configMap", {}).get("items", ()):
                maps = f"/api/v1/namespaces/{SPACE}/configmaps"
                found = self._cluster.call("GET", f"{maps}/{source['configMap']['name']}")["data"]
                yield item["path"], found[item["key"]].encode(), mode

    def _watch(self, pod: dict[str, Any], found: Running) -> None:
        code = found.process.poll()
        if code is None:
            if pod["metadata"].get("deletionTimestamp"):
                self._drain(pod, found)
            return
        with suppress(ProcessLookupError):
            os.killpg(found.process.pid, signal.SIGKILL)  # a container ends with its first process
        if pod["status"].get("phase") not in ("Succeeded", "Failed"):
            exit_code = 128 - code if code < 0 else code
            ended: dict[str, Any] = {"exitCode": exit_code, "reason": "Completed" if code == 0 else "Error"}
            if code != 0:  # terminationMessagePolicy: FallbackToLogsOnError
                ended["message"] = found.log.read_text(errors="replace")[-2048:]
            more = {"reason": found.reason, "message": "The node was low on resource: memory."} if found.reason else {}
            self._container(pod, {"terminated": ended}, "Failed" if code else "Succeeded", more)
        if pod["metadata"].get("deletionTimestamp"):
            self._forget(pod)

    def _drain(self, pod: dict[str, Any], found: Running) -> None:
        grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0
        if found.term_at is None:
            found.term_at = time.monotonic()
            found.process.terminate()
        elif time.monotonic() - found.term_at > grace:
            with suppress(ProcessLookupError):
                os.killpg(found.process.pid, signal.SIGKILL)

    def _forget(self, pod: dict[str, Any]) -> None:
        """Confirm the end of a pod: it is removed from the API."""
        self._cluster.call("DELETE", _path(pod), {**_DELETE, "preconditions": {"uid": pod["metadata"]["uid"]}})

    def _container(self, pod: dict[str, Any], state: Any, phase: str, more: dict[str, Any] | None = None) -> None:
        image, name = (pod["spec"]["containers"][0][key] for key in ("image", "name"))
        status = {"name": name, "state": state, "ready": phase == "Running", "restartCount": 0, "image": image}
        scheduled = {"type": "PodScheduled", "status": "True"}
        ready = {"type": "Ready", "status": str(phase == "Running")}
        kept = [each for each in pod["status"].get("conditions", ()) if each["type"] == "DisruptionTarget"]
        conditions = [scheduled, ready, *kept]
        statuses = [{**status, "imageID": ""}]
        content = {"phase": phase, "podIP": ADDRESS, "containerStatuses": statuses, "conditions": conditions}
        self._status(pod, {**content, **(more or {})})

    def _status(self, pod: dict[str, Any], status: dict[str, Any]) -> None:
        self._cluster.call("PATCH", f"{_path(pod)}/status", {"status": status}, kind="application/merge-patch+json")


def _path(pod: dict[str, Any]) -> str:
    return f"/api/v1/namespaces/{SPACE}/pods/{pod['metadata']['name']}"
