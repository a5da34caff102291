"""Predicted against measured times of attention kernels, by device, kernel and pass.

    python benchmarks/attention.py [FOLDER]

FOLDER (default ../shared/truth) holds ``attention_tflops.csv`` and ``op_efficiency_sdp.csv``; ``attention_times.csv``
beside this file has times of a third source. Errors are of times: mean absolute (MAPE) and mean (bias, positive when
predictions are too slow). Rows that the constants of ``data/attention_constants.csv`` were fitted to are summed up
apart from those held out. Unfused attention is priced as two batched GEMMs with a softmax between them.
"""

import csv
import sys
from dataclasses import replace
from pathlib import Path

from simgpu.hardware.gpu import gpu
from simgpu.metrics.mean_errors import mean_errors
from simgpu.metrics.op_errors import MeasuredOps, price_op_table
from simgpu.workload.op import Attention, Gemm, MemoryBound

HERE = Path(__file__).parent
TARGET = 9
WORST = 12
GPUS = {
    "A100-80GB SXM": "A100-SXM4-80GB",
    "H100-80GB SXM5": "H100-SXM5-80GB",
    "A100-80GB-PCIe": "A100-PCIe-80GB",
    "B200-SXM": "B200-SXM-180GB",
}
KERNELS = {
    "FlashAttention": "flash-1",
    "FlashAttention-2": "flash-2",
    "FlashAttention-3": "flash-3",
    "FlashAttention Triton": "triton",
    "Triton": "triton",
    "cuDNN": "cudnn",
    "xformers": "memory-efficient",
    "PyTorch": "unfused",
    "Standard": "unfused",
}
FITTED_SEQUENCES = (512, 2048, 8192)
TOKENS, HIDDEN = 16384, 2048  # of every point of the FlashAttention figures
FITTED, HELD_OUT = "fitted", "held out"


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def figures(folder):
    """Points of the FlashAttention figures; backward is in the sum of both passes only."""
    for row in read(folder / "attention_tflops.csv"):
        kernel = KERNELS[row["impl"]]
        sequence, width = int(row["seq"]), int(row["head_dim"])
        if not row["tflops"]:
            continue
        heads, batch = HIDDEN // width, TOKENS // sequence
        forward = Attention(
            name=row["id"], batch=batch, sequence=sequence, heads=heads, kv_heads=heads, head_dim=width,
            causal=row["causal"] == "y", kernel=kernel,
        )  # fmt: skip
        ops = (forward,) if row["pass"] == "fwd" else (forward, replace(forward, backward=True))
        time_ns = sum(op.flops for op in ops) / float(row["tflops"]) / 1e3
        if kernel == "unfused":
            ops = tuple(part for op in ops for part in unfused(op))
        fitted = kernel != "unfused" and sequence in FITTED_SEQUENCES
        mask = "causal" if forward.causal else "full"
        yield measured(row["id"], GPUS[row["gpu"]], ops, time_ns, (kernel, row["pass"], mask, width), fitted=fitted)


def efficiencies(folder):
    """Rates of MooreThreads/SimuMax: causal kernels whose FLOPs are counted in full."""
    for number, row in enumerate(read(folder / "op_efficiency_sdp.csv"), 2):
        width, value = int(row["qk_head_dim"]), int(row["v_head_dim"])
        op = Attention(
            name="x", batch=int(row["batch"]), sequence=int(row["seq_len"]), heads=int(row["head_num"]),
            kv_heads=int(row["kv_head_num"]), head_dim=width, value_dim=None if value == width else value,
            backward=row["op"] == "sdp_bwd",
        )  # fmt: skip
        time_ns = 2 * op.flops / (float(row["peak_tflops"]) * float(row["efficiency"])) / 1e3
        device = GPUS[row["gpu"]]
        fitted = op.sequence == 4096 if device.startswith("B200") else op.backward and op.value_dim is not None
        case = ("default", row["op"].removeprefix("sdp_"), "causal", f"{width}/{value}")
        yield measured(f"op_efficiency_sdp {number}", device, (op,), time_ns, case, fitted=fitted)


def context(path):
    """Forward times of ai-dynamo/aiconfigurator, causal; the rates of heads 256 wide were fitted to them."""
    for number, row in enumerate(read(path), 2):
        sizes = {name: int(row[name]) for name in ("batch", "sequence", "heads", "kv_heads", "head_dim")}
        op = Attention(name="x", kernel=row["kernel"], **sizes)
        case = (row["kernel"], "fwd", "causal, AIC", op.head_dim)
        yield measured(
            f"{path.stem} {number}", row["gpu"], (op,), float(row["time_ms"]) * 1e6, case, fitted=op.head_dim == 256
        )


def measured(name, device, ops, time_ns, case, *, fitted):
    group = "|".join(str(part) for part in (FITTED if fitted else HELD_OUT, *case))
    return MeasuredOps(id=name, gpu=gpu(device), group=group, ops=ops, time_ns=time_ns)


def unfused(op):
    """Two products with a softmax between them; the mask is added to the scores; backward four products."""
    count = op.batch * op.heads
    scores = 2 * count * op.sequence**2

    def product(n, k, layout):
        return Gemm(name="x", m=op.sequence, n=n, k=k, batch=count, dtype=op.dtype, layout=layout)

    wide = (op.sequence, op.head_dim)
    if op.backward:
        softmax = MemoryBound(name="x", bytes=3 * scores, pattern="softmax")
        narrow = (op.head_dim, op.sequence)
        return product(*wide, "tn"), product(*narrow, "nt"), softmax, product(*narrow, "nn"), product(*narrow, "nt")
    softmax = MemoryBound(name="x", bytes=2 * scores, pattern="softmax")
    mask = (MemoryBound(name="x", bytes=2 * scores),) if op.causal else ()
    return product(*wide, "tn"), *mask, softmax, product(op.head_dim, op.sequence, "nn")


def line(name, rows):
    n, mape, bias = mean_errors(rows)
    return f"{name:66} n {n:4}  MAPE {100 * mape:5.1f} %  bias {100 * bias:+6.1f} %"


def evaluate(folder):
    """Price every row."""
    rows = [*figures(folder), *efficiencies(folder), *context(HERE / "attention_times.csv")]
    return price_op_table(rows).priced


def main(folder):
    priced = evaluate(folder)
    grouped, totals = {}, {}
    for one in priced:
        status, kernel, *case = one.measured.group.split("|")
        grouped.setdefault((one.measured.gpu.name, kernel, *case, status), []).append(one)
        if kernel != "unfused":
            totals.setdefault((one.measured.gpu.name, case[0]), []).append(one)
            totals.setdefault((one.measured.gpu.name, "all passes"), []).append(one)
            totals.setdefault(("all", status), []).append(one)
    for key, rows in sorted(grouped.items()):
        print(line("  ".join(key), rows))
    print(f"\nworst {WORST}, fused")
    fused = [one for one in priced if "unfused" not in one.measured.group]
    for one in sorted(fused, key=lambda one: -abs(one.error))[:WORST]:
        at, op = one.measured, one.measured.ops[-1]
        shape = f"b {op.batch} s {op.sequence} heads {op.heads}/{op.kv_heads} width {op.head_dim}"
        print(
            f"  {at.gpu.name:15} {at.group:34} {shape:42} measured {at.time_ns / 1e3:9.1f} us"
            f"  predicted {one.time_ns / 1e3:9.1f} us  {100 * one.error:+6.1f} %"
        )
    print(f"\nfused kernels (target {TARGET} %)")
    for key, rows in totals.items():
        print(line("  ".join(key), rows))
    print(line("all", fused))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent.parent / "shared" / "truth")
