"""Seeds of tests: fixed in the gate, so that each run checks the same; drawn at random by `make nightly`."""

from __future__ import annotations

import os
import random

VARIABLE = "LAKEWARD_SEED"


def seed(fixed: int) -> int:
    """The seed of one test, printed for whoever wants to repeat it.

    Args:
        fixed: the gate's. `LAKEWARD_SEED=<number>` gives another one, `LAKEWARD_SEED=random` draws one.
    """
    requested = os.environ.get(VARIABLE, "")
    chosen = (
        fixed if not requested else random.SystemRandom().randrange(10**6) if requested == "random" else int(requested)
    )
    print(f"{VARIABLE}={chosen}")
    return chosen
