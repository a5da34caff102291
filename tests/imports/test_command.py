"""``simgpu import``: one commented scenario that runs, or one message and nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

import simgpu
from simgpu.cli.main import main
from simgpu.io.yaml_file import read_yaml

FILE = "base_model: NousResearch/Llama-2-7b-hf\nsequence_len: 256\nmicro_batch_size: 1\nbf16: true\nwarp_speed: 9\n"


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "a.yml").write_text(FILE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["simgpu", *words])
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    return run


def test_writes_a_commented_scenario_that_runs(command, tmp_path: Path) -> None:
    code, out, _ = command("import", "a.yml", "--topology", "dgx-a100", "--gpus", "2", "--out", "s.yaml")
    assert code == 0
    text = (tmp_path / "s.yaml").read_text(encoding="utf-8")
    assert text.startswith("# Imported by SimGPU from a.yml (axolotl).\n")
    assert "# - a.yml: warp_speed" in text
    assert "not understood: a.yml: warp_speed" in out
    assert "assumed: software: flash" in out
    assert read_yaml(tmp_path / "s.yaml").data["training"]["sequence_length"] == 256
    (report,) = simgpu.run(tmp_path / "s.yaml")
    assert report.gpus == 2
    assert report.step_time_ns > 0


def test_standard_output_is_the_scenario_alone(command, tmp_path: Path) -> None:
    code, out, err = command("import", "a.yml", "-t", "dgx-a100", "--out", "-")
    assert code == 0
    assert "not understood" in err
    (tmp_path / "piped.yaml").write_text(out, encoding="utf-8")
    assert read_yaml(tmp_path / "piped.yaml").data["model"] == "llama-2-7b"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("absent.yml", "--out", "s.yaml"), "absent.yml: cannot be read: No such file or directory"),
        (("a.yml", "--out", "s.yaml"), "topology: is missing"),
        (("a.yml", "-t", "dgx-a100", "--out", "a.yml"), "is a file that is read"),
        (("a.yml", "-t", "dgx-a100", "--out", "s.json"), "is no scenario file"),
        (("a.yml", "-t", "dgx-a100", "--out", "no/such/s.yaml"), "there is no folder no/such"),
        (("a.yml", "a.yml", "-t", "dgx-a100", "--out", "s.yaml"), "is given twice"),
        ((".", "-t", "dgx-a100", "--out", "s.yaml"), "cannot be read"),
        (("a.yml", "-t", "dgx-a100", "--set", "parallel.tp=3", "--gpus", "3", "--out", "s.yaml"), "parallel.tp = 3"),
        (("a.yml", "-t", "dgx-a100", "--set", "nonsense", "--out", "s.yaml"), "has no '='"),
    ],
)
def test_refusals_write_nothing(command, tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    code, out, err = command("import", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert "Traceback" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.yml"]
