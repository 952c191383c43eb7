"""Health check of Airflow's containers: `python -m lakeward.stack.container_health COMPONENT`.

It asks Airflow's API, which runs in the same pod. It imports nothing but the standard library: Docker starts it three
times a minute in each container, and a check by `airflow jobs check` costs five seconds of CPU.
"""

from __future__ import annotations

import http.client
import json
import sys
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

COMPONENTS = {
    "metadatabase": None,  # the API server itself, with its database
    "scheduler": "latest_scheduler_heartbeat",
    "dag_processor": "latest_dag_processor_heartbeat",
    "triggerer": "latest_triggerer_heartbeat",
}
"""Component -> its heartbeat in /api/v2/monitor/health."""
RECENT = timedelta(minutes=2)
"""A component whose newest heartbeat is older is not healthy: on a busy machine heartbeats come late."""
ANSWER_S = 15


def problem(component: str, port: int = 8080, host: str = "127.0.0.1") -> str | None:
    """Why the component is not healthy; None if it is."""
    link = http.client.HTTPConnection(host, port, timeout=ANSWER_S)
    try:
        link.request("GET", "/api/v2/monitor/health")
        answer = link.getresponse()
        if answer.status != HTTPStatus.OK:
            return f"Airflow's API answered {answer.status}"
        facts = json.loads(answer.read()).get(component) or {}
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"Airflow's API does not answer: {error}"
    finally:
        link.close()
    return judge(component, facts, datetime.now(UTC))


def judge(component: str, facts: dict[str, str], now: datetime) -> str | None:
    """Why the component is not healthy by what Airflow says of it; None if it is."""
    if facts.get("status") != "healthy":
        return f"{component} is {facts.get('status')}"
    beat = COMPONENTS[component]
    if beat is None:
        return None
    newest = facts.get(beat)
    if not newest or now - datetime.fromisoformat(newest).astimezone(UTC) > RECENT:
        return f"{component}: the newest heartbeat is of {newest}"
    return None


def main(arguments: list[str]) -> int:
    """Entry point: 0 if the component is healthy."""
    if len(arguments) != 1 or arguments[0] not in COMPONENTS:
        sys.stderr.write(f"name one of {', '.join(COMPONENTS)}\n")
        return 2
    found = problem(arguments[0])
    if found is not None:
        sys.stdout.write(found + "\n")
    return 0 if found is None else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
