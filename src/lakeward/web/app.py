"""The routes. The application as a whole needs the gate's permission, so no route can be left open by mistake."""

from __future__ import annotations

import asyncio
import mimetypes
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypedDict

import structlog
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict, Field

from lakeward.operations import request as operations
from lakeward.platform.errors import LakewardError, SpecError, TimedOut, expect_type
from lakeward.telemetry.mask import mask
from lakeward.web import STATIC
from lakeward.web.audit import Audit
from lakeward.web.body import Body, encode
from lakeward.web.cached import Reading
from lakeward.web.errors import NotFound, body_of, status_of
from lakeward.web.quality import Quality, QualityDetail
from lakeward.web.reads import MayRead, Reads
from lakeward.web.streams import DAG, Batches, LagHistory, StreamDetail, Streams
from lakeward.web.tables import TableDetail, Tables

log = structlog.get_logger(__name__)

WITHIN_S = 20.0
"""A reading that takes longer is answered with 504; the page asks again."""
READERS = 8
"""Threads of the API's own: a registry that hangs must not take those of Airflow's API."""

_pool = ThreadPoolExecutor(READERS, thread_name_prefix="lakeward-web")


@dataclass(frozen=True)
class Gate:
    """Who may do what, as dependencies of FastAPI. Each raises 401 or 403.

    Attributes:
        view: the caller may see the page at all.
        may_read: gives a `MayRead`: which Dags the caller may read.
        operate: the caller may start runs of the Dag in the path (`dag_id`); gives the caller's name.
    """

    view: Callable[..., Any]
    may_read: Callable[..., MayRead]
    operate: Callable[..., str]


def _view() -> None:
    raise HTTPException(403)


def _may_read() -> MayRead:
    raise HTTPException(403)


def _operate() -> str:
    raise HTTPException(403)


# What replaces these three is the gate; without one, everything is refused.
CLOSED = Gate(_view, _may_read, _operate)
Reader = Annotated[MayRead, Depends(CLOSED.may_read)]
Author = Annotated[str, Depends(CLOSED.operate)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Hours = Annotated[int, Query(ge=1, le=72)]


class PlanRequest(BaseModel):
    """An operation on a stream: parameters of its Dag, with the same names."""

    model_config = ConfigDict(extra="forbid")

    op: str
    to: str | None = None
    batch: int | None = Field(None, ge=0)
    to_generation: int | None = Field(None, ge=1)
    accept_duplicates: int = Field(0, ge=0)
    kill: bool = False


class PlanDocument(TypedDict):
    """What an operation would do.

    Attributes:
        text: a clause that follows "would".
        key: changes when the effect changes.
        nothing: why there is nothing to do; empty if there is something.
        approval: the run waits until a person approves exactly this plan.
    """

    text: str
    lines: list[str]
    key: str
    nothing: str
    approval: bool


class Json(Response):
    """A JSON answer that no cache keeps; `packed`: the content is in gzip's format."""

    media_type = "application/json"

    def __init__(self, content: bytes, status_code: int = 200, *, packed: bool = False) -> None:
        encoding = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"} if packed else {}
        super().__init__(content, status_code, headers={"Cache-Control": "no-store", **encoding})


routes = APIRouter(prefix="/api/v1")


def build(reads: Reads, gate: Gate = CLOSED) -> FastAPI:
    """The application that Airflow mounts."""
    app = FastAPI(
        title="Lakeward",
        version="1",
        description="Streams, tables, checks and the audit log, as the page inside Airflow shows them.",
        docs_url=None,  # Airflow guards none of these pages
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(CLOSED.view)],
    )
    app.state.reads = reads
    app.dependency_overrides = {
        CLOSED.view: gate.view, CLOSED.may_read: gate.may_read, CLOSED.operate: gate.operate,
    }  # fmt: skip
    app.add_exception_handler(LakewardError, _failed)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.include_router(routes)
    # Scripts are public: they hold no data, and a browser loads them without a login.
    mimetypes.add_type("application/javascript", ".cjs")  # a browser refuses a script of another type
    app.mount("/static", StaticFiles(directory=STATIC, check_dir=False), name="static")
    return app


@routes.get("/streams", response_model=None)
async def streams(request: Request, may_read: Reader) -> Response:
    """Every stream, worst first, and the sentence above them."""
    # Compressed here, once for all callers: Airflow would compress each answer, 20 ms for a thousand streams.
    packed = _takes_gzip(request)
    return await _answer(partial(_reads(request).all_streams, may_read, packed=packed), packed=packed)


@routes.get("/streams/{stream}", response_model=None)
async def stream(request: Request, stream: str, may_read: Reader) -> Response:
    """One stream: what its report says, its operations and its generations."""
    return await _answer(partial(_reads(request).one_stream, stream, may_read))


@routes.get("/streams/{stream}/batches", response_model=None)
async def batches(request: Request, stream: str, may_read: Reader, limit: Limit = 200) -> Response:
    """The newest batches of a stream."""
    return await _answer(partial(_reads(request).batches_of, stream, limit, may_read))


