"""Converts a recorded run to Great Expectations' result objects, without computing anything."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from html import escape
from typing import Any

from lakeward.quality.results.records import CheckDocument, RunDocument, noun_of
from lakeward.spec.model.custom_expectations import OWN


def validation(run: RunDocument) -> Any:
    """The `ExpectationSuiteValidationResult` of a run.

    Skipped checks have no result and are omitted. A check with an error carries it and counts as not successful, as in
    GX.

    Args:
        run: in the form of `records.recorded`.
    """
    import great_expectations as gx
    from great_expectations.core import ExpectationSuiteValidationResult
    from great_expectations.core.run_identifier import RunIdentifier

    results = [_result(check) for check in run["checks"] if check["state"] != "skipped"]
    good = sum(bool(result.success) for result in results)
    return ExpectationSuiteValidationResult(
        suite_name=run["table"],
        success=good == len(results),
        results=results,
        suite_parameters={},
        statistics={
            "evaluated_expectations": len(results),
            "successful_expectations": good,
            "unsuccessful_expectations": len(results) - good,
            "success_percent": 100 * good / len(results) if results else None,
        },
        meta={
            "run_id": RunIdentifier(run_name=name(run), run_time=moment(run["at"])),
            "great_expectations_version": gx.__version__,
        },
    )


def name(run: RunDocument) -> str:
    """A run's table, range and verdict, as a title."""
    start, end = run["from_snapshot"], run["to_snapshot"]
    noun = noun_of(run)
    rows = f"{noun} {end}" if start is None else f"{noun}s {start} (exclusive) to {end}"
    return f"{run['table']}, {rows}: {run['verdict']}"


def moment(at: Any) -> datetime:
    """The start of a run."""
    return at if isinstance(at, datetime) else datetime.fromisoformat(str(at))


def _result(check: CheckDocument) -> Any:
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.expectations.metadata_types import FailureSeverity

    kind, kwargs = str(check["expectation"]), dict(check.get("kwargs") or {})
    error = escape(check.get("error") or "", quote=False)
    if kind in OWN:
        _known_to_gx(kind)
    return ExpectationValidationResult(
        success=check["state"] == "pass",
        expectation_config=ExpectationConfiguration(
            type=kind,
            kwargs=_tame(kwargs),
            severity=FailureSeverity(check["severity"]),
            # GX has descriptions of its own expectations only.
            description=_words(kind, _tame(kwargs)) if kind in OWN else None,
        ),
        result=_facts(check, kwargs),
        exception_info={
            "raised_exception": bool(error),
            "exception_message": error or None,
            "exception_traceback": error or None,
        },
    )


def _facts(check: CheckDocument, kwargs: Mapping[str, object]) -> dict[str, object]:
    """GX's `result`: the observed value; for checks that count rows also the number of failing rows and examples."""
    found: dict[str, object] = {}
    if check.get("observed") is not None:
        found["observed_value"] = _tame(check["observed"])
    if check.get("rows") is not None:
        found["element_count"] = check["rows"]
    if check.get("unexpected_count") is not None:
        count, rows = check["unexpected_count"] or 0, check.get("rows")
        found |= {"unexpected_count": count, "unexpected_percent": 100 * count / rows if rows else 0.0}
        column = kwargs.get("column")
        values = [row.get(column) if column in row else dict(row) for row in check.get("sample") or ()]
        found["partial_unexpected_list"] = [_tame(each) for each in values if each is not None]  # nulls are no examples
    return found


def _tame(value: Any) -> Any:
    """The value with HTML escaped: some of GX's tables, and its list of columns, do not escape text."""
    if isinstance(value, str):
        return escape(value, quote=False)
    if isinstance(value, Mapping):
        return {_tame(key): _tame(each) for key, each in value.items()}
    return [_tame(each) for each in value] if isinstance(value, list | tuple) else value


def _words(kind: str, kwargs: Mapping[str, Any]) -> str:
    arguments = ", ".join(f"{key} {value}" for key, value in kwargs.items())
    return kind.removeprefix("expect_").replace("_", " ") + (f" ({arguments})" if arguments else "")


def _known_to_gx(kind: str) -> None:
    """Register one of Lakeward's checks as a GX expectation: GX looks up the class before it renders it."""
    from great_expectations.exceptions.exceptions import ExpectationNotFoundError
    from great_expectations.expectations.expectation import BatchExpectation
    from great_expectations.expectations.registry import get_expectation_impl

    try:
        get_expectation_impl(kind)
    except ExpectationNotFoundError:
        camel = "".join(part.capitalize() for part in kind.split("_"))
        settings = type("Config", (), {"extra": "allow"})
        # Defining the class registers it. It is rendered and never validated.
        type(camel, (BatchExpectation,), {"Config": settings, "_validate": lambda self, *_, **__: None})
