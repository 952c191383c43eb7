"""`stream__<id>`: one Dag a stream. A run is one finite operation chosen by a parameter."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG, Param
from airflow.sdk.definitions.param import ParamsDict

from lakeward.airflow import deadlines
from lakeward.airflow.common import access, options
from lakeward.airflow.dag_summary import Declared
from lakeward.airflow.names import stream_dag_id
from lakeward.airflow.tasks.operation import Operate

if TYPE_CHECKING:
    from lakeward.airflow.dag_summary import DagSummary

OPERATIONS = {
    "report": "report: show the state (changes nothing)",
    "start": "start: launch it, and wait until its first batch has landed",
    "stop": "stop: stop it at the next batch boundary",
    "restart": "restart: stop, then start",
    "upgrade": "upgrade: switch to the deployed generation, with automatic rollback",
    "rollback": "rollback: switch to an earlier generation",
    "recover": "recover: a new checkpoint at the table's position",
    "reset": "reset: continue from another position of the source (waits for approval)",
    "skip_batch": "skip_batch: skip the batch that failed (waits for approval)",
    "backfill": "backfill: land a range of the source again, while the stream runs",
}
RUNS = 4
"""Reports do not queue behind a long operation or one that waits for approval. The operation lock admits one operation
at a time."""


def build(stream: Declared) -> DAG:
    """The Dag of one stream file; an invalid file has a Dag too, whose docs list the problems.

    One file builds the Dags of all streams: a spec that Airflow refuses must not remove the other Dags.
    """
    try:
        return _build(stream)
    except Exception as error:  # noqa: BLE001  # the boundary between a stream's values and the Dags of all the others
        text = f"{stream.file}: Airflow refuses this stream's values: {error}"
        return _build(replace(stream, spec=None, problems=(*stream.problems, text)))


def _build(stream: Declared) -> DAG:
    spec = stream.spec
    tags = ["stream", *(spec.tags if spec is not None else ()), *(["file has problems"] if stream.problems else [])]
    with DAG(
        stream_dag_id(stream.id),
        dag_display_name=f"stream: {stream.id}",
        description=_one_line(spec),
        schedule=None,
        dagrun_timeout=timedelta(minutes=75),
        deadline=deadlines.of_operations(),
        **options(
            owner=spec.owner if spec is not None else "lakeward",
            tags=list(tags),
            doc=_doc(stream),
            max_active_runs=RUNS,
            **access(None if spec is None else spec.team),
        ),
    ) as dag:
        Operate(
            task_id="operate",
            stream=stream.id,
            doc_md="Runs the operation and logs the result. `reset` and `skip_batch` wait for approval.",
        )
    # Set here, because Airflow deep-copies the params of a Dag four times into each task that is created inside it.
    dag.params = ParamsDict(_params())
    return dag


def _params() -> dict[str, Param]:
    return {
        "op": Param(
            "report",
            type="string",
            title="Operation",
            enum=list(OPERATIONS),
            values_display=OPERATIONS,
            description_md="The operation. The run does only this.",
        ),
        "comment": Param(
            "",
            type=["null", "string"],
            title="Comment",
            maxLength=500,
            description_md="Why. It is stored in the audit log.",
        ),
        "to": Param(
            None,
            type=["null", "string"],
            title="To",
            examples=["earliest", "latest", "2026-11-21T03:00:00Z"],
            description_md="`reset`, `backfill`: `earliest`, `latest`, a time, or a JSON file of offsets the worker "
            "can read. For a backfill the end of the range, exclusive; empty: `latest`.",
            section="Moving the position",
        ),
        **_of_backfills(),
        "accept_duplicates": Param(
            0,
            type="integer",
            minimum=0,
            title="Allowed duplicate rows",
            description_md="`reset` backwards: exactly the number of rows the dry run shows. 0: none.",
            section="Moving the position",
        ),
        "batch": Param(
            None,
            type=["null", "integer"],
            minimum=0,
            title="Batch",
            description_md="`skip_batch`: the batch that failed, as the report shows it.",
            section="Moving the position",
        ),
        "to_generation": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Generation",
            description_md="`rollback`: to this one. Empty: the last stable one.",
            section="More",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description_md="Log exact ranges and counts, change nothing.",
            section="More",
        ),
        "found": Param(
            None,
            type=["null", "string"],
            title="Trouble",
            description_md="Set by `streams_reconcile`. A report about trouble is red although the trouble may be "
            "over; a green report follows.",
            section="More",
        ),
        "timeout_min": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            maximum=30,
            title="Wait at most (minutes)",
            description_md="Empty: 5, for an upgrade 15 to 30. After this the run ends red; the operation continues.",
            section="More",
        ),
        "kill": Param(
            False,
            type="boolean",
            title="Kill if it does not stop",
            description_md="`stop`, `restart`: after the wait, end the driver's process. No row is lost: the table "
            "has the position. Refused while the driver also runs other streams.",
            section="More",
        ),
    }


def _of_backfills() -> dict[str, Param]:
    def text(title: str, about: str, *examples: str) -> Param:
        return Param(
            None, type=["null", "string"], title=title, examples=list(examples), description_md=about,
            section="Landing again",
        )  # fmt: skip

    return {
        "from": text("From", "`backfill`: the first record of the range, as **To**.", "2026-11-21T03:00:00Z"),
        "into": text("Into", "`backfill`: another table, `namespace.table`. Empty: the stream's own."),
        "overwrite": Param(
            False, type="boolean", title="Overwrite", section="Landing again",
            description_md="`backfill`: into the stream's own append table, replacing the rows of these records.",
        ),
        "windows": text(
            "Windows", "`backfill`: instead of a range, event times; their windows are recomputed, with late rows.",
            "2026-11-21T00:00:00Z..2026-11-22T00:00:00Z",
        ),
        "from_files": text("Files", "`backfill`: instead of a topic, a folder or pattern that the worker can read."),
    }  # fmt: skip


def _one_line(spec: DagSummary | None) -> str:
    if spec is None:
        return "See the Dag's docs."
    sources = ", ".join(f"{connector} {name}" for name, connector in spec.sources)
    return f"{sources} → {spec.sink}"


def _doc(stream: Declared) -> str:
    parts = []
    if stream.problems:
        listed = "\n".join(f"* `{text}`" for text in stream.problems[:20])
        parts.append(
            "### The file of this stream has problems\n"
            f"{listed}\n\nThe deployed generation keeps running; nothing changes until the file is valid and deployed. "
            "All operations below still work."
        )
    parts.append(_spec_table(stream))
    parts.append(_HOW.replace("STREAM", stream.id))
    return "\n\n".join(parts)


def _spec_table(stream: Declared) -> str:
    spec = stream.spec
    rows = [("file", f"`{stream.file}`")]
    if spec is not None:
        rows += [
            ("reads", ", ".join(f"`{name}` ({connector})" for name, connector in spec.sources)),
            ("writes", f"`{spec.sink}` ({spec.sink_connector}, {spec.sink_mode})"),
            ("a batch", spec.every),
            ("driver", f"`{spec.driver}`"),
            ("owner", spec.owner),
            ("stalled when", f"no batch for {spec.stall} although records wait"),
        ]
    body = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return f"| | |\n|---|---|\n{body}"


_HOW = """### What a run of this Dag is
One finite operation, chosen by **Operation** in the trigger form. The run waits until the operation is done, and ends
**red if it did not succeed**. The stream itself never runs inside Airflow: its driver is a process of its own that
continues through any outage of Airflow.

