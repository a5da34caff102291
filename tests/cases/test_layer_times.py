"""A layer of the 22B model, forward and backward with its exchanges, against Korthikanti et al. (arXiv 2205.05198)."""

import csv
from pathlib import Path

import pytest

from simgpu.api import simulate
from simgpu.config import load_cases

TABLE = Path(__file__).parents[3] / "shared" / "truth" / "layer_times.csv"
ROWS = list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines())) if TABLE.exists() else []
LAYERS = [row for row in ROWS if row["id"].startswith("kort22") and row["total_ms"]]


def step_ms(row, layers):
    (case,) = load_cases(
        {
            "model": {
                **{"layers": layers, "hidden": int(row["hidden"]), "heads": int(row["heads"])},
                **{"ffn": 4 * int(row["hidden"]), "vocab": int(row["vocab"]), "mlp": "gelu", "norm": "layernorm"},
                **{"positions": "learned", "max_positions": int(row["seq"]), "tied_embeddings": True},
                **{"qkv_bias": True, "output_bias": True, "mlp_bias": True},
            },
            "cluster": {"topology": "dgx-a100", "gpus": 8},
            "training": {
                "sequence_length": int(row["seq"]),
                "micro_batch_size": int(row["micro_batch"]),
                "gradient_accumulation": 1,
                "precision": row["precision"],
                "optimizer": "none",
                "recompute": row["recompute"].split()[0],
            },
            "parallel": {"tp": int(row["tp"]), "sequence_parallel": row["seq_parallel"] == "y"},
            "software": "megatron-2022",
        }
    )
    return simulate(case).step_time_ns / 1e6


@pytest.mark.skipif(not LAYERS, reason="the published layer times are not here")
@pytest.mark.parametrize("row", LAYERS, ids=lambda row: row["id"])
def test_a_layer_takes_what_was_measured(row):
    layer_ms = (step_ms(row, 4) - step_ms(row, 2)) / 2  # embedding, head and loss cancel
    assert layer_ms == pytest.approx(float(row["total_ms"]), rel=0.03)
