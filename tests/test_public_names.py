"""What ``import simgpu`` offers, and what it does not import."""

import subprocess
import sys

import simgpu


def test_every_public_name_resolves():
    for name in simgpu.__all__:
        assert getattr(simgpu, name).__name__ == name
    assert set(simgpu.__all__) <= set(dir(simgpu))


def test_import_is_light():
    heavy = {"numpy", "pandas", "plotly", "pydantic", "simpy", "networkx"}
    code = f"import sys, simgpu; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
