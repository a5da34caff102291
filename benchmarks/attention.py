"""Predicted against measured times of attention, by device, kernel and pass.

    python benchmarks/attention.py [FOLDER]

FOLDER (default ../shared/truth) holds ``attention_tflops.csv`` and ``op_efficiency_sdp.csv``; ``attention_times.csv``
beside this file has times of a third source. Errors are of times: mean absolute (MAPE) and mean (bias, positive when
predictions are too slow). Rows that constants of ``data/attention_constants.csv``, ``costs/attention.py`` or
``costs/memory_bound.py`` were fitted to are summed up apart from those held out. Unfused attention is what
``workload/attention_core.py`` emits for the software of the figures' PyTorch: scale in the product, mask and softmax
in half precision.
"""

import csv
import sys
from dataclasses import replace
from pathlib import Path

from targets import bounded, verdict

from simgpu.costs.constants import device_rows
from simgpu.dtypes import DType
from simgpu.hardware.gpu import gpu
from simgpu.metrics.mean_errors import mean_errors
from simgpu.metrics.op_errors import MeasuredOps, price_op_table
from simgpu.workload.attention_block import attention_core
from simgpu.workload.attention_core import core_piece
from simgpu.workload.inline import model_from_fields
from simgpu.workload.op import Attention
from simgpu.workload.shard import Shard
from simgpu.workload.software import PRESETS
from simgpu.workload.training import Training

HERE = Path(__file__).parent
TARGET = 9
WORST = 12
GPUS = {
    "A100-80GB SXM": "A100-SXM4-80GB",
    "H100-80GB SXM5": "H100-SXM5-80GB",
    "A100-80GB-PCIe": "A100-PCIe-80GB",
    "B200-SXM": "B200-SXM-180GB",
}
UNFUSED = "unfused"
KERNELS = {
    "FlashAttention": "flash-1",
    "FlashAttention-2": "flash-2",
    "FlashAttention-3": "flash-3",
    "FlashAttention Triton": "triton-2023",
    "Triton": "triton",
    "cuDNN": "cudnn",
    "xformers": "memory-efficient",
    "PyTorch": UNFUSED,
    "Standard": UNFUSED,
}
PYTORCH = replace(PRESETS["eager"], softmax="half")
FITTED_SEQUENCES = (512, 2048, 8192)
TOKENS, HIDDEN = 16384, 2048  # of every point of the FlashAttention figures
LONE_HEADS = 4  # of SimuMax's rows whose tiles do not fill the device
FITTED, HELD_OUT = "fitted", "held out"


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def figures(folder):
    """Points of the FlashAttention figures; backward is in the sum of both passes only."""
    for row in read(folder / "attention_tflops.csv"):
        if not row["tflops"]:
            continue
        kernel, sequence, width = KERNELS[row["impl"]], int(row["seq"]), int(row["head_dim"])
        core, piece = in_pytorch(sequence, width, causal=row["causal"] == "y")
        forward = (replace(core, kernel=kernel),)
        backward = (replace(core, kernel=kernel, backward=True),)
        flops = sum(op.flops for op in (forward if row["pass"] == "fwd" else forward + backward))
        if kernel == UNFUSED:
            forward, backward = piece.forward, piece.backward
        ops = forward if row["pass"] == "fwd" else forward + backward
        mask = "causal" if core.causal else "full"
        case, time_ns = (kernel, row["pass"], mask, width), flops / float(row["tflops"]) / 1e3
        yield measured(row["id"], GPUS[row["gpu"]], ops, time_ns, case, fitted=sequence in FITTED_SEQUENCES)


