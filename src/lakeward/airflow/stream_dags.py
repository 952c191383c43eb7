"""`stream__<id>`: one Dag a stream. A run is one finite operation chosen by a parameter."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog
from airflow.sdk import DAG, Param, task
from airflow.sdk.exceptions import AirflowFailException

from lakeward.airflow.common import options
from lakeward.airflow.names import stream_dag_id
from lakeward.airflow.project import Declared

if TYPE_CHECKING:
    from lakeward.spec.stream import StreamSpec

log = structlog.get_logger(__name__)

OPERATIONS = {
    "report": "report: how is it? (changes nothing)",
    "start": "start: run it, and wait until it lands",
    "stop": "stop: end it at the next batch boundary",
    "restart": "restart: stop, then start",
}
RECOVERY_S = 60.0


def build(stream: Declared) -> DAG:
    """The Dag of one stream file; of a wrong file too, with its problems on top."""
    spec = stream.spec
    tags = ["stream", *(spec.tags if spec is not None else ()), *(["file has problems"] if stream.problems else [])]
    more: dict[str, Any] = {}
    if spec is not None and spec.team is not None:
        more["access_control"] = {spec.team: {"DAGs": {"can_read", "can_edit"}, "DAG Runs": {"can_read", "can_create"}}}
    with DAG(
        stream_dag_id(stream.id),
        dag_display_name=f"stream: {stream.id}",
        description=_one_line(spec),
        schedule=None,
        dagrun_timeout=timedelta(minutes=45),
        params=_params(),
        **options(owner=spec.owner if spec is not None else "lakeward", tags=list(tags), doc=_doc(stream), **more),
    ) as dag:

        @task(execution_timeout=timedelta(minutes=40), doc_md="Carries out the operation and tells what happened.")
        def operate(params: dict[str, Any], dag_run: Any = None) -> None:
            author = str(getattr(dag_run, "triggering_user_name", None) or "Airflow")
            carry_out(stream.id, params, author=author)

        operate()  # type: ignore[call-arg, misc]  # Airflow gives the context's `params`
    return dag


def carry_out(stream: str, params: dict[str, Any], *, author: str) -> None:
    """One operation, told in sentences.

    Raises:
        AirflowFailException: it did not succeed, or (report) the stream is in trouble: the run ends red.
    """
    from lakeward.airflow.connections import runtime
    from lakeward.airflow.project import settings
    from lakeward.control.operate import Operation, Operator
    from lakeward.control.reconcile import registry_of
    from lakeward.errors import LakewardError

    try:
        addresses = runtime()
        if params["op"] == "report":
            return _report(stream, addresses, params.get("found"))
        operator = Operator(
            registry_of(addresses),
            addresses,
            author=author,
            holder=f"stream__{stream}",
            settings=settings,
            timeout_s=float(params["timeout_min"]) * 60,
        )
        operator.run(
            Operation(params["op"]), stream, comment=str(params.get("comment") or ""), kill=bool(params.get("kill"))
        )
    except LakewardError as error:
        log.error(error.what, why=error.why, next=error.next)
        raise AirflowFailException(str(error)) from None
    return None


def _report(stream: str, addresses: Any, found: str | None) -> None:
    from lakeward.control import look, report
    from lakeward.control.reconcile import backend_of, registry_of
    from lakeward.registry import streams
    from lakeward.streams.health import SETTLED

    connect = registry_of(addresses)
    with connect() as connection:
        row = streams.get(connection, stream)
        facts = look.read(connection)
    told = report.block(facts, look.ask(backend_of(addresses), facts), row, found)
    for line in told.lines:
        (log.error if told.trouble else log.info)(line)
    with connect() as connection:
        report.told(connection, told)
    if told.trouble:
        raise AirflowFailException(f"Stream {stream}: {told.lines[0]}")
    if told.verdict.state not in SETTLED:
        log.info(f"Stream {stream} is on its way: {told.verdict.why}")


def _params() -> dict[str, Param]:
    return {
        "op": Param(
            "report",
            type="string",
            title="Operation",
            enum=list(OPERATIONS),
            values_display=OPERATIONS,
            description_md="What to do with the stream. Nothing but this operation happens in the run.",
        ),
        "comment": Param(
            "",
            type=["null", "string"],
            title="Comment",
            maxLength=500,
            description_md="Why. It is kept with the change, for whoever reads it at 3 a.m.",
        ),
        "found": Param(
            None,
            type=["null", "string"],
            title="Trouble that was found",
            description_md="Set by `streams_reconcile`. A report about trouble is red although it may be over by now; "
            "a green one follows.",
            section="More",
        ),
        "timeout_min": Param(
            5,
            type="integer",
            minimum=1,
            maximum=30,
            title="Wait at most (minutes)",
            description_md="After this the run ends red. What was asked for goes on all the same.",
            section="More",
        ),
        "kill": Param(
            False,
            type="boolean",
            title="Kill if it does not stop",
            description_md="`stop`, `restart`: after the wait, end the driver's process. No row is lost: the table "
            "says what landed. Refused while the driver also runs other streams.",
            section="More",
        ),
    }


def _one_line(spec: StreamSpec | None) -> str:
    if spec is None:
        return "See the Dag's docs."
    sources = ", ".join(f"{source.connector} {name}" for name, source in spec.sources.items())
    return f"{sources} → {spec.sink.label}"


def _doc(stream: Declared) -> str:
    parts = []
    if stream.problems:
        listed = "\n".join(f"* `{text}`" for text in stream.problems[:20])
        parts.append(
            "### The file of this stream has problems\n"
            f"{listed}\n\nWhat runs is the generation deployed before; nothing changes until the file is right and "
            "deployed. All operations below still work."
        )
    parts.append(_spec_table(stream))
    parts.append(_HOW.replace("STREAM", stream.id))
    return "\n\n".join(parts)


def _spec_table(stream: Declared) -> str:
    spec = stream.spec
    rows = [("file", f"`{stream.file}`")]
    if spec is not None:
        rows += [
            ("reads", ", ".join(f"`{name}` ({source.connector})" for name, source in spec.sources.items())),
            ("writes", f"`{spec.sink.label}` ({spec.sink.connector}, {spec.sink.mode})"),
            ("a batch", f"every {spec.trigger.interval}" if spec.trigger.interval else spec.trigger.kind),
            ("driver", f"`{spec.driver}`"),
            ("owner", spec.owner),
            ("stalled when", f"no batch for {spec.limits.stall} although records wait"),
        ]
    body = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return f"| | |\n|---|---|\n{body}"


_HOW = """### What a run of this Dag is
One finite operation, chosen by **Operation** in the trigger form. It waits until it is done and ends **red when it did
not succeed**. The stream itself never runs inside Airflow: its driver is a process of its own that lands on through
any outage of Airflow.

* **report** prints how the stream is, and is red while it is down. `streams_reconcile` starts one by itself when the
  stream gets into trouble, and one when it has recovered: *the newest run says how it is.*
* **start** launches it and waits for its first batch. It also clears what blocked it and cuts a pause short.
* **stop** lets the running batch end. Nothing is lost; start goes on where it stopped.
* **restart** does both.

### At 3 a.m.
1. Open the newest red run, task `operate`, **Logs**: line one says what is wrong and since when, line two whether data
   is lost, the last line what to do now.
2. Without Airflow: `lakeward streams status STREAM`, `lakeward streams logs STREAM`, `lakeward streams start STREAM`.
"""
