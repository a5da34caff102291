import subprocess
import sys

import pytest

HEAVY = ("numpy", "pandas", "plotly", "networkx", "simpy", "ruamel.yaml")


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], (*HEAVY, "pydantic")),
        (["--version"], (*HEAVY, "pydantic")),
        (["run", "--help"], HEAVY),  # typer itself reads a command's parameters with pydantic
        (["compare", "-h"], HEAVY),
        (["collective", "--help"], HEAVY),
        (["ops", "--help"], HEAVY),
    ],
)
def test_help_loads_nothing_heavy(arguments, heavy):
    script = (
        "import sys\n"
        "from simgpu.cli.main import main\n"
        f"sys.argv = ['simgpu', *{arguments!r}]\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        f"print('loaded:', [name for name in {heavy!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("loaded: []\n")
    assert "simgpu" in done.stdout


def test_the_module_runs_as_well():
    done = subprocess.run([sys.executable, "-m", "simgpu", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == "simgpu 0.1.0\n"
