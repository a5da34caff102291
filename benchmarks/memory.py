"""Predicted against measured memory.

    python benchmarks/memory.py [FOLDER]

FOLDER (default ../shared/truth) holds ``b200_step_time_memory.csv`` and ``memory_profiles.csv``.

The B200 rows are ``torch.cuda.max_memory_allocated`` of Megatron-LM core with Transformer Engine
(MooreThreads/SimuMax): the peak of the fullest rank, without CUDA context and communication buffers.

The profiles are those of PKU-DAIR/Hetu-Galvatron: what a rank holds after backward, gradients included, and how much
more at the peak of the step. ``zero_grad`` has dropped the gradients when the step begins, so part of that peak is
theirs. Every module, embedding, final norm and head included, is a unit of FSDP 1 with its default prefetch, with
states over all data-parallel ranks; a rank's sequences are one micro-batch; layers are Megatron's, of its time before
Transformer Engine, the loss runs in bf16 (``entropy_in_fp32`` off), and checkpoints are re-entrant (galvatron/core/
profiler.py, parallel.py and models/llama_hf). The sequence is 4096: so upstream names these rows, and so many
activations they hold (column ``seq`` says 2048). Rows without ``vtp`` at tp above 1 mix two layouts, blocks split over
tp and vocabulary layers not, which SimGPU does not simulate: their states, which are the same, are compared, and
their peaks are not.
"""

import csv
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from simgpu.api import play_case
from simgpu.config import load_cases
from simgpu.lower.gradients import GRADIENTS
from simgpu.metrics.memory import allowances, memory_use
from simgpu.program import Alloc
from simgpu.units import GIB, MIB

HERE = Path(__file__).parent
B200_TARGET, PROFILE_TARGET, UNDER_TARGET = 3, 5, 6  # percent
PROFILED_SEQUENCE = 4096
LLAMA_7B = {"hidden": 4096, "heads": 32, "kv_heads": 32, "ffn": 11008, "vocab": 32000}


DEEPSEEK = {  # deepseek-ai/DeepSeek-V2 and DeepSeek-V3, config.json
    "DeepSeek-V2": {
        "model_type": "deepseek_v2",
        "hidden_size": 5120,
        "intermediate_size": 12288,
        "moe_intermediate_size": 1536,
        "moe_layer_freq": 1,
        "n_routed_experts": 160,
        "n_shared_experts": 2,
        "num_experts_per_tok": 6,
        "num_attention_heads": 128,
        "num_key_value_heads": 128,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "vocab_size": 102400,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
    },
    "DeepSeek-V3": {
        "model_type": "deepseek_v3",
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "moe_layer_freq": 1,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "num_attention_heads": 128,
        "num_key_value_heads": 128,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "vocab_size": 129280,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
    },
}


