"""What a table says of replays: rows of a stream's quarantine that landed after all, a property beside the position.

A stream's driver compares its position before it publishes, so a replay keeps its own count apart and the two never
fence each other. `token` names the newest act. Who begins an act puts its token here first; rows are published only
while it still stands here, and become part of the table in the commit that says `published`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, ValidationError

from lakeward.platform.errors import Blocked

_PREFIX = "lakeward.stream."
_SUFFIX = ".replay"


class Replayed(BaseModel):
    """Records that were in quarantine and are not any more, since the stream's first replay.

    Attributes:
        landed: they are rows of the table now.
        filtered: the transform drops them now.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    landed: int = 0
    filtered: int = 0

    def plus(self, other: Replayed) -> Replayed:
        """Field by field."""
        return Replayed(landed=self.landed + other.landed, filtered=self.filtered + other.filtered)


class Replay(BaseModel):
    """The newest act.

    Attributes:
        seq: how many were begun; only rises.
        token: which one it is, `<stream>/replay-<seq>/<nonce>`: what the quarantine's rows are marked with.
        published: whether its rows are in the table; if not, they are still where they were.
        totals: of all published ones.
        generation: whose decoding, transform and rules it took.
        at: when it was written (RFC 3339); for people.
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
        """The token whose rows count as landed although the quarantine may not say so yet."""
        return self.token if self.published and self.token else None


def is_act(attempt: str) -> bool:
    """Whether a write with this id moved rows from or to quarantine: the token of an act."""
    parts = attempt.split("/")
    return len(parts) == 3 and parts[1].startswith("replay-")


def key(stream: str) -> str:
    """The table property of `stream`'s replays."""
    return f"{_PREFIX}{stream}{_SUFFIX}"


def of(properties: Mapping[str, str], stream: str, table: str) -> Replay:
    """The newest act of a stream; an empty one where there never was any.

    Raises:
        Blocked: the property is not one of ours (`replay-unreadable`).
    """
    text = properties.get(key(stream))
    if text is None:
        return Replay()
    try:
        return Replay.model_validate_json(text)
    except ValidationError as error:
        raise Blocked(
            f"What {table} says of the replays of stream {stream} cannot be read",
            why=f"property {key(stream)}: {error.errors()[0]['msg']}",
            next="put the property back as the table's earlier metadata has it",
            reason="replay-unreadable",
            code="LW-3022",
        ) from None
