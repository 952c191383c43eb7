"""Target offsets of a reset: `earliest`, `latest`, `available`, a time or a file, as one offset a partition."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakeward.connectors.commit_protocol.position import NO_DATA
from lakeward.connectors.kafka import broker
from lakeward.connectors.kafka import position as kafka_position
from lakeward.connectors.kafka.position import Offsets
from lakeward.operations import sink_position
from lakeward.operations.context import Context
from lakeward.platform.errors import SpecError
from lakeward.spec.model.stream import StreamSpec

WORDS = ("earliest", "latest", "available")
"""`available`: the present position, but not before the first record that the source still has."""
_FORM = '{"topic": {"0": 1200}} for one source, {"source": {"topic": {"0": 1200}}} for several'


def target_offsets(context: Context, spec: StreamSpec, to: str, now: dict[str, str]) -> dict[str, str]:
    """Source name -> the offsets to go to.

    Args:
        to: as given on the command line.
        now: the present position; partitions that a file does not name stay there.

    Raises:
        SpecError: `to` is none of these, or names offsets that the source does not have.
        DependencyDown: a broker does not answer.
    """
    chosen = to if to in WORDS else _moment(to) or _file(to, spec)
    target: dict[str, str] = {}
    for name, (source, cluster, topics) in sink_position.kafka_of(context, spec).items():
        # A query that starts past the last stable offset fails, and would not read what an open transaction commits.
        isolation = source.isolation_level
        first, last = broker.begin_offsets(cluster, topics), broker.end_offsets(cluster, topics, isolation=isolation)
        if isinstance(chosen, datetime):
            target[name] = sink_position.canonical(broker.offsets_at(cluster, topics, chosen, isolation=isolation))
        elif isinstance(chosen, dict):
            at = kafka_position.parse(now[name]) if name in now else first
            whole = {t: {**first.get(t, {}), **at.get(t, {})} for t in first}
            target[name] = sink_position.canonical(_within(to, chosen.get(name, {}), whole, first, last))
        elif chosen == "earliest":
            target[name] = sink_position.canonical(first)
        elif chosen == "latest":
            target[name] = sink_position.canonical(last)
        else:  # available
            target[name] = sink_position.canonical(_not_before(first, kafka_position.parse(now.get(name, NO_DATA))))
    return target


def _not_before(first: Offsets, at: Offsets) -> Offsets:
    """For each partition the later of the present offset and the first available offset."""
    return {
        topic: {part: max(low, at.get(topic, {}).get(part, low)) for part, low in parts.items()}
        for topic, parts in first.items()
    }


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _file(text: str, spec: StreamSpec) -> dict[str, Offsets]:
    """The offsets in a file, by source."""
    try:
        document = json.loads(Path(text).read_text(), object_pairs_hook=_once)
    except FileNotFoundError:
        raise SpecError(
            f"Cannot read --to {text}",
            why=f"it is not {', '.join(WORDS)}, not a time like 2026-11-21T03:00:00Z, and not a file that exists",
            next=f"give one of them; a file holds {_FORM}",
            code="LW-2055",
        ) from None
    except (OSError, ValueError) as error:
        raise SpecError(
            f"Cannot read the offsets in {text}", why=str(error), next=f"write {_FORM}", code="LW-2056"
        ) from None
    names = [str(name) for name in spec.sources]
    by_source = document if _names_sources(document, names) else {names[0]: document}
    if len(names) > 1 and by_source is not document:
        raise SpecError(
            f"The offsets in {text} name no source",
            why=f"the stream has several sources: {', '.join(names)}",
            next=f"write {_FORM}",
            code="LW-2053",
        )
    return {name: _offsets(text, offsets) for name, offsets in by_source.items()}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON whose keys differ; of two equal ones Python would take the last in silence."""
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} is there twice")
    return dict(pairs)


def _names_sources(document: Any, names: list[str]) -> bool:
    """Whether the document is of the form for several sources. Its depth decides: names may equal topics."""
    return (
        isinstance(document, dict)
        and set(document) <= set(names)
        and all(
            isinstance(part, dict) and all(isinstance(p, dict) for p in part.values()) for part in document.values()
        )
    )


def _offsets(file: str, document: Any) -> Offsets:
    try:
        return {str(t): {_whole(p): _whole(at) for p, at in parts.items()} for t, parts in document.items()}
    except (AttributeError, TypeError, ValueError) as error:
        wrong = f": {error}" if isinstance(error, ValueError) else ""
        raise SpecError(
            f"The offsets in {file} are malformed",
            why=f"the file holds a {type(document).__name__} that does not map topics to partitions to offsets{wrong}",
            next=f"write {_FORM}",
            code="LW-2057",
        ) from None


def _whole(given: Any) -> int:
    """A partition or an offset as it was meant: `int` would cut a fraction off, and take `true` and `007`."""
    if isinstance(given, bool) or not re.fullmatch(r"0|-?[1-9][0-9]*", str(given)):
        raise ValueError(f"{json.dumps(given)} is not a whole number")
    return int(given)


def _within(file: str, requested: Offsets, whole: Offsets, first: Offsets, last: Offsets) -> Offsets:
    wrong = []
    for topic, parts in requested.items():
        for part, at in parts.items():
            low, high = first.get(topic, {}).get(part), last.get(topic, {}).get(part)
            if low is None or high is None:
                wrong.append(f"{topic}/{part} does not exist")
            elif not low <= at <= high:
                wrong.append(f"{topic}/{part}: {at} is not between {low} and {high}, which the broker has")
            else:
                whole.setdefault(topic, {})[part] = at
    if wrong:
        raise SpecError(
            f"The offsets in {file} are not in the source",
            why="; ".join(wrong),
            next=f"correct {file}",
            code="LW-2054",
        )
    return whole
