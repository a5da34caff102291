"""The commands of docs/trace.md, in their order."""

import re
import shlex
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "trace.md"


def test_commands(simgpu):
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    assert len(commands) == 4
    for command in commands:
        outcome = simgpu(*shlex.split(command)[1:])
        assert outcome.code == 0, outcome.err
    assert "1F1B" in outcome.out


def test_refusals(simgpu, tmp_path):
    refused = {
        ("export", "pipeline_ideal"): "several",
        ("export", "pipeline_ideal", "--case", "x"): "is no case",
        ("export", "tp_across_nodes", "--case", "H100, TP 8", "--format", "png"): "allowed: perfetto, kineto",
        ("export", "tp_across_nodes", "--case", "H100, TP 8", "--waits"): "belongs to --format kineto",
        ("export", "tp_across_nodes", "--case", "H100, TP 8", "--out", "absent/x.json"): "no folder",
        ("export", "tp_across_nodes", "--case", "H100, TP 8", "--format", "kineto", "--out", "."): "is not empty",
        ("trace", "absent"): "is not there",
        ("trace", "."): "is no trace",
        ("trace", ".", "--case", "x"): "belong to the scenario of --against",
    }
    (tmp_path / "x.json").write_text("hello")
    for arguments, message in refused.items():
        outcome = simgpu(*arguments)
        assert outcome.code == 2, arguments
        assert message in outcome.err.replace("\n", " "), (arguments, outcome.err)
        assert "Traceback" not in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]
