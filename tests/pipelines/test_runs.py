"""The command as a user runs it: other masters, kills, and always the same bytes.

The corpus is a small demo crawl with every kind of fault planted in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 300


def digests(workspace: Path) -> dict[str, str]:
    files = sorted((workspace / "datasets").iterdir())
    assert files
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in [*files, workspace / "corpus.yaml"]}


@pytest.fixture(scope="module")
def expected(built: Path) -> dict[str, str]:
    """What local[1] makes of the crawl."""
    return digests(built)


def test_two_cores_give_the_same_bytes_as_one(
    build: Callable[..., str], expected: dict[str, str], tmp_path: Path
) -> None:
    build(tmp_path / "run", "--master", "local[2]")
    assert digests(tmp_path / "run") == expected


def test_two_executors_give_the_same_bytes(build: Callable[..., str], expected: dict[str, str], tmp_path: Path) -> None:
    build(tmp_path / "run", "--master", "local-cluster[2,1,1024]", "--cluster", str(small_cluster(tmp_path)))
    assert digests(tmp_path / "run") == expected


def small_cluster(folder: Path, **more: str) -> Path:
    path = folder / "cluster.yaml"
    lines = ["driver_memory: 1g", "executor_memory: 900m", *(f"{key}: {value}" for key, value in more.items())]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
def test_a_driver_killed_at_every_step_continues_to_the_same_bytes(
    command: Callable[..., list[str]], expected: dict[str, str], tmp_path: Path
) -> None:
    workspace = tmp_path / "run"
    killed: list[str] = []
    while True:
        process = subprocess.Popen(
            command(workspace, "--master", "local[2]"),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        step = wait_for_a_new_step(process, workspace, killed)
        if step is None:
            break
        killed.append(step)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode == 0
    assert digests(workspace) == expected
    assert len(killed) >= 5, killed


def wait_for_a_new_step(process: subprocess.Popen[bytes], workspace: Path, seen: list[str]) -> str | None:
    """The first step or dataset being written that was not seen before; None when the run ends."""
    while process.poll() is None:
        for path in [*workspace.glob("stages/*.partial"), *workspace.glob("datasets/*.partial")]:
            name = path.name.split("-")[0] if path.parent.name == "stages" else "datasets"
            if name not in seen:
                return name
        time.sleep(0.02)
    return None


@pytest.mark.slow
def test_a_killed_executor_changes_nothing(
    command: Callable[..., list[str]], expected: dict[str, str], tmp_path: Path
) -> None:
    process = subprocess.Popen(
        command(tmp_path / "run", "--master", "local-cluster[2,1,1024]", "--cluster", str(small_cluster(tmp_path))),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
    )
    while not list((tmp_path / "run").glob("stages/00-*.partial/chunks/*/_temporary/0/_temporary/*")):
        assert process.poll() is None
        time.sleep(0.05)
    victims = executors(process.pid)
    assert victims
    os.kill(victims[0], signal.SIGKILL)
    assert process.wait(timeout=DEADLINE_SECONDS) == 0
    assert digests(tmp_path / "run") == expected


def executors(ancestor: int) -> list[int]:
    """Process ids of the executors below a process."""
    parents: dict[int, int] = {}
    names: dict[int, bytes] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                status = (entry / "status").read_text()
                parents[int(entry.name)] = int(re.findall(r"PPid:\s+(\d+)", status)[0])
                names[int(entry.name)] = (entry / "cmdline").read_bytes()

    def below(pid: int) -> bool:
        while pid in parents:
            if pid == ancestor:
                return True
            pid = parents[pid]
        return False

    return sorted(pid for pid, name in names.items() if b"CoarseGrainedExecutorBackend" in name and below(pid))


@pytest.fixture
def standalone() -> Iterator[Callable[[Path], str]]:
    """Starts a standalone master with one worker that shares nothing with this environment but the file system."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(folder: Path) -> str:
        import pyspark

        spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        master = f"spark://127.0.0.1:{port}"
        environment = {
            "PATH": os.environ["PATH"],
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(folder / "worker"),
            "SPARK_LOG_DIR": str(folder),
        }
        if "JAVA_HOME" in os.environ:
            environment["JAVA_HOME"] = os.environ["JAVA_HOME"]
        package = "org.apache.spark.deploy"
        for arguments in (
            [f"{package}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"],
            [f"{package}.worker.Worker", "-c", "2", "-m", "2g", "--webui-port", "0", master],
        ):
            with (folder / f"{arguments[0].split('.')[-1]}.log").open("wb") as log:
                processes.append(
                    subprocess.Popen(
                        [spark_class, *arguments],
                        cwd=folder,
                        env=environment,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )
            time.sleep(5)
        return master

    yield start
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_standalone_cluster_gets_the_packages_by_itself_and_gives_the_same_bytes(
    build: Callable[..., str], expected: dict[str, str], tmp_path: Path, standalone: Callable[[Path], str]
) -> None:
    """The executors' interpreter is a bare one: every package must have come with the job."""
    bare = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    cluster = small_cluster(tmp_path, python=str(bare), cache=str(tmp_path / "cache"))
    build(tmp_path / "run", "--master", standalone(tmp_path), "--cluster", str(cluster))
    assert digests(tmp_path / "run") == expected
