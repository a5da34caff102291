import sys
from dataclasses import dataclass

import pytest

from simgpu.cli.main import main


@dataclass
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def simgpu(monkeypatch, capsys, tmp_path):
    """Runs the command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["simgpu", *(str(argument) for argument in arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        return Outcome(int(end.value.code or 0), captured.out, captured.err)

    return call
