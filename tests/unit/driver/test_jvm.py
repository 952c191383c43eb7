"""In which words a JVM died, seen on real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lakeward.driver import jvm, thread_dumps
from lakeward.driver.jvm import Jvm
from lakeward.platform.failures import Cause, FailureClass, judge


def _ended(code: str, printed: Path) -> Jvm:
    with printed.open("wb") as sink:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=sink, stderr=sink)
    process.wait(30)
    return Jvm(process, printed, lambda: "")


@pytest.mark.parametrize(
    ("code", "words", "cause"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "was killed by signal 9", Cause.JVM),
        ("raise SystemExit(1)", "ended with exit code 1", Cause.JVM),
        # What HotSpot prints with -XX:+ExitOnOutOfMemoryError, and its exit code.
        ("print('Terminating due to java.lang.OutOfMemoryError: Java heap space'); raise SystemExit(3)",
         "Java heap space", Cause.OUT_OF_MEMORY),
        ("raise SystemExit(3)", "ran out of memory", Cause.OUT_OF_MEMORY),
    ],
)  # fmt: skip
def test_a_dead_jvm_ends_in_a_named_class(tmp_path: Path, code: str, words: str, cause: Cause) -> None:
    said = _ended(code, tmp_path / "stdout.log").death_reason()
    assert said is not None
    assert words in said
    assert judge(text=said).cause is cause
    assert judge(text=said).failure_class is FailureClass.INFRA


def test_a_living_one_is_not_dead_and_somebody_elses_is_not_judged(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert Jvm(process, tmp_path / "x", lambda: "").death_reason() is None
    assert Jvm(process, tmp_path / "x", lambda: "").death_reason(wait_s=0.01) is None
    process.communicate(b"\n", 30)
    assert Jvm(process, tmp_path / "none", lambda: "").death_reason() is not None
    assert Jvm(None, tmp_path / "x", lambda: "").death_reason() is None


def test_a_context_that_was_stopped_inside_a_living_jvm_is_a_death_in_the_words_of_its_error(tmp_path: Path) -> None:
    printed = tmp_path / "stdout.log"
    printed.write_text(
        "CodeCache: size=49152Kb used=49151Kb\n"
        'Exception in thread "spark-listener-group-streams" java.lang.InternalError: no such method\n'
        "\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
        "Caused by: java.lang.NoSuchMethodError: linkToSpecial\n"
        "Caused by: java.lang.VirtualMachineError: Out of space in CodeCache for method handle intrinsic\n"
    )
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    said = Jvm(process, printed, lambda: "", stopped=lambda: True).death_reason()
    process.communicate(b"\n", 30)
    assert said == (
        "The driver lost its JVM: it runs on, but its Spark context was stopped: "
        "java.lang.InternalError: no such method; "
        "java.lang.VirtualMachineError: Out of space in CodeCache for method handle intrinsic"
    )
    assert (judge(text=said).failure_class, judge(text=said).cause) == (FailureClass.INFRA, Cause.JVM)
    assert Jvm(None, tmp_path / "x", lambda: "", stopped=lambda: True).death_reason() is not None


def test_an_application_that_ends_because_its_executors_fail_names_the_last_one(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text(
        '{"level":"ERROR","logger":"org.apache.spark.scheduler.TaskSchedulerImpl","event":"Lost executor 7 on 10.0.0.1:'
        "\\nThe executor with id 7 exited with exit code 137(SIGKILL, possible container OOM).\\n\\nThe API gave the "
        'following container statuses:"}\n'
    )
    ended = Jvm(None, tmp_path / "x", lambda: "", stopped=lambda: True, spark_log=log)
    assert "executors" not in str(ended.death_reason()), "an executor that is lost ends nothing"
    with log.open("a") as stream:
        stream.write('{"level":"ERROR","event":"Max number of executor failures (4) reached"}\n')
    said = ended.death_reason()
    assert said == (
        "The driver lost its JVM: Spark ended the application, because too many of its executors failed; the last one: "
        "The executor with id 7 exited with exit code 137(SIGKILL, possible container OOM)"
    )
    assert judge(text=said).cause is Cause.JVM


def test_a_jvm_that_answers_nobody_is_asked_to_print_its_threads_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm, "DUMP_S", 0.05)
    code = "import signal; signal.signal(signal.SIGQUIT, signal.SIG_DFL); print('ready', flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline()
    stuck = threading.Event()
    said = Jvm(process, tmp_path / "stdout.log", lambda: str(stuck.wait())).threads()
    assert "did not answer" in said
    assert process.wait(30) == -signal.SIGQUIT
    stuck.set()
    process.communicate()


def test_a_dump_holds_both_sides_and_old_ones_go(tmp_path: Path) -> None:
    living = Jvm(None, tmp_path / "x", lambda: "the JVM's threads")
    for number in range(thread_dumps.RETAINED + 3):
        written = Path(thread_dumps.write(tmp_path, f"s-{number:02}", living))
    text = written.read_text()
    assert "the JVM's threads" in text
    assert "test_a_dump_holds_both_sides" in text, "Python's own stacks"
    assert len(list((tmp_path / thread_dumps.FOLDER).iterdir())) == thread_dumps.RETAINED


def test_a_dump_leaves_no_thread_out_however_many_there_are(tmp_path: Path) -> None:
    stop = threading.Event()
    crowd = [threading.Thread(target=stop.wait, name=f"one-of-a-crowd-{number}") for number in range(120)]
    try:
        for thread in crowd:
            thread.start()
        text = Path(thread_dumps.write(tmp_path, "s", Jvm(None, tmp_path / "x", lambda: ""))).read_text()
    finally:
        stop.set()
        for thread in crowd:
            thread.join()
    assert "test_a_dump_leaves_no_thread_out" in text, "the main thread's stack"
    assert all(f"{thread.name} (" in text for thread in crowd)


def test_a_dump_that_cannot_be_written_keeps_nobody_from_what_follows(tmp_path: Path) -> None:
    (tmp_path / thread_dumps.FOLDER).touch()  # no folder can be made here, as on a full disk
    assert "not written" in thread_dumps.write(tmp_path, "s", Jvm(None, tmp_path / "x", lambda: ""))


def test_a_jvm_that_cannot_print_its_threads_says_so(tmp_path: Path) -> None:
    def broken() -> str:
        raise ConnectionRefusedError("the gateway is gone")

    assert "ConnectionRefusedError: the gateway is gone" in Jvm(None, tmp_path / "x", broken).threads()
