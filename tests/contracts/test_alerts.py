"""Alert rules, dashboards, runbook and metrics name the same things."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import dashboards
import pytest
from ruamel.yaml import YAML

from lakeward.airflow import names
from lakeward.metrics import definitions
from lakeward.supervision import page_links

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "lakeward.rules.yaml"
TESTS = ROOT / "deploy" / "prometheus" / "lakeward.test.yaml"
RUNBOOK = ROOT / "docs" / "runbooks" / "alerts.md"
PARTS = ("Meaning", "First two minutes", "Diagnosis", "Mitigation", "Verify", "Escalate")
METRIC = re.compile(r"\blakeward_[a-z_]+")


def rules() -> list[dict]:
    return YAML(typ="safe").load(RULES.read_text())["groups"][0]["rules"]


def test_no_alert_fires_for_late_records() -> None:
    """They are counted as such, with the table that keeps them; an incident of kind `late` tells people which it is."""
    for rule in rules():
        assert not re.search(r"late\b|lagging|incidents|filtered", rule["expr"]), rule["alert"]


def sections() -> dict[str, str]:
    """Heading -> text of its section."""
    _, *parts = re.split(r"^## ", RUNBOOK.read_text(), flags=re.MULTILINE)
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


def test_each_alert_has_one_section_of_the_runbook_with_all_its_parts():
    alerts = [rule["alert"] for rule in rules()]
    assert list(sections()) == alerts
    for rule in rules():
        assert rule["annotations"]["runbook"] == f"docs/runbooks/alerts.md#{rule['alert'].lower()}"
    for alert, text in sections().items():
        assert re.findall(r"^- \*\*(.+?)\.\*\*", text, flags=re.MULTILINE) == list(PARTS), alert


def test_each_alert_leads_to_the_page_and_to_the_runs_of_a_dag():
    """Both below the address of Airflow, with the stream or the table open that the alert is about."""
    dags = {names.RECONCILE, names.QUALITY, names.MAINTAIN, names.OBSERVE, "stream__{{ $labels.stream }}"}
    for rule in rules():
        annotations, by = rule["annotations"], set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        opened = next((label for label in ("stream", "table") if label in by), None)
        subject = "" if opened is None else re.escape(f"&open={{{{ $labels.{opened} }}}}")
        page = rf"{page_links.PLACE}\?tab=(streams|tables|quality){subject}"
        assert re.fullmatch(page, annotations["page"]), rule["alert"]
        run = re.fullmatch(r"dags/(.+)/runs", annotations["run"])
        assert run is not None and run[1] in dags, rule["alert"]


def test_each_alert_is_tested():
    tested = {
        case["alertname"]
        for test in YAML(typ="safe").load(TESTS.read_text())["tests"]
        for case in test["alert_rule_test"]
        if case.get("exp_alerts")
    }
    assert tested == {rule["alert"] for rule in rules()}


def test_rules_runbook_and_dashboards_name_only_metrics_that_are_exported():
    queries = [
        dashboards.chosen(query) for board in dashboards.ALL for panel in board.panels for query, _ in panel.queries
    ]
    queries += [board.variable[1] for board in dashboards.ALL if board.variable is not None]
    texts = [*(rule["expr"] for rule in rules()), RUNBOOK.read_text(), *queries]
    named = {name for text in texts for name in METRIC.findall(text)}
    assert named <= set(definitions.BY_NAME)
    assert {name for rule in rules() for name in METRIC.findall(rule["expr"])} <= named


def test_labels_of_a_query_are_those_of_the_metric():
    queries = [
        dashboards.chosen(query) for board in dashboards.ALL for panel in board.panels for query, _ in panel.queries
    ]
    for query in [*queries, *(rule["expr"] for rule in rules())]:
        for name, selector in re.findall(r"(lakeward_[a-z_]+)\{([^}]*)\}", query):
            labels = re.findall(r"(\w+)\s*(?:=|!)", selector)
            assert set(labels) <= set(definitions.BY_NAME[name].labels), query


def test_the_dashboards_are_current():
    for file, text in dashboards.files().items():
        assert file.read_text() == text
        panels = json.loads(text)["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.mark.campaign
def test_promtool_accepts_the_rules_and_their_tests():
    promtool = shutil.which("promtool")
    assert promtool, "promtool is missing: apt-get install prometheus"
    for words in (["check", "rules", str(RULES)], ["test", "rules", str(TESTS)]):
        run = subprocess.run([promtool, *words], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout + run.stderr