def read(folder, name):
    with (Path(folder) / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def allocated(timeline, rank):
    """Peak bytes that the allocator hands out on a rank, and what it holds between steps."""
    use = memory_use(timeline, rank)
    resident = timeline.program.roles[timeline.program.ranks[rank].role].resident_bytes
    return allowances(use.at_peak_bytes).allocated_bytes, allowances(resident).allocated_bytes


def gradients_made(timeline, rank):
    """Bytes of the gradients that a step makes and drops."""
    role = timeline.program.roles[timeline.program.ranks[rank].role]
    made = (instruction for stream in role.streams.values() for instruction in stream if isinstance(instruction, Alloc))
    return sum(taken.bytes for taken in made if taken.category == GRADIENTS)


def b200_model(row, folder):
    """The model of a row: its sizes, or a Hugging Face config of DeepSeek with the layers cut to the row's."""
    sizes = {name: int(row[name]) for name in ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")}
    config = next((config for name, config in DEEPSEEK.items() if row["model"].startswith(name)), None)
    if config is None:
        return sizes
    path = Path(folder) / f"{row['id']}.json"
    path.write_text(json.dumps({**config, "num_hidden_layers": sizes["layers"], "first_k_dense_replace": 1}))
    return str(path)


def b200_case(row, folder):
    tp, pp, cp, ep, dp = (int(row[name]) for name in ("tp", "pp", "cp", "ep", "dp"))
    (case,) = load_cases(
        {
            "name": row["id"],
            "model": b200_model(row, folder),
            "cluster": {"topology": "hgx-b200", "gpus": int(row["gpus"])},
            "software": {"preset": "te", "host_issue_ns": 0},
            "network": "free",
            "training": {
                "sequence_length": int(row["seq"]),
                "micro_batch_size": int(row["micro_batch"]),
                "gradient_accumulation": int(row["grad_accum"]),
            },
            "parallel": {
                "tp": tp,
                "pp": pp,
                "cp": cp,
                "cp_comm_type": "a2a",
                "ep": ep,
                "data_parallel": "distributed_optimizer" if dp * cp > 1 else "none",
                "sequence_parallel": tp > 1,
            },
        }
    )
    return case


def profile_case(row):
    tp, pp, dp = (int(row[name]) for name in ("tp", "pp", "dp"))
    batch = int(row["global_batch"])
    fp32_states = {"param_dtype": "fp32", "grad_dtype": "fp32", "reduce_dtype": "bf16", "master_dtype": "none"}
    (case,) = load_cases(
        {
            "name": row["id"],
            "model": {"layers": int(row["layers"]), **LLAMA_7B},
            "cluster": {"topology": "dgx-a100", "gpus": 8},
            "software": {"preset": "flash", "host_issue_ns": 0},
            "training": {
                "sequence_length": PROFILED_SEQUENCE,
                "micro_batch_size": batch // dp,
                "global_batch_size": batch,
                "recompute": "full" if row["flags"].startswith("c_") else "none",
                **fp32_states,
            },
            "parallel": {
                "tp": tp,
                "pp": pp,
                "sequence_parallel": tp > 1,
                "data_parallel": "fsdp1",
            },
            "fsdp": {"wrap_embedding_and_head": True},
        }
    )
    return replace(case, software=replace(case.software, half_precision_loss=True, sequence_first=True))


def comparable(row):
    return int(row["tp"]) == 1 or "vtp" in row["flags"]


def percent(predicted, measured):
    return 100 * (predicted / measured - 1)


def b200(folder):
    """Id, predicted and measured GiB of every row."""
    rows = []
    with tempfile.TemporaryDirectory() as configs:
        for row in read(folder, "b200_step_time_memory.csv"):
            timeline = play_case(b200_case(row, configs))
            peak = max(allocated(timeline, rank)[0] for rank in range(len(timeline.program.ranks)))
            rows.append((row["id"], peak / GIB, float(row["peak_mem_gb"])))
    return rows


def profiles(folder):
    """States and peaks above them, predicted and measured, MiB."""
    states, peaks = [], []
    for row in read(folder, "memory_profiles.csv"):
        timeline = play_case(profile_case(row))
        rank = 0 if row["rank"] == "0" else len(timeline.program.ranks) - 1
        peak, held = allocated(timeline, rank)
        held += gradients_made(timeline, rank)
        states.append((row["id"], held / MIB, float(row["model_states_mb"])))
        if comparable(row):
            peaks.append((row["id"], (peak - held) / MIB, float(row["activation_peak_mb"])))
    return states, peaks


def mean_error(rows):
    return sum(abs(percent(predicted, measured)) for _, predicted, measured in rows) / len(rows)


def worst_under(rows):
    return -min(percent(predicted, measured) for _, predicted, measured in rows)


def show(title, rows, unit, target):
    print(f"\n{title}, {unit}\n{'row':50} {'predicted':>10} {'measured':>10} {'error':>8}")
    for name, predicted, measured in rows:
        print(f"{name:50} {predicted:10.2f} {measured:10.2f} {percent(predicted, measured):+7.1f} %")
    print(
        f"mean absolute error {mean_error(rows):.1f} % (target {target} %), largest under-estimate "
        f"{max(0.0, worst_under(rows)):.1f} % (target {UNDER_TARGET} %), {len(rows)} rows"
    )


def main(folder):
    show("B200, allocated at the peak", b200(folder), "GiB", B200_TARGET)
    states, peaks = profiles(folder)
    show("states between steps", states, "MiB", PROFILE_TARGET)
    show("peak above them", peaks, "MiB", PROFILE_TARGET)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else HERE.parent.parent / "shared" / "truth")