@routes.get("/streams/{stream}/lag", response_model=None)
async def lag(request: Request, stream: str, may_read: Reader, hours: Hours = 6) -> Response:
    """Lag and state of a stream over the last hours."""
    return await _answer(partial(_reads(request).lag_of, stream, hours, may_read))


@routes.get("/tables", response_model=None)
async def tables(request: Request, may_read: Reader) -> Response:
    """Every registered table, those that wait for something first."""
    return await _answer(partial(_reads(request).all_tables, may_read))


@routes.get("/tables/{table}", response_model=None)
async def table(request: Request, table: str, may_read: Reader) -> Response:
    """One table: its actions, its plan, its figures over time."""
    return await _answer(partial(_reads(request).one_table, table, may_read))


@routes.get("/quality", response_model=None)
async def quality(request: Request, may_read: Reader) -> Response:
    """The newest check run of each table."""
    return await _answer(partial(_reads(request).all_checks, may_read))


@routes.get("/quality/{table}", response_model=None)
async def quality_of(request: Request, table: str, may_read: Reader) -> Response:
    """The check runs of one table, and the trend of each check."""
    return await _answer(partial(_reads(request).checks_of, table, may_read))


@routes.get("/audit", response_model=None)
async def audit(request: Request, may_read: Reader, limit: Limit = 200) -> Response:
    """Who changed what, and why."""
    return await _answer(partial(_reads(request).audit_log, limit, may_read))


@routes.post("/dags/{dag_id}/plan", response_model=None)
async def plan(request: Request, dag_id: str, body: PlanRequest, author: Author) -> Response:
    """What an operation on the stream of this Dag would do. It changes nothing; a run of the Dag carries it out."""
    return await _answer(partial(_planned, _reads(request), dag_id, body, author))


DOCUMENTS: dict[str, type] = {
    "streams": Streams,
    "stream": StreamDetail,
    "batches": Batches,
    "lag": LagHistory,
    "tables": Tables,
    "table": TableDetail,
    "quality": Quality,
    "quality_of": QualityDetail,
    "audit": Audit,
    "plan": PlanDocument,
}
"""Route -> the document it answers with. `tools/openapi.py` writes the reference from it."""


def _reads(request: Request) -> Reads:
    return expect_type(request.app.state.reads, Reads, "what the routes read")


def _takes_gzip(request: Request) -> bool:
    taken = {item.replace(" ", "").lower() for item in request.headers.get("Accept-Encoding", "").split(",")}
    return any(item.split(";")[0] == "gzip" and not re.search(r";q=0(\.0*)?$", item) for item in taken)


async def _answer(read: Callable[[], object], *, packed: bool = False) -> Response:
    work = asyncio.get_running_loop().run_in_executor(_pool, lambda: _body(read()))
    try:
        async with asyncio.timeout(WITHIN_S):
            return Json(await work, packed=packed)
    except TimeoutError:
        why = f"no answer within {WITHIN_S:g} s"
        raise TimedOut("The page's data could not be read", why=why, next="lakeward doctor", code="LW-5904") from None


def _body(value: object) -> bytes:
    """What was read as JSON, with its age if it comes from a cache."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, Reading):
        return Body(value.value).with_age(value.age_s, value.stale)
    return encode(value)


def _planned(reads: Reads, dag_id: str, body: PlanRequest, author: str) -> PlanDocument:
    if not dag_id.startswith(DAG):
        raise NotFound(f"{dag_id} is not the Dag of a stream", next="lakeward streams list", code="LW-5905")
    try:
        operation = operations.StreamOperation.of(body.op)
    except ValueError:
        valid = ", ".join(item.replace("-", "_") for item in operations.StreamOperation)
        raise SpecError(f"There is no operation {body.op!r}", why=f"valid: {valid}", code="LW-5906") from None
    request = operations.Request(
        operation, dag_id.removeprefix(DAG), to=body.to, batch=body.batch, generation=body.to_generation,
        duplicates=body.accept_duplicates, kill=body.kill, dry_run=True,
    )  # fmt: skip
    found, approval = reads.plan(request, author)
    return {
        "text": found.text, "lines": [mask(line) for line in found.lines], "key": found.key, "nothing": found.nothing,
        "approval": approval,
    }  # fmt: skip


async def _failed(request: Request, error: Exception) -> Response:
    expected = expect_type(error, LakewardError, "the error")
    status = status_of(expected)
    if status >= 500:
        log.warning("page request failed", path=request.url.path, error=expected.what, why=mask(expected.why))
    return Json(encode(body_of(expected)), status)


async def _invalid(_: Request, error: Exception) -> Response:
    problems = expect_type(error, RequestValidationError, "the error").errors()
    why = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in problems)
    return Json(encode(body_of(SpecError("The request is not valid", why=why, code="LW-5907"))), 422)
