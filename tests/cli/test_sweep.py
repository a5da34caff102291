import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.sweep.grids import YAML

# 128 points of some milliseconds: long enough to be killed in the middle.
LONG = (
    YAML.replace("[4, 8, 12, 16, 20, 24, 28, 32]", str(list(range(4, 68))))
    .replace("[4, 3]", "[2]")
    .replace("stages: 4", "stages: 2")
)


@pytest.fixture
def grid(tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text(YAML)
    return path


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_table_page_and_json(simgpu, grid, tmp_path):
    done = simgpu("sweep", grid, "--jobs", 1, "--json", "-")
    assert done.code == 0, done.err
    data = json.loads(done.out)
    assert (data["schema"], data["name"], len(data["points"])) == (1, "A small grid", 32)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "grid.sweep.csv", "grid.sweep.html", "grid.sweep.jsonl", "grid.yaml",
    ]  # fmt: skip
    table = rows(tmp_path / "grid.sweep.csv")
    assert [row["status"] for row in table].count("ok") == 16
    assert int(table[0]["step_time_ns"]) == 7 * 3_000_000
    page = (tmp_path / "grid.sweep.html").read_text(encoding="utf-8")
    assert "A small grid" in page
    assert all(f'data-figure="{name}"' in page for name in ("time", "memory", "pareto"))
    assert (
        "Fastest that fits: parallel.schedule = 1f1b, training.gradient_accumulation = 4, parallel.pp = 4" in done.err
    )
    assert "32 points, 16 that cannot be laid out" in done.err
    assert "16× parallel.pp = 3: " in done.err


def test_the_same_command_again_simulates_nothing(simgpu, grid, tmp_path):
    simgpu("sweep", grid, "--jobs", 1, "--no-html")
    first = (tmp_path / "grid.sweep.csv").read_bytes()
    again = simgpu("sweep", grid, "--jobs", 1, "--no-html")
    assert "32 points are in grid.sweep.jsonl already, 0 to go" in again.err
    assert (tmp_path / "grid.sweep.csv").read_bytes() == first
    grid.write_text(YAML.replace("forward_ns: 1 ms", "forward_ns: 3 ms"))
    changed = simgpu("sweep", grid, "--jobs", 1, "--no-html")
    assert "32 results there are of another grid, scenario or SimGPU and not used" in changed.err
    assert int(rows(tmp_path / "grid.sweep.csv")[0]["step_time_ns"]) == 7 * 5_000_000


def start(folder, *arguments):
    command = [sys.executable, "-m", "simgpu", "sweep", "grid.yaml", "--no-html", *arguments]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        command, cwd=folder, env=path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def wait_for_lines(path, count, process):
    end = time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "took too long"
        time.sleep(0.005)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "grid.yaml").write_text(LONG)
    process = start(folder, "--jobs", "2")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return folder


def lines(folder):
    return sorted((folder / "grid.sweep.jsonl").read_bytes().splitlines())


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_killed_in_the_middle_and_resumed_it_is_the_same_byte_for_byte(tmp_path, undisturbed, jobs):
    (tmp_path / "grid.yaml").write_text(LONG)
    journal = tmp_path / "grid.sweep.jsonl"
    for fraction in (10, 50):
        process = start(tmp_path, "--jobs", jobs)
        wait_for_lines(journal, fraction, process)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        finished = journal.read_bytes().count(b"\n") - 1
        assert fraction - 1 <= finished < 128
        assert not (tmp_path / "grid.sweep.csv").exists()
        with journal.open("ab") as file:
            file.write(b'{"key": "half a li')  # as a kill within a write leaves it
    process = start(tmp_path, "--jobs", jobs)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert f"{finished} points are in grid.sweep.jsonl already, {128 - finished} to go" in errors
    assert (tmp_path / "grid.sweep.csv").read_bytes() == (undisturbed / "grid.sweep.csv").read_bytes()
    assert lines(tmp_path) == lines(undisturbed)