def in_pytorch(sequence, width, *, causal):
    """The figures' attention as one flash kernel, and what a block emits without flash attention."""
    fields = {"layers": 1, "hidden": HIDDEN, "heads": HIDDEN // width, "ffn": 4 * HIDDEN, "vocab": 1024}
    training = Training(
        sequence_length=sequence, micro_batch_size=TOKENS // sequence, accumulation=1, precision=DType.FP16
    )
    model = model_from_fields(fields, "figure")
    shard = Shard(model=model, tp=1, sequence_parallel=False, software=PYTORCH, training=training)
    core = replace(attention_core(shard), causal=causal)
    return core, core_piece(shard, core)


def efficiencies(folder):
    """Rates of MooreThreads/SimuMax: causal kernels whose FLOPs are counted in full.

    Fitted: B200's rates at 4096 tokens; on A100, whose rates are those of the figures, heads that are wider than there
    and the last row of tiles of a kernel that does not fill the device.
    """
    for number, row in enumerate(read(folder / "op_efficiency_sdp.csv"), 2):
        width, value = int(row["qk_head_dim"]), int(row["v_head_dim"])
        op = Attention(
            name="x", batch=int(row["batch"]), sequence=int(row["seq_len"]), heads=int(row["head_num"]),
            kv_heads=int(row["kv_head_num"]), head_dim=width, value_dim=None if value == width else value,
            backward=row["op"] == "sdp_bwd",
        )  # fmt: skip
        time_ns = 2 * op.flops / (float(row["peak_tflops"]) * float(row["efficiency"])) / 1e3
        device = GPUS[row["gpu"]]
        lone = op.heads == LONE_HEADS and not op.backward
        fitted = op.sequence == 4096 and (device.startswith("B200") or op.value_dim is not None or lone)
        case = ("default", row["op"].removeprefix("sdp_"), "causal", f"{width}/{value}")
        yield measured(f"op_efficiency_sdp {number}", device, (op,), time_ns, case, fitted=fitted)


def context(path):
    """Forward times of ai-dynamo/aiconfigurator, causal, keys and values in pages."""
    for number, row in enumerate(read(path), 2):
        sizes = {name: int(row[name]) for name in ("batch", "sequence", "heads", "kv_heads", "head_dim")}
        op = Attention(name="x", kernel=row["kernel"], **sizes)
        case, time_ns = (row["kernel"], "fwd", "causal, AIC", op.head_dim), float(row["time_ms"]) * 1e6
        fitted = op.sequence in FITTED_SEQUENCES
        yield measured(f"{path.stem} {number}", row["gpu"], (op,), time_ns, case, fitted=fitted)


def measured(name, device, ops, time_ns, case, *, fitted):
    group = "|".join(str(part) for part in (FITTED if fitted else HELD_OUT, *case))
    return MeasuredOps(id=name, gpu=gpu(device), group=group, ops=ops, time_ns=time_ns)


def line(name, rows):
    n, mape, bias = mean_errors(rows)
    return f"{name:66} n {n:4}  MAPE {100 * mape:5.1f} %  bias {100 * bias:+6.1f} %"


def evaluate(folder):
    """Price every row."""
    rows = [*figures(folder), *efficiencies(folder), *context(HERE / "attention_times.csv")]
    return price_op_table(rows).priced


def kind(one):
    return UNFUSED if one.measured.group.split("|")[1] == UNFUSED else "fused"


def standing(one):
    """Whether all constants of a row's kernel were measured on its device: rate, bandwidth and, backward, its share."""
    gpu, flags = one.measured.gpu, [one.measured.gpu.rate_flag, one.measured.gpu.hbm_flag]
    for op in one.measured.ops:
        if isinstance(op, Attention):
            rows = device_rows("attention", gpu)
            row = next((row for row in rows if row["kernel"] == op.kernel), rows[0])
            flags += [row["flag"], row["backward_flag"] if op.backward else "M"]
    return "on measured constants" if set(flags) == {"M"} else "on scaled or assumed constants"


def main(folder):
    priced = evaluate(folder)
    grouped, totals = {}, {}
    for one in priced:
        status, kernel, *case = one.measured.group.split("|")
        grouped.setdefault((one.measured.gpu.name, kernel, *case, status), []).append(one)
        keys = ((one.measured.gpu.name, case[0]), (one.measured.gpu.name, "all passes"), ("all", status), ("all",))
        for key in (*keys, ("all", standing(one))):
            totals.setdefault((kind(one), *key), []).append(one)
    for key, rows in sorted(grouped.items()):
        print(line("  ".join(key), rows))
    print(f"\nworst {WORST}")
    for one in sorted(priced, key=lambda one: -abs(one.error))[:WORST]:
        at = one.measured
        print(
            f"  {at.gpu.name:15} {at.group:38} {at.id:34} measured {at.time_ns / 1e3:9.1f} us"
            f"  predicted {one.time_ns / 1e3:9.1f} us  {100 * one.error:+6.1f} %"
        )
    print(f"\ntarget: MAPE <= {TARGET} %")
    for key, rows in sorted(totals.items()):
        print(f"{verdict(bounded(rows, mape=TARGET / 100))}  {line('  '.join(key), rows)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent.parent / "shared" / "truth")
