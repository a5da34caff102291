"""A real scheduler and two real workers over TCP."""

import os
import signal
import socket
import subprocess
import sys

import pytest

import simgpu
from simgpu.executor import ExecutorError
from simgpu.executor.dask_cluster import dask_executor
from tests.sweep.grids import GRID

pytest.importorskip("distributed", reason="dask is not installed")

MANY = {
    **GRID,
    "sweep": {"parallel.schedule": ["1f1b", "gpipe"], "training.gradient_accumulation": list(range(4, 24))},
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def cluster(tmp_path):
    address = f"tcp://127.0.0.1:{free_port()}"
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    own = []

    def start(*arguments):
        own.append(
            subprocess.Popen(
                [sys.executable, "-m", "dask", *arguments],
                cwd=tmp_path, env=path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )
        )  # fmt: skip
        return own[-1]

    start("scheduler", "--host", address, "--no-dashboard")
    workers = [
        start("worker", address, "--no-dashboard", "--nthreads", "1", "--no-nanny", "--local-directory", str(tmp_path))
        for _ in range(2)
    ]
    yield address, workers
    for process in own:
        if process.poll() is None:
            process.kill()
        process.wait()


def test_one_of_two_workers_is_killed_and_the_table_is_the_same(cluster):
    address, workers = cluster
    expected = simgpu.sweep(MANY, jobs=1).to_csv()
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
    ended = []

    class Killing:
        """Hands tasks on; kills a worker when a few are finished."""

        def __init__(self, executor):
            self._executor = executor

        def submit(self, function, item):
            future = self._executor.submit(function, item)
            future.add_done_callback(self._count)
            return future

        def _count(self, future):
            ended.append(future)
            if len(ended) == 5:
                workers[0].send_signal(signal.SIGKILL)

    with dask_executor(address) as executor:
        found = simgpu.sweep(MANY, executor=Killing(executor))
    assert workers[0].wait(timeout=30) == -signal.SIGKILL
    assert workers[1].poll() is None
    assert found.to_csv() == expected


def test_the_command(cluster, tmp_path):
    address, _ = cluster
    (tmp_path / "grid.yaml").write_text(
        "model: {stages: 2, forward_ns: 1 ms, backward_ns: 2 ms}\ncluster: {topology: dgx-a100, gpus: 2}\n"
        "network: free\ntraining: {micro_batch_size: 1}\nparallel: {pp: 2}\n"
        "sweep: {training.gradient_accumulation: [2, 4]}\n"
    )
    command = [sys.executable, "-m", "simgpu", "sweep", "grid.yaml", "--no-html", "--dask", address]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=tmp_path, env=path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Fastest that fits: training.gradient_accumulation = 2: 9 ms" in done.stdout


def test_nobody_answers(monkeypatch):
    monkeypatch.setattr("simgpu.executor.dask_cluster._PATIENCE_S", 0.5)
    with (
        pytest.raises(ExecutorError, match="no Dask scheduler answers"),
        dask_executor(f"tcp://127.0.0.1:{free_port()}"),
    ):
        pass


def test_an_address_that_is_none(monkeypatch):
    monkeypatch.setattr("simgpu.executor.dask_cluster._PATIENCE_S", 0.5)
    with pytest.raises(ExecutorError, match="no Dask scheduler answers"), dask_executor("nowhere:port"):
        pass