def test_ctrl_c_keeps_what_is_finished_and_says_one_word(tmp_path):
    (tmp_path / "grid.yaml").write_text(LONG)
    process = start(tmp_path, "--jobs", "2")
    wait_for_lines(tmp_path / "grid.sweep.jsonl", 5, process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to everyone
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out, errors) == (130, "", "interrupted\n")
    assert lines(tmp_path)


def test_two_sweeps_on_one_journal_are_told_apart(simgpu, grid, tmp_path):
    from simgpu.executor import Journal

    with Journal(tmp_path / "grid.sweep.jsonl"):
        done = simgpu("sweep", grid, "--no-html")
    assert done.code == 2
    assert done.err.startswith("error: grid.sweep.jsonl: is in use by another sweep; fix: ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--jobs", "0"], "--jobs 0: is out of range; allowed: 1 to 512"),
        (["--jobs", "2", "--dask", "tcp://x:1"], "fix: give one of them"),
        (["--csv", "grid.yaml"], "--csv: grid.yaml is read for this sweep as well"),
        (["--csv", "x", "--journal", "x"], "--csv: x is --journal as well"),
        (["--journal", "grid.yaml"], "--journal: grid.yaml is read for this sweep as well"),
        (["--csv", "absent/x.csv"], "absent/x.csv: cannot be written: there is no folder absent"),
        (["--journal", "notes.txt"], "notes.txt: is no journal of a sweep and is left as it is"),
        (["--html", "x.html", "--no-html"], "exclude each other"),
        (["--set", "parallel.pp=2"], "is swept, and parallel.pp is set by --set as well"),
        (["--set", "cluster.gpus=3"], "no point of the grid can be simulated:\n"),
    ],
)
def test_what_cannot_be_done_is_one_message_and_leaves_nothing(simgpu, grid, tmp_path, arguments, words):
    (tmp_path / "notes.txt").write_text("my notes\n")
    done = simgpu("sweep", "grid.yaml", "--jobs", 1, *arguments) if "--jobs" not in arguments else simgpu(
        "sweep", "grid.yaml", *arguments)  # fmt: skip
    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.err
    assert (tmp_path / "notes.txt").read_text() == "my notes\n"
    assert not list(tmp_path.glob("*.csv")) + list(tmp_path.glob("*.html"))


def test_run_refuses_a_grid_by_name(simgpu, grid):
    done = simgpu("run", grid)
    assert done.code == 2
    assert "sweep: is a grid of many runs; fix: play it with simgpu sweep" in done.err


def test_parquet(simgpu, grid, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert simgpu("sweep", grid, "--jobs", 1, "--no-html", "--parquet", "x.parquet").code == 0
    table = parquet.read_table(tmp_path / "x.parquet").to_pydict()
    cells = rows(tmp_path / "grid.sweep.csv")
    assert [("" if value is None else str(value)) for value in table["step_time_ns"]] == [
        r["step_time_ns"] for r in cells
    ]
    assert table["fits"][:2] == [True, None]


def test_parquet_without_pyarrow(simgpu, grid, monkeypatch):
    monkeypatch.setattr("simgpu.io.parquet_file.find_spec", lambda name: None)
    done = simgpu("sweep", grid, "--parquet", "x.parquet")
    assert done.code == 2
    assert "pyarrow is not installed; fix: pip install 'simgpu[parquet]', or use --csv" in done.err


def test_dask_without_dask(simgpu, grid, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = simgpu("sweep", grid, "--dask", "tcp://127.0.0.1:1")
    assert done.code == 2
    assert "Dask is not installed; fix: pip install 'simgpu[dask]'" in done.err


def test_no_output_replaces_a_topology_that_is_read(simgpu, grid, tmp_path):
    topology = tmp_path / "mine.yaml"
    topology.write_text("name: one\ndevices: {gpu: {kind: gpu, count: 4, model: A40}}\nlinks: []\n")
    grid.write_text(YAML.replace("dgx-a100", str(topology)))
    done = simgpu("sweep", grid, "--csv", topology)
    assert done.code == 2
    assert "mine.yaml is read for this sweep as well" in done.err
