"""Accelerate's fp8 library goes there and back without a word beside the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.config.exported_run import export_run
from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.config.load import load_cases
from simgpu.io.foreign.kinds import read_foreign
from tests.exports.conftest import SMALL, deep


@pytest.mark.parametrize("software", ["flash", "compile"])
def test_fp8_of_fsdp(tmp_path: Path, software: str) -> None:
    changes = {"cluster": {"topology": "dgx-h100"}, "training": {"precision": "fp8"}, "software": software,
               "parallel": {"data_parallel": "fsdp"}}  # fmt: skip
    scenario = {"name": "s", **deep(SMALL, changes)}
    (case,) = load_cases(scenario)
    run = export_run(scenario, case, "accelerate")
    assert "fp8" not in run.back
    for name, text in run.files.items():
        (tmp_path / name).write_text(text)
    read = read_foreign(tmp_path / "accelerate.yaml")
    assert (read.settings["software"], read.unknown) == ("flash", ())  # Trainer's arguments compile
    data = import_run([tmp_path / "launch.sh"], RunAnswers(topology="dgx-h100")).data
    (again,) = load_cases(data)
    assert (again.training.fp8, again.software.fp8_scaling) == (True, case.software.fp8_scaling)
    assert again.software == case.software
