"""docs/compute.md lists every number that the modules of compute costs hold, with its value."""

import importlib
import re
from pathlib import Path

import pytest

from simgpu.hardware.gpu import gpu, gpu_names

DOC = Path(__file__).parents[2] / "docs" / "compute.md"
MODULES = ("gemm", "grouped_gemm", "attention", "memory_bound", "interference", "optimizer", "choice")
UNITS = {"NVLINK_BYTES_PER_S", "P2P_PART_BYTES", "FP32"}  # facts of a format or of NCCL's source, named beside them


def documented():
    rows = re.findall(r"^\| `(\w+)\.(\w+)` \| ([0-9.]+) \|", DOC.read_text(encoding="utf-8"), re.MULTILINE)
    return {(module, name): float(value) for module, name, value in rows}


@pytest.mark.parametrize("name", MODULES)
def test_every_constant_is_listed_with_its_value(name):
    module = importlib.import_module(f"simgpu.costs.{name}")
    source = Path(module.__file__).read_text(encoding="utf-8")
    defined = re.findall(r"^([A-Z][A-Z0-9_]*)(?:: Final)? = ", source, re.MULTILINE)
    own = {constant: getattr(module, constant) for constant in defined}
    own = {constant: value for constant, value in own.items() if isinstance(value, int | float)}
    found = {constant: value for (of, constant), value in documented().items() if of == name}
    assert found == {constant: value for constant, value in own.items() if constant not in UNITS}


def test_other_listed_constants_have_their_value():
    for (name, constant), value in documented().items():
        assert getattr(importlib.import_module(f"simgpu.costs.{name}"), constant) == value


def test_devices_on_assumed_rates_are_named():
    assumed = [name for name in gpu_names() if gpu(name).rate_flag == "A"]
    assert assumed == ["A30", "H100-SXM5-96GB-HBM2e", "H100-NVL-94GB", "MI250X"]
    assert "A30, H100 96 GB, H100 NVL and MI250X in 16 bits" in DOC.read_text(encoding="utf-8").replace("\n", " ")
