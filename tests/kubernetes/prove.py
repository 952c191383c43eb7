"""`make kubernetes-test`: drivers as pods on a real API server of Kubernetes; writes docs/reference/kubernetes-test.md.

It builds the API server and its etcd from their Go modules (`apiserver/go.mod`, `etcd/go.mod`), which takes some
minutes and is kept, needs `openssl` on the PATH, and runs tests/faults/test_driver_kubernetes.py and
test_executor_pods.py.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
VERSION, ETCD = "1.36.3", "3.6.8"
REPORT = ROOT / "docs/reference/kubernetes-test.md"
_VERSIONED = "k8s.io/component-base/version"
TEMPLATE = Path(__file__).with_name("report.txt")


def apiserver() -> Path:
    """The API server, built if it is not there."""
    major, minor, _ = VERSION.split(".")
    given = {"gitVersion": f"v{VERSION}", "gitMajor": major, "gitMinor": minor}
    return _built("apiserver", f"kube-apiserver-{VERSION}", *(f"-X {_VERSIONED}.{key}={given[key]}" for key in given))


def etcd() -> Path:
    """Its store, built if it is not there: that of Debian is too old for the watches of this version."""
    return _built("etcd", f"etcd-{ETCD}")


def _built(module: str, name: str, *linked: str) -> Path:
    file = Path.home() / ".cache" / "lakeward" / name
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["go", "build", "-mod=readonly", "-ldflags", " ".join(["-s", "-w", *linked]), "-o", str(file), "."],
            cwd=Path(__file__).parent / module, env={**os.environ, "CGO_ENABLED": "0"}, check=True,
        )  # fmt: skip
    return file


def page(facts: dict[str, Any]) -> str:
    """The page of the docs."""
    kills, away, rows = facts["kills"], facts["api_away"], facts["rows"]

    def spread(values: list[float]) -> str:
        return f"{sorted(values)[len(values) // 2]:.0f}, {max(values):.0f}"

    bad = "\n".join(f"| {name} | {' '.join(words.split())} |" for name, words in facts["bad_input"].items())
    return TEMPLATE.read_text().format(
        date=f"{datetime.now(UTC):%Y-%m-%d}", server=facts["server"], etcd=f"etcd {ETCD}",
        linux=platform.release().split("-")[0], cores=os.cpu_count(), load=os.getloadavg()[2],
        spark=version("pyspark"), kills=kills["count"], relaunched=spread(kills["relaunched_s"]),
        committing=spread(kills["committing_s"]), away=away["seconds"], passes=away["passes"],
        landed=away["landed_meanwhile"], deleted=facts["deleted_by_a_person"], evicted=facts["evicted"], bad=bad,
        sent=rows["sent"], rows=rows["landed"], lost=rows["lost"], doubled=rows["doubled"],
        no_rights=facts["executors without rights"], executor_kills=facts["executors"]["kills"],
        executor_rows=facts["executors"]["sent"],
    )  # fmt: skip


def main() -> int:
    for program, package in (("go", "golang"), ("openssl", "openssl")):
        if shutil.which(program) is None:
            sys.stderr.write(f"{program} is not on the PATH: install {package}, then: make kubernetes-test\n")
            return 2
    binary = apiserver()
    evidence = binary.with_name("kubernetes-test.json")
    environment = {
        **os.environ, "LAKEWARD_KUBE_APISERVER": str(binary), "LAKEWARD_KUBE_ETCD": str(etcd()),
        "LAKEWARD_KUBE_EVIDENCE": str(evidence),
    }  # fmt: skip
    evidence.unlink(missing_ok=True)
    tests = [f"tests/faults/{name}.py" for name in ("test_driver_kubernetes", "test_executor_pods")]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "campaign", *tests]
    code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if code == 0:
        REPORT.write_text(page(json.loads(evidence.read_text())))
        print(f"report: {REPORT.relative_to(ROOT)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
