"""Bad input ends in one clear message and exit code 2: no traceback, no half-written file."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import simgpu as simgpu_package
from simgpu.errors import DeadlockError

GOOD = """\
model: llama-2-7b
cluster: {topology: dgx-a100, gpus: 8}
training:
  sequence_length: 4096
  micro_batch_size: 1
  global_batch_size: 64
parallel:
  tp: 2
"""


@pytest.mark.parametrize(
    ("old", "new", "where", "words"),
    [
        ("  tp: 2", "  tensor: 2", "s.yaml:8", "parallel.tensor = 2: is not a field of SimGPU"),
        ("  tp: 2", "  tp: 3", "s.yaml:8", "does not divide the 32 attention heads"),
        ("  tp: 2", "  pp: 5", "s.yaml:8", "does not divide the 32 layers"),
        ("  tp: 2", "  tp: true", "s.yaml:8", "is a boolean"),
        ("  tp: 2", "  tp: .nan", "s.yaml:8", "is not a finite number"),
        ("  tp: 2", "  tp: {a: 1}", "s.yaml:8", "is a mapping"),
        ("  tp: 2", "  tp: 2\n  tp: 4", "s.yaml:9", "is given twice, first in line 8"),
        ("global_batch_size: 64", "global_batch_size: 63", "s.yaml:6", "is not a multiple of dp x micro_batch_size"),
        ("llama-2-7b", "absent/config.json", "s.yaml:1", "there is no file absent/config.json"),
        ("topology: dgx-a100", "topology: mine.yaml", "mine.yaml:8", "links[0].bandwidth_gb_per_s = 0"),
        ("gpus: 8", "gpus: 0", "s.yaml:2", "cluster.gpus = 0: is below 1"),
        (GOOD, "- just\n- a list\n", "s.yaml:1", "holds a list, not a mapping"),
        (GOOD, "", "s.yaml", "is empty"),
        (GOOD, "a: [\n", "s.yaml:2", "is not valid YAML"),
    ],
)
def test_a_bad_scenario(simgpu, tmp_path, old, new, where, words):
    (tmp_path / "mine.yaml").write_text(
        "name: mine\n"
        "devices:\n"
        "  gpu: {kind: gpu, count: 8, model: A40}\n"
        "links:\n"
        "  - from: gpu 0-3\n"
        "    to: gpu 4-7\n"
        "    type: NVLink3 link (A100)\n"
        "    bandwidth_gb_per_s: 0\n"
    )
    assert old in GOOD
    (tmp_path / "s.yaml").write_text(GOOD.replace(old, new))
    before = sorted(tmp_path.iterdir())
    outcome = simgpu("run", "s.yaml")
    assert outcome.code == 2
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert any(f"{where}: " in line and words in line for line in outcome.err.splitlines()), outcome.err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "Missing argument"),
        (["run", "pipeline_ideal", "--colour"], "No such option"),
        (["runs", "pipeline_ideal"], "No such command"),
        (["run", "absent"], "absent: there is no such scenario; allowed: a path, or a bundled name: context_parallel"),
        (["run", "pipeline_idel"], "did you mean pipeline_ideal?"),
        (["run", "x" * 5000], "there is no such scenario"),
        (["run", "."], "is a folder"),
        (["compare", "pipeline_ideal", "absent"], "there is no such scenario"),
        (["run", "pipeline_ideal", "--rank", "4"], "--rank 4: there is no such rank; allowed: 0 to 3"),
        (["run", "pipeline_ideal", "--rank", "-1"], "--rank -1: there is no such rank"),
        (["run", "pipeline_ideal", "--rank", "first"], "Invalid value for '--rank'"),
        (["run", "pipeline_ideal", "--set", "cluster.gpus"], "--set: cluster.gpus: has no '='"),
        (["run", "pipeline_ideal", "--set", "cluster.gpuz=4"], "did you mean cluster.gpus?"),
        (["run", "pipeline_ideal", "--html", "absent/x.html"], "absent/x.html: cannot be written: there is no folder"),
        (["run", "pipeline_ideal", "--json", "."], "it is a folder"),
        (["run", "pipeline_ideal", "--json", "y" * 300], "cannot be written"),
        (["run", "pipeline_ideal", "--html", "x.html", "--no-html"], "--html and --no-html exclude each other"),
        (["run", "pipeline_ideal", "--html", "-"], "only JSON goes to standard output"),
        (["run", "pipeline_ideal", "--html", "x", "--json", "./x"], "both name x"),
    ],
)
def test_a_bad_command_line_is_refused_before_anything_is_simulated(simgpu, tmp_path, monkeypatch, arguments, words):
    monkeypatch.setattr("simgpu.cli.play._simulate", lambda *_, **__: pytest.fail("was simulated"))
    outcome = simgpu(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert words in outcome.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--html", "--json"])
def test_the_scenario_itself_is_never_replaced(simgpu, tmp_path, option):
    (tmp_path / "s.yaml").write_text(GOOD)
    outcome = simgpu("run", "s.yaml", option, "./s.yaml")
    assert outcome.code == 2
    assert "was read for this run and would be replaced" in outcome.err
    assert (tmp_path / "s.yaml").read_text() == GOOD


def test_a_terminal_without_unicode_gets_no_traceback(tmp_path):
    (tmp_path / "s.yaml").write_text("name: M\u00fcnchen \u00d7\n" + GOOD.replace("tp: 2", "tp: 3"), encoding="utf-8")
    for arguments, code in ((["run", "s.yaml"], 2), (["run", "pipeline_ideal", "--no-html"], 0)):
        done = subprocess.run(
            [sys.executable, "-m", "simgpu", *arguments],
            capture_output=True, cwd=tmp_path, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=False,
        )  # fmt: skip
        assert done.returncode == code
        assert b"Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_closed_folder_is_refused(simgpu, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert "permission denied" in simgpu("run", "pipeline_ideal", "--html", closed / "x.html").err


def test_an_error_of_the_simulation_leaves_no_file(simgpu, tmp_path, monkeypatch):
    def deadlock(*_, **__):
        raise DeadlockError("rank 0 waits for rank 1, and rank 1 for rank 0")

    monkeypatch.setattr("simgpu.api.simulate", deadlock)
    outcome = simgpu("run", "pipeline_ideal", "--json", "x.json")
    assert (outcome.code, outcome.err) == (2, "error: rank 0 waits for rank 1, and rank 1 for rank 0\n")
    assert not list(tmp_path.iterdir())


def test_interruption_is_clean(simgpu, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("simgpu.api.simulate", interrupt)
    outcome = simgpu("run", "pipeline_ideal")
    assert (outcome.code, outcome.err) == (130, "interrupted\n")
    assert not list(tmp_path.iterdir())


def test_a_reader_that_goes_away_gets_no_traceback(tmp_path):
    command = [sys.executable, "-m", "simgpu", "run", "pipeline_ideal", "--no-html"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, text=True) as process:
        process.stdout.close()
        _, err = "", process.stderr.read()
        assert process.wait() == 141
    assert err == ""


def test_a_real_signal_ends_a_real_process(tmp_path):
    script = (
        "import simgpu.config.load as load, time, sys\n"
        "def wait(*a, **k):\n"
        "    print('waiting', flush=True)\n"
        "    time.sleep(60)\n"
        "load.load_scenario = wait\n"
        "from simgpu.cli.main import main\n"
        "sys.argv = ['simgpu', 'run', 'x']\n"
        "main()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, text=True
    ) as process:
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.1)  # out of print, into sleep
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "interrupted\n"
        assert process.wait() == 130


@pytest.mark.parametrize(
    ("arguments", "redirect", "words"),
    [
        (["run", "pipeline_ideal", "--no-html"], ">/dev/full", "standard output: No space left on device"),
        (["run", "pipeline_ideal", "--no-html"], ">&-", "standard output: cannot be written: it is closed"),
        (["run", "pipeline_ideal", "--no-html", "--json", "-"], ">/dev/full", "standard output: No space left"),
        (["run", "pipeline_ideal", "--no-html", "--json", "-"], ">&-", "standard output: cannot be written"),
        (["--help"], ">/dev/full", "standard output: No space left on device"),
    ],
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_or_closed_standard_output_is_told_in_one_line(tmp_path, arguments, redirect, words):
    command = f'exec "{sys.executable}" -m simgpu {" ".join(arguments)} {redirect}'
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, cwd=tmp_path, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"error: {words}")
    assert done.stderr.count("error") == 1


@pytest.mark.parametrize("option", ["--html", "--json"])
def test_no_file_that_was_read_is_replaced(simgpu, tmp_path, option):
    root = Path(simgpu_package.__file__).parent.parent
    (tmp_path / "mine.yaml").write_text((root / "topologies" / "dgx-a100.yaml").read_text())
    (tmp_path / "config.json").write_text(
        '{"model_type": "llama", "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2,'
        ' "num_attention_heads": 2, "vocab_size": 100}'
    )
    (tmp_path / "s.yaml").write_text(GOOD.replace("llama-2-7b", "config.json").replace("dgx-a100", "mine.yaml"))
    (tmp_path / "link.yaml").symlink_to("s.yaml")
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    for name in ("s.yaml", "link.yaml", "mine.yaml", "./config.json"):
        outcome = simgpu("run", "s.yaml", option, name, *(["--no-html"] if option == "--json" else []))
        assert outcome.code == 2
        assert "was read for this run and would be replaced" in outcome.err
    assert simgpu("run", "link.yaml", option, "s.yaml").code == 2
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before


def test_a_scenario_on_standard_input(tmp_path):
    root = Path(simgpu_package.__file__).parent.parent
    with (root / "scenarios" / "pipeline_ideal.yaml").open() as stream:
        done = subprocess.run(
            [sys.executable, "-m", "simgpu", "run", "/dev/stdin", "--no-html"],
            stdin=stream, capture_output=True, cwd=tmp_path, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "57 ms" in done.stdout
