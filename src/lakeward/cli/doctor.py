"""`lakeward doctor`: check machine and stack, with the command that repairs each problem."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from lakeward.cli import supervised
from lakeward.cli.context import state
from lakeward.platform.errors import DependencyDown, LakewardError, Unhealthy

if TYPE_CHECKING:
    from lakeward.stack.doctor import Check


def doctor() -> None:
    """Check this machine and this stack; each line that is not ok names the command that repairs it."""
    from lakeward.stack.doctor import examine

    checks = [*examine(state().project, state().home), *_masters(), *_clusters(), *_reconciled()]
    wrong = [check for check in checks if not check.ok]
    state().output.show(
        {"checks": [asdict(check) for check in checks]}, rows="checks", columns=["name", "ok", "found", "wanted"]
    )
    for check in checks:
        if check.next and not check.ok:
            state().output.note(f"{check.name}: {check.next}")
    if wrong:
        raise typer.Exit(Unhealthy.exit_code)


def _masters() -> list[Check]:
    """Whether the Spark masters of the project's drivers answer; invalid settings are reported by `config validate`."""
    from lakeward.cli.masters import probe_masters
    from lakeward.spec.read.loader import load_settings
    from lakeward.stack.doctor import Check

    try:
        settings = load_settings(state().project)
    except LakewardError:
        return []
    found = []
    for master, who, error in probe_masters(settings, state().home.secrets):
        required = f"{master}, for {who}"
        if error is None:
            found.append(Check("spark master", True, "answers", required))
        else:
            words = "does not answer" if isinstance(error, DependencyDown) else error.headline
            found.append(Check("spark master", False, f"{words}: {error.why}", required, error.next))
    return found


def _clusters() -> list[Check]:
    """Whether Kubernetes and YARN let the project's drivers run; `config validate` reports invalid settings."""
    from lakeward.connectors.kubernetes.examine import examine as pods
    from lakeward.connectors.yarn.examine import examine as applications
    from lakeward.spec.read.loader import load_settings
    from lakeward.stack.doctor import Check

    try:
        settings = load_settings(state().project)
    except LakewardError:
        return []
    secrets = state().home.secrets
    return [
        Check(name, not each.next, each.found, each.place, each.next)
        for name, answers in (("kubernetes", pods(settings, secrets)), ("yarn", applications(settings, secrets)))
        for each in answers
    ]


def _reconciled() -> list[Check]:
    """Whether reconcile passes run; no check without a registry."""
    from lakeward.stack.doctor import Check
    from lakeward.supervision import dead_mans_switch, presence

    required = f"the streams are observed every {dead_mans_switch.EVERY_S:.0f} s"
    try:
        with state().registry() as connection:
            present, newest = presence.read(connection), dead_mans_switch.newest(connection)
    except LakewardError:
        return []  # another check reports a registry that is down
    present = supervised.explain(present)
    if present.missing:
        return [Check("reconcile", False, present.why, required, present.next)]
    found = "no pass yet" if newest is None else f"observed {newest.age_s:.0f} s ago"
    return [Check("reconcile", True, found, required)]
