"""What the tests of ``simgpu ops`` share: a scenario, and the report of a command."""

import json
from pathlib import Path

SCENARIO = """\
model: {model}
cluster: {{topology: dgx-h100, gpus: 8}}
training: {{sequence_length: 2048, micro_batch_size: 1, global_batch_size: 8}}
parallel: {{tp: 4, pp: 2}}
"""


def written(folder: Path, model: str = "llama-3-8b") -> str:
    """Write the scenario, and return its name."""
    (folder / "s.yaml").write_text(SCENARIO.format(model=model))
    return "s.yaml"


def report(simgpu, *arguments):
    outcome = simgpu("ops", *arguments, "--json", "-")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)
