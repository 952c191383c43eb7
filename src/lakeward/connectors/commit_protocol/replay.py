"""The replay state of a stream: quarantined rows that landed later, stored as a table property beside the position.

A driver compares its position before it publishes, so a replay stores its own counts in another property, and the two
never fence each other. `token` names the newest replay. A replay first writes its token here. Its rows are published
only while the property still has that token, in the commit that sets `published`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, ValidationError

from lakeward.platform.errors import Blocked

_PREFIX = "lakeward.stream."
_SUFFIX = ".replay"


class Replayed(BaseModel):
    """Records that replays took out of quarantine, since the stream's first replay.

    Attributes:
        landed: records that are rows of the table now.
        filtered: records that the transform drops now.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    landed: int = 0
    filtered: int = 0

    def plus(self, other: Replayed) -> Replayed:
        """The sum, field by field."""
        return Replayed(landed=self.landed + other.landed, filtered=self.filtered + other.filtered)


class Replay(BaseModel):
    """The newest replay of a stream.

    Attributes:
        seq: the number of replays begun; only rises.
        token: its id, `<stream>/replay-<seq>/<nonce>`, which also marks its rows in the quarantine table.
        published: whether its rows are in the table; if not, they are still in quarantine.
        totals: of all published replays.
        generation: the generation whose decoding, transform and rules it used.
        at: when it was written (RFC 3339); for display only.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    seq: int = 0
    token: str = ""
    published: bool = True
    totals: Replayed = Replayed()
    generation: int = 0
    at: str = ""

    def to_json(self) -> str:
        """The canonical form: sorted keys, no spaces."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))

    @property
    def done(self) -> str | None:
        """The token whose rows count as landed, even if the quarantine table is not updated yet."""
        return self.token if self.published and self.token else None


def is_act(attempt: str) -> bool:
    """Whether the attempt id is the token of a replay or removal, which move rows from or to quarantine."""
    parts = attempt.split("/")
    return len(parts) == 3 and parts[1].startswith("replay-")


def key(stream: str) -> str:
    """The name of the table property with the replay state of `stream`."""
    return f"{_PREFIX}{stream}{_SUFFIX}"


def of(properties: Mapping[str, str], stream: str, table: str) -> Replay:
    """The newest replay of a stream; an empty one if there was none.

    Raises:
        Blocked: the property is not a replay state (`replay-unreadable`).
    """
    text = properties.get(key(stream))
    if text is None:
        return Replay()
    try:
        return Replay.model_validate_json(text)
    except ValidationError as error:
        raise Blocked(
            f"The replay state of stream {stream} in {table} cannot be read",
            why=f"property {key(stream)}: {error.errors()[0]['msg']}",
            next="set the property to its value in an earlier metadata file of the table",
            reason="replay-unreadable",
            code="LW-3022",
        ) from None
