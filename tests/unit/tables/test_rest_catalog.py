"""Maintenance of tables in a real Iceberg REST catalog: SeaweedFS, with its files on its object store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import object_store
import pytest
from object_store import Weed
from pyiceberg.catalog.rest import RestCatalog
from shared_files import SharedLake, deployment, rows
from stopped import stopped

from lakeward.connectors.aws import store
from lakeward.connectors.commit_protocol.position import key
from lakeward.connectors.iceberg import rename, rollback
from lakeward.connectors.iceberg.catalogs import rest_requests
from lakeward.connectors.iceberg.catalogs.examine import answers_of
from lakeward.connectors.iceberg.fence import tag_of
from lakeward.platform.errors import DependencyDown, Fenced
from lakeward.platform.runtime import Lake, Project, Runtime
from lakeward.tables import context, run
from lakeward.tables.guard import pins
from lakeward.telemetry import failpoints


@pytest.fixture(scope="module")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weed]:
    with object_store.running(tmp_path_factory.mktemp("weed"), catalog=True) as made:
        yield made


@pytest.fixture(scope="module")
def where(weed: Weed, postgres: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    lake = Lake(warehouse="s3://lake", store=weed.store, properties=weed.rest, login=weed.log_in())
    with deployment(postgres, tmp_path_factory.mktemp("rest"), lake) as runtime:
        yield runtime


@pytest.fixture
def lake(where: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SharedLake]:
    monkeypatch.setattr(pins, "STAGED_FLOOR", timedelta(0))  # no stream stages here
    made = SharedLake(where, Project(tmp_path / "project"))
    assert isinstance(made.site.catalog, RestCatalog)
    yield made
    made.drop()
    failpoints._hooks.clear()


def entry(document: dict[str, Any]) -> dict[str, Any]:
    [only] = document["actions"]
    return only


def test_an_expiry_is_planned_committed_and_verified(lake: SharedLake) -> None:
    table = lake.table(rows(1), rows(2), rows(3))
    before = lake.load(table).metadata
    done = entry(lake.expire(table))
    assert (done["result"], done["verified"]) == ("done", True), done
    after = lake.load(table).metadata
    [left] = after.snapshots
    assert left.parent_snapshot_id == before.current_snapshot().parent_snapshot_id, "the walk ends as expired"
    assert [each.snapshot_id for each in after.snapshot_log] == [left.snapshot_id]
    assert lake.ids(table) == [1, 2, 3]


def test_a_table_of_others_is_observed_until_an_entry_says_otherwise(lake: SharedLake) -> None:
    table = lake.table(rows(1), rows(2), rows(3))
    allowed = lake.project.tables_file.read_text()
    lake.project.tables_file.write_text(allowed.replace("maintain: true, ", ""))
    location = lake.load(table).metadata_location
    done = lake.expire(table)
    assert done["actions"] == []
    [why] = [each["why"] for each in done["plan"]["not_planned"] if each["action"] == "expire"]
    assert why.startswith("only observed (maintain: false); it is due: ")
    assert run.maintain(lake.runtime, lake.project, table, ["orphans"])["actions"] == []
    seen = run.observe(lake.runtime, lake.project, [table])
    assert (seen["due"], [each["table"] for each in seen["tables"]]) == ([], [table])
    assert lake.load(table).metadata_location == location, "nothing is written into its properties"
    lake.project.tables_file.write_text(allowed)
    assert entry(lake.expire(table))["result"] == "done"


def test_a_commit_in_between_is_refused_and_the_expiry_repeated(lake: SharedLake, monkeypatch: Any) -> None:
    from lakeward.tables import expiry

    table = lake.table(rows(1), rows(2))
    lake.rewrite(table)
    again, tried, commit = [rows(3), rows(4)], [], expiry.expire_snapshots

    def late(*given: Any) -> None:
        tried.append(given)
        if again:
            lake.load(table).append(again.pop(0))
        commit(*given)

    monkeypatch.setattr(expiry, "expire_snapshots", late)
    done = entry(lake.expire(table))
    assert (done["result"], len(tried)) == ("done", 3), done
    assert done["after"]["returned"][0]["deleted_data_files_count"] == 2
    assert lake.ids(table) == [1, 2, 3, 4]


def test_a_tag_set_at_the_moment_of_the_commit_keeps_its_files(lake: SharedLake, monkeypatch: Any) -> None:
    """The catalog takes the tag away with its snapshot: no requirement can name a ref that is not known."""
    from lakeward.tables import expiry

    table = lake.table(rows(1))
    lake.rewrite(table)
    first, commit = lake.load(table).metadata.snapshots[0], expiry.expire_snapshots
    [file] = [task.file.file_path for task in lake.load(table).scan(snapshot_id=first.snapshot_id).plan_files()]

    def late(*given: Any) -> None:
        lake.load(table).manage_snapshots().create_tag(first.snapshot_id, "kept").commit()
        commit(*given)

    monkeypatch.setattr(expiry, "expire_snapshots", late)
    done = entry(lake.expire(table))
    assert "removed kept, which was set at the same time" in done["why"], done
    assert done["result"] == "failed"
    io = lake.load(table).io
    assert io.new_input(file).exists() and io.new_input(first.manifest_list).exists()


def test_files_of_the_host_that_a_guest_names_stay(lake: SharedLake) -> None:
    host = lake.table(rows(1), rows(2))
    guest = lake.table(space="shared.deep")
    lake.take_in(guest, lake.live(host))
    lake.rewrite(host)
    done = entry(lake.expire(host))
    assert done["result"] == "done" and done["after"]["spared"] == {f"table {guest} names it": 2}, done
    assert done["after"]["returned"][0]["deleted_manifest_files_count"] > 0
    assert lake.ids(guest) == lake.ids(host) == [1, 2]


def test_every_page_of_every_namespace_is_listed_once(lake: SharedLake) -> None:
    made = [lake.table(space=space) for space in ("paged", "paged.below") for _ in range(3)]
    lake.site.catalog.properties["rest-page-size"] = "2"
    assert {name for name in lake.site.names() if name.startswith("paged")} == set(made)
    spaces = context.namespaces(lake.site.catalog)
    assert len(spaces) == len(set(spaces)) and ("paged", "below") in spaces
    assert {each["table"] for each in run.health(lake.runtime, lake.project)["tables"]} >= set(made)


def test_a_namespace_that_may_not_be_listed_stops_no_other_table(lake: SharedLake, monkeypatch: Any) -> None:
    """Expiry asks every table for the files that a guest took in: it is not planned, and the guest is seen."""
    host, guest = lake.table(rows(1)), lake.table(rows(2))
    lake.take_in(guest, lake.live(host))
    lake.rewrite(guest)
    lake.site.catalog.create_namespace_if_not_exists("secret")
    listed = RestCatalog.list_tables

    def refusing(catalog: RestCatalog, space: tuple[str, ...]) -> Any:
        if tuple(space) == ("secret",):
            raise rest_requests.Forbidden("The REST catalog refuses a privilege", why="no LIST", code="LW-3434")
        return listed(catalog, space)

    monkeypatch.setattr(RestCatalog, "list_tables", refusing)
    seen = run.observe(lake.runtime, lake.project)
    assert (seen["errors"], {each["table"] for each in seen["tables"]} >= {host, guest}) == ({}, True)
    done = lake.expire(guest)
    assert done["actions"] == []
    [why] = [each["why"] for each in done["plan"]["not_planned"] if each["action"] == "expire"]
    assert why == "whose its files are is not known: The REST catalog refuses a privilege: no LIST"


@pytest.mark.campaign
def test_the_same_clients_go_on_after_their_server_said_nothing(lake: SharedLake, weed: Weed, monkeypatch: Any) -> None:
    """The process of the catalog and the object store is stopped: its kernel goes on to acknowledge."""
    table = lake.table(rows(1), rows(2))
    loaded = lake.load(table)
    monkeypatch.setattr(rest_requests, "ANSWER_S", 2.0)
    with stopped(weed.server):
        with pytest.raises(DependencyDown, match="REST catalog does not answer"):
            lake.load(table)
        with pytest.raises(OSError, match="NETWORK_CONNECTION"):
            loaded.scan().to_arrow()
        with pytest.raises(DependencyDown, match="object store does not answer"):
            store.check(lake.runtime.lake, "s3://lake/shared")
    assert len(loaded.scan().to_arrow()) == 2 and lake.ids(table) == [1, 2]
    store.check(lake.runtime.lake, "s3://lake/shared")
    lake.load(table).append(rows(3))
    assert lake.ids(table) == [1, 2, 3]


def test_a_catalog_is_examined_and_nothing_is_left(lake: SharedLake, where: Runtime, weed: Weed) -> None:
    table = lake.table(rows(1))
    before, objects, location = lake.site.names(), weed.names("lake"), lake.load(table).metadata_location
    answers = {answer.name: answer for answer in answers_of(where.lake)}
    assert [name for name, answer in answers.items() if not answer.ok] == []
    assert "as connection lakeward_rest" in answers["catalog"].found
    assert answers["catalog commit"].found.startswith("allowed in ")
    assert answers["catalog create"].found.startswith("allowed in ")
    assert "catalog credentials" not in answers, "the settings name a store"
    assert (lake.site.names(), lake.load(table).metadata_location) == (before, location)
    assert weed.names("lake") == objects, "no file of a staged table either"
    [alone] = [answer for answer in answers_of(where.lake.model_copy(update={"store": None}))
               if answer.name == "catalog credentials"]  # fmt: skip
    assert (alone.ok, alone.found.startswith("none are vended")) == (True, True)


def test_a_wrong_secret_is_one_answer_without_the_secret(where: Runtime, weed: Weed) -> None:
    weed.log_in("wr0ng-s3cret")
    try:
        [answer] = answers_of(where.lake)
    finally:
        weed.log_in()
    assert (answer.name, answer.ok, answer.severe) == ("catalog", False, True)
    assert "refuses the login" in answer.found
    assert "wr0ng" not in str(answer)


def test_a_property_that_is_no_position_is_changed_by_its_expected_value(lake: SharedLake) -> None:
    """The server knows no requirement for a property: the value is compared before the commit."""
    table = lake.table(rows(1))
    rename.amend(lake.site.catalog, table, lambda _: {"marker": "one"}, {"marker": None})
    with pytest.raises(Fenced, match="marker"):
        rename.amend(lake.site.catalog, table, lambda _: {"marker": None}, {"marker": "two"})
    after = rename.amend(lake.site.catalog, table, lambda _: {"marker": None}, {"marker": "one"})
    assert "marker" not in after.properties


def test_a_restore_puts_an_empty_snapshot_on_the_old_one_and_moves_the_tags(lake: SharedLake) -> None:
    table = lake.table(rows(1), rows(2))
    loaded = lake.load(table)
    first = loaded.metadata.snapshots[0].snapshot_id
    rollback.move(loaded, first, {key("a"): "{}", key("b"): None, "other": "1"}, {"verified": first})
    after = lake.load(table)
    head = after.current_snapshot()
    assert (lake.ids(table), head.parent_snapshot_id) == ([1], first)
    refs = {name: ref.snapshot_id for name, ref in after.refs().items()}
    tags = dict.fromkeys((tag_of("a"), tag_of("b")), head.snapshot_id)
    assert refs == {"main": head.snapshot_id, "verified": first, **tags}
    assert (after.properties[key("a")], after.properties.get(key("b")), after.properties["other"]) == ("{}", None, "1")
    with pytest.raises(Fenced, match="another commit came first"):
        rollback.move(loaded, first, {key("a"): "{}"}, {})
