"""Every command and every snippet of the README runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


COMMANDS = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("simgpu ")]


@pytest.fixture
def folder(tmp_path):
    (scenario,) = blocks("yaml")
    name = scenario.splitlines()[0].removeprefix("# ")
    (tmp_path / name).write_text(scenario, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command, folder):
    words = command.split()
    result = subprocess.run([sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    if words[1] in ("run", "compare") and "--no-html" not in words:
        assert (folder / f"{Path(words[2]).stem}.html").stat().st_size > 1_000_000


def test_the_scripts_that_ci_runs_exist():
    scripts = re.findall(r"^sh (scripts/\w+)$", "\n".join(blocks("sh")), re.MULTILINE)
    assert scripts == ["scripts/demo", "scripts/test"]
    ci = (README.parent / ".ci" / "run").read_text(encoding="utf-8")
    for script in scripts:
        assert (README.parent / script).exists()
        assert f"sh {script}" in ci


def test_python(folder, capsys):
    (snippet,) = blocks("python")
    exec(snippet.replace(".show()", ""), {})
    assert "8 GPUs are" in capsys.readouterr().out
