"""Small grids: synthetic stages with a free network take a millisecond each."""

GRID = {
    "model": {"stages": 4, "forward_ns": "1 ms", "backward_ns": "2 ms"},
    "cluster": {"topology": "dgx-a100", "gpus": 4},
    "network": "free",
    "training": {"micro_batch_size": 1},
    "parallel": {"pp": 4},
    "sweep": {
        "parallel.schedule": ["1f1b", "gpipe"],
        "training.gradient_accumulation": [4, 8, 12, 16, 20, 24],
        "parallel.pp": [4, 3],
    },
}

YAML = """\
name: A small grid
model: {stages: 4, forward_ns: 1 ms, backward_ns: 2 ms}
cluster: {topology: dgx-a100, gpus: 4}
network: free
training: {micro_batch_size: 1}
sweep:
  parallel.schedule: [1f1b, gpipe]
  training.gradient_accumulation: [4, 8, 12, 16, 20, 24, 28, 32]
  parallel.pp: [4, 3]
"""


def idle_share(stages, microbatches):
    """(p - 1) / (m + p - 1), the bubble of 1F1B and of GPipe with equal stages and a free network."""
    return (stages - 1) / (microbatches + stages - 1)
