from __future__ import annotations

HEAD = "owner: x\nsource: {kafka: {topics: [t], max_offsets_per_trigger: 5}}\nsink: {iceberg: {table: n.t}}\n"


def test_once_is_answered_with_what_to_write(stream):
    for value in ("true", "{}", "1h"):
        [problem] = stream(HEAD + f"trigger: {{once: {value}}}\n").problems
        assert (problem.path, problem.line) == ("trigger", 4)
        assert "use available_now: true with a schedule" in problem.message


def test_what_is_there_by_a_schedule(stream):
    loaded = stream(HEAD + 'trigger: {available_now: true, schedule: "0 * * * *"}\n')
    assert list(loaded.problems) == []
    trigger = loaded.streams["a"].spec.trigger
    assert (trigger.kind, trigger.schedule, trigger.interval) == ("available_now", "0 * * * *", None)