* **report** logs the state of the stream, and is red while the stream is down. `streams_reconcile` starts a report when
  the stream was deployed, when it gets into trouble, when it has recovered, and when it was started or stopped: *the
  newest run has the current state.*
* **start** launches the stream and waits for its first batch. It also clears a block and ends a restart pause.
* **stop** lets the running batch end. Nothing is lost; a start continues at the same position.
* **restart** does both.
* **upgrade** switches to the pending generation at a batch boundary. It is refused, and nothing is stopped, if the
  generation cannot continue from the checkpoint or its SQL fails analysis. If the generation does not land its first
  batches in time or lags, the previous one is restored automatically and the run is red.
* **rollback** restores an earlier generation from the registry: the last stable one, or the named one.
* **recover** creates a new checkpoint at the table's position, for a lost or damaged one.
* **reset** and **skip_batch** move the position. The run first logs exactly what is skipped or read again, then
  **waits for approval** (*Required Actions*, 30 min), without a worker. They need a comment. The approver is recorded.
* **backfill** lands a range of the source, or files, again: into another table, by key, or in place
  (docs/how-to/backfill.md). It works while the stream runs, in a process of its own, for at most 35 min a run; landed
  rows stay, and a *cleared* run continues where it stopped. It needs a comment.

One operation at a time has the lock of a stream: a second one is refused with the name of the first. Reports need no
lock. A run that is triggered while this Dag is **paused** stays queued; `lakeward streams` still works.

### At 3 a.m.
1. Open the newest red run, task `operate`, **Logs**: line one says what is wrong and since when, line two whether data
   is lost, the last line what to do now.
2. Without Airflow: `lakeward streams status STREAM`, `lakeward streams logs STREAM`, `lakeward streams start STREAM`.
"""
