"""One message an incident, changed, and told its end: against a real HTTP server that can be away."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from sqlalchemy import text as sql

from lakeward.registry import incidents
from lakeward.registry.incidents import Incident
from lakeward.supervision.notify.channel import Log, Slack, Webhook
from lakeward.supervision.notify.deliver import _pause, deliver


@dataclass
class Receiver:
    """What arrived; `answers` are given in order, the last one again and again."""

    url: str = ""
    posts: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    answers: list[tuple[int, dict[str, Any]]] = field(default_factory=lambda: [(200, {})])

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [body for _, _, body in self.posts]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            made.posts.append((self.path, dict(self.headers), body))
            status, answer = made.answers.pop(0) if len(made.answers) > 1 else made.answers[0]
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def open_(connected, text: str, subject: str = "flights", **fields: Any) -> int:
    with connected() as connection:
        return incidents.opened(connection, "stream", subject, text, **fields)


def later(connected) -> None:
    """The pauses after refusals are over."""
    with connected() as connection:
        connection.execute(sql("UPDATE incidents SET message = jsonb_set(message, '{refused,until}', to_jsonb(now()))"))


def test_every_text_is_one_post_with_the_same_incident(connected, receiver) -> None:
    channel = Webhook(receiver.url)
    number = open_(connected, "flights is blocked", streams=["flights"], next="lakeward streams status flights")
    assert deliver(connected, channel).sent == (number,)
    assert deliver(connected, channel).sent == (), "said once"
    assert open_(connected, "flights is blocked since an hour") == number
    assert deliver(connected, channel).sent == (number,)
    with connected() as connection:
        incidents.closed(connection, "stream", "flights", "flights is healthy again")
    assert deliver(connected, channel).sent == (number,)
    assert deliver(connected, channel).sent == ()
    assert [(body["incident"], body["event"]) for body in receiver.bodies] == [
        (number, "opened"), (number, "updated"), (number, "resolved"),
    ]  # fmt: skip
    first, _, last = receiver.bodies
    assert first["text"].startswith(
        f"OPEN [incident {number}] flights is blocked\nnext: lakeward streams status flights"
    )
    assert "RESOLVED" in last["text"]
    assert "next:" not in last["text"]
    assert (first["streams"], first["kind"], first["subject"]) == (["flights"], "stream", "flights")
    keys = [headers["Idempotency-Key"] for _, headers, _ in receiver.posts]
    assert len(set(keys)) == 3


def test_a_message_links_to_the_page_where_the_incident_is_seen(connected, receiver) -> None:
    channel = Webhook(receiver.url, "https://airflow.example.com/")
    open_(connected, "flights is blocked", streams=["flights"])
    open_(connected, "two streams wait", "kafka", streams=["a", "b"])
    with connected() as connection:
        incidents.opened(connection, "quality", "nyc.fl ights", "a check holds it")
        incidents.opened(connection, "waiver", "nyc.flights/c1", "a waiver ends")
    deliver(connected, channel)
    deliver(connected, Webhook(receiver.url))
    page = "https://airflow.example.com/plugin/lakeward"
    assert [body["page"] for body in receiver.bodies] == [
        f"{page}?tab=streams&open=flights", f"{page}?tab=streams", f"{page}?tab=quality&open=nyc.fl+ights",
        f"{page}?tab=quality&open=nyc.flights",
    ]  # fmt: skip
    assert all(body["text"].endswith(f"\n{body['page']}") for body in receiver.bodies)


def test_without_an_address_of_airflow_there_is_no_link(connected, receiver) -> None:
    open_(connected, "flights is blocked", streams=["flights"])
    deliver(connected, Webhook(receiver.url))
    assert receiver.bodies[0]["page"] is None and "http" not in receiver.bodies[0]["text"]


def test_the_receivers_own_id_comes_back_with_the_next_text(connected, receiver) -> None:
    receiver.answers = [(200, {"id": "m-7"})]
    open_(connected, "one")
    deliver(connected, Webhook(receiver.url))
    open_(connected, "two")
    deliver(connected, Webhook(receiver.url))
    assert "message" not in receiver.bodies[0]
    assert receiver.bodies[1]["message"] == "m-7"


@pytest.mark.parametrize("status", [503, 429])
def test_a_receiver_that_is_away_gets_everything_later_and_nothing_twice(connected, receiver, status) -> None:
    numbers = [open_(connected, f"{name} is blocked", name) for name in ("a", "b", "c")]
    away = deliver(connected, Webhook("http://127.0.0.1:1/hook"))
    assert away.sent == ()
    assert "ConnectError" in away.trouble
    receiver.answers = [(200, {}), (status, {}), (200, {})]
    broken = deliver(connected, Webhook(receiver.url))
    assert broken.sent == (numbers[0],)
    assert str(status) in broken.trouble
    assert deliver(connected, Webhook(receiver.url)).sent == tuple(numbers[1:])
    taken = [receiver.bodies[0], *receiver.bodies[2:]]
    assert [body["incident"] for body in taken] == numbers


@pytest.mark.parametrize("url", ["", "hooks.example.com/x", "http://[::1", "http://127.0.0.1:99999/secret-path"])
def test_an_address_that_is_none_is_trouble_reported_without_its_path(connected, url) -> None:
    open_(connected, "flights is blocked")
    trouble = deliver(connected, Webhook(url)).trouble
    assert "A message was not delivered" in trouble
    assert "secret-path" not in trouble


def test_an_incident_that_was_over_before_anybody_heard_of_it_is_reported_once(connected, receiver) -> None:
    number = open_(connected, "flights is restarting")
    with connected() as connection:
        incidents.closed(connection, "stream", "flights", "flights is healthy again")
    assert deliver(connected, Webhook(receiver.url)).sent == (number,)
    assert [body["event"] for body in receiver.bodies] == ["resolved"]


def test_two_senders_at_once_send_it_once(connected, receiver) -> None:
    open_(connected, "flights is blocked")
    barrier = threading.Barrier(4)

    def one() -> None:
        barrier.wait()
        deliver(connected, Webhook(receiver.url))

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(receiver.posts) == 1


def test_slack_messages_are_changed_in_place_and_the_end_is_a_reply(connected, receiver) -> None:
    receiver.answers = [(200, {"ok": True, "ts": "17.1", "channel": "C1"})]
    slack = Slack("xoxb-1", "C1", receiver.url)
    open_(connected, "one")
    deliver(connected, slack)
    open_(connected, "two")
    deliver(connected, slack)
    with connected() as connection:
        incidents.closed(connection, "stream", "flights", "over")
    deliver(connected, slack)
    assert [path.rsplit("/", 1)[1] for path, _, _ in receiver.posts] == [
        "chat.postMessage", "chat.update", "chat.update", "chat.postMessage",
    ]  # fmt: skip
    assert [body.get("ts") or body.get("thread_ts") for body in receiver.bodies] == [None, "17.1", "17.1", "17.1"]
    assert receiver.posts[0][1]["Authorization"] == "Bearer xoxb-1"


def test_slack_that_refuses_is_tried_again(connected, receiver) -> None:
    receiver.answers = [(200, {"ok": False, "error": "channel_not_found"}), (200, {"ok": True, "ts": "1"})]
    open_(connected, "one")
    assert "channel_not_found" in deliver(connected, Slack("x", "C", receiver.url)).trouble
    later(connected)
    assert len(deliver(connected, Slack("x", "C", receiver.url)).sent) == 1


@pytest.mark.parametrize("status", [400, 404, 422])
def test_a_message_that_is_refused_holds_up_no_other_and_nobody_is_pestered_with_it(
    connected, receiver, status
) -> None:
    first, refused, last = (open_(connected, f"{name} is blocked", name) for name in ("a", "b", "c"))
    receiver.answers = [(200, {}), (status, {}), (200, {})]
    found = deliver(connected, Webhook(receiver.url))
    assert found.sent == (first, last)
    assert str(status) in found.trouble
    assert deliver(connected, Webhook(receiver.url)).sent == ()
    assert len(receiver.posts) == 3
    later(connected)
    assert deliver(connected, Webhook(receiver.url)).sent == (refused,)
    assert receiver.bodies[-1]["event"] == "opened"


def test_another_text_of_a_refused_message_is_sent_at_once(connected, receiver) -> None:
    number = open_(connected, "one")
    receiver.answers = [(400, {}), (200, {})]
    assert deliver(connected, Webhook(receiver.url)).sent == ()
    open_(connected, "two")
    assert deliver(connected, Webhook(receiver.url)).sent == (number,)


def test_the_pause_grows_with_every_refusal_of_the_same_text() -> None:
    def after(times: int, refused: str = "one") -> float:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        message = {"refused": {"text": refused, "times": times}}
        return _pause(Incident(1, "stream", "flights", now, "one", {}, now, None, message)) / timedelta(minutes=1)

    assert [after(times) for times in (1, 2, 3, 4, 500)] == [2, 4, 8, 10, 10]
    assert after(7, "another text") == 1


def test_slack_messages_that_somebody_deleted_are_posted_again_and_the_next_incident_is_reported(
    connected, receiver
) -> None:
    posted = {"ok": True, "ts": "17.1", "channel": "C1"}
    slack = Slack("xoxb-1", "C1", receiver.url)
    receiver.answers = [(200, posted), (200, {"ok": False, "error": "message_not_found"}), (200, posted | {"ts": "2"})]
    first = open_(connected, "one")
    deliver(connected, slack)
    open_(connected, "two")
    other = open_(connected, "alerts is blocked", "alerts")
    assert deliver(connected, slack).sent == (first, other)
    open_(connected, "three")
    deliver(connected, slack)
    assert [(path.rsplit("/", 1)[1], body.get("ts")) for path, _, body in receiver.posts] == [
        ("chat.postMessage", None), ("chat.update", "17.1"), ("chat.postMessage", None), ("chat.postMessage", None),
        ("chat.update", "2"),
    ]  # fmt: skip


def test_slack_that_asks_for_patience_is_away(connected, receiver) -> None:
    receiver.answers = [(200, {"ok": False, "error": "ratelimited"})]
    open_(connected, "one")
    open_(connected, "alerts is blocked", "alerts")
    assert "ratelimited" in deliver(connected, Slack("x", "C", receiver.url)).trouble
    assert len(receiver.posts) == 1


def test_a_webhooks_message_that_cannot_be_changed_is_sent_again(connected, receiver) -> None:
    receiver.answers = [(200, {"id": "m-7"}), (410, {}), (200, {"id": "m-8"})]
    for text in ("one", "two", "three"):
        open_(connected, text)
        deliver(connected, Webhook(receiver.url))
    assert [body.get("message") for body in receiver.bodies] == [None, "m-7", None, "m-8"]
    keys = [headers["Idempotency-Key"] for _, headers, _ in receiver.posts]
    assert len(set(keys)) == 4


def test_without_a_channel_it_is_logged_once(connected) -> None:
    open_(connected, "flights is blocked")
    assert len(deliver(connected, Log()).sent) == 1
    assert deliver(connected, Log()).sent == ()


def test_messages_are_masked(connected, receiver) -> None:
    open_(connected, "jdbc://lakeward:hunter2@db refuses", next="export PASSWORD=hunter2")
    deliver(connected, Webhook(receiver.url))
    assert "hunter2" not in json.dumps(receiver.bodies)
