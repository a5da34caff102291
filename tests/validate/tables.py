"""Small tables of measured runs."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

ROW = {
    "id": "one", "source": "a paper", "model": "GPT 1.7B", "layers": "24", "hidden": "2304", "heads": "24",
    "kv_heads": "24", "ffn": "9216", "ffn_gated": "n", "vocab": "51200", "seq": "2048", "gpu": "A100-80GB",
    "gpus": "8", "gpus_per_node": "8", "intra_link": "NVLink3/NVSwitch 600GB/s", "inter_link": "none", "tp": "8",
    "pp": "1", "vpp": "1", "cp": "1", "ep": "1", "dp": "1", "seq_parallel": "n", "shard": "none", "micro_batch": "4",
    "grad_accum": "2", "global_batch": "8", "recompute": "full", "precision": "fp16", "flash_attn": "n",
    "framework": "Megatron-LM (2021)", "overlap_notes": "", "step_s": "1.0", "implied_step_s": "", "samples_s": "",
    "tokens_s_gpu": "", "peak_mem_gb": "", "notes": "", "tier": "A",
}  # fmt: skip
"""A complete row: a small GPT on one machine."""


def write_table(path: Path, rows: Sequence[Mapping[str, str]]) -> Path:
    """Write rows, each what differs from `ROW`."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*ROW, *(column for row in rows[:1] for column in row if column not in ROW)])
        writer.writeheader()
        writer.writerows(ROW | row for row in rows)
    return path
