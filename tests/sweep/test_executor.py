import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from simgpu.executor import ExecutorError, run_tasks
from simgpu.executor.pool import worker_pool
from tests.sweep.tasks import die_always, die_once, report_pid, square, square_slowly, wait_for_file


def values(outcomes):
    return {outcome.index: outcome.value for outcome in outcomes}


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_every_task_ends_once(jobs):
    found = list(run_tasks(square, range(20), jobs=jobs))
    assert len(found) == 20
    assert values(found) == {number: number * number for number in range(20)}


def test_no_tasks():
    assert list(run_tasks(square, [], jobs=4)) == []


def test_a_worker_that_dies_is_reported_and_its_task_tried_again(tmp_path):
    notices = []
    items = [(number, str(tmp_path / "died")) for number in range(8)]
    found = list(run_tasks(die_once, items, jobs=2, notice=notices.append))
    assert values(found) == {number: number * number for number in range(8)}
    assert len(found) == 8
    assert len(notices) == 1
    assert "worker process died" in notices[0]


def test_a_task_that_kills_its_worker_twice_is_given_up_and_no_other():
    found = {outcome.index: outcome for outcome in run_tasks(die_always, range(8), jobs=2)}
    assert "died, twice" in found[3].lost
    assert {index: one.value for index, one in found.items() if index != 3} == {n: n * n for n in range(8) if n != 3}
    assert not any(one.lost for index, one in found.items() if index != 3)


def test_any_executor_will_do():
    with ThreadPoolExecutor(2) as threads:
        assert values(run_tasks(square, range(5), executor=threads)) == {n: n * n for n in range(5)}


class Forgetful:
    """Loses every task whose number is below its memory, and task 4 always."""

    def __init__(self):
        self.asked = []

    def submit(self, function, item):
        self.asked.append(item)
        future = Future()
        if item == 4 or self.asked.count(item) == 1:
            future.set_exception(ConnectionError("worker 7 is gone"))
        else:
            future.set_result(function(item))
        return future


def test_tasks_that_an_executor_loses_are_tried_once_more():
    executor, notices = Forgetful(), []
    found = {one.index: one for one in run_tasks(square, range(6), executor=executor, notice=notices.append)}
    assert {index: one.value for index, one in found.items() if index != 4} == {n: n * n for n in range(6) if n != 4}
    assert found[4].lost == "lost by the executor, twice: ConnectionError: worker 7 is gone"
    assert sorted(executor.asked) == sorted(2 * list(range(6)))
    assert len(notices) == 6


def test_an_executor_that_is_shut_down_is_one_message():
    threads = ThreadPoolExecutor(1)
    threads.shutdown()
    with pytest.raises(ExecutorError, match="takes no more tasks"):
        list(run_tasks(square, range(3), executor=threads))


def gone(pid):
    """Whether a process has ended; one that nobody has waited for yet counts."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_for(condition, limit_s=30):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "took too long"
        time.sleep(0.02)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks processes up in /proc")  # noqa: PTH112
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_owner(tmp_path, end):
    """kill -9 leaves no worker behind; Ctrl-C neither, and prints one traceback: the owner's."""
    code = (
        "from simgpu.executor import run_tasks\n"
        "from tests.sweep.tasks import report_pid\n"
        f"list(run_tasks(report_pid, [{str(tmp_path)!r}] * 4, jobs=2))\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
    if end == signal.SIGINT:
        os.killpg(owner.pid, end)  # as a terminal does: to everyone
    else:
        owner.kill()
    _, errors = owner.communicate(timeout=30)
    workers = [int(path.name) for path in tmp_path.iterdir()]
    wait_for(lambda: all(map(gone, workers)))
    assert errors.count("Traceback") == (1 if end == signal.SIGINT else 0), errors


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals cannot be blocked")
def test_ctrl_c_reaches_no_worker(tmp_path):
    with worker_pool(1) as pool:
        future = pool.submit(wait_for_file, str(tmp_path))
        wait_for(lambda: len(list(tmp_path.iterdir())) == 1)
        (worker,) = [int(path.name) for path in tmp_path.iterdir()]
        os.kill(worker, signal.SIGINT)
        (tmp_path / "go").touch()
        assert future.result(timeout=30) == "went on"


def test_a_script_without_a_main_guard_runs_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from simgpu.executor import run_tasks\n"
        "from tests.sweep.tasks import square\n"
        "print('began')\n"
        "print(sum(one.value for one in run_tasks(square, range(4), jobs=2)))\n"
    )
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=path, check=True)
    assert done.stdout.split() == ["began", "14"]


def test_leaving_a_pool_early_ends_its_tasks(tmp_path):
    class LeftError(Exception):
        pass

    def leave():
        with worker_pool(1) as pool:
            pool.submit(report_pid, str(tmp_path))
            wait_for(lambda: len(list(tmp_path.iterdir())) == 1)
            raise LeftError

    with pytest.raises(LeftError):
        leave()
    (worker,) = [int(path.name) for path in tmp_path.iterdir()]
    wait_for(lambda: gone(worker))


def test_outcomes_come_as_they_end_not_at_the_end():
    outcomes = run_tasks(square_slowly, range(1000), jobs=2)
    assert next(outcomes).value in {0, 1, 4, 9}
    outcomes.close()
