"""Predicted against measured times of transformer layers.

    python benchmarks/layer_times.py [FOLDER]

FOLDER (default ../shared/truth) holds ``layer_times.csv``. The 22B rows (arXiv 2205.05198, table 4) are one layer on
eight A100 with tensor parallelism; it is played in the middle of three, forward from one first norm to the next and
backward from one last gradient to the next, with its communication and what that takes from the kernels beside it.
The Hetu-Galvatron rows are forward times of a llama2-7b layer on a device that is not named: they are compared with
an A100-SXM4-80GB and count for nothing.
"""

import csv
import sys
import tempfile
from pathlib import Path

from simgpu.api import play_case
from simgpu.config import load_scenario
from simgpu.program import Compute

HERE = Path(__file__).parent
TARGET = 3
SCENARIO = """
name: three layers
model:
  {{layers: 3, hidden: {hidden}, heads: {heads}, vocab: {vocab}, {model}}}
cluster: {{topology: dgx-a100, gpus: {tp}}}
software: {software}
training:
  {{sequence_length: {seq}, micro_batch_size: {micro_batch}, global_batch_size: {micro_batch}, precision: {precision},
   recompute: {recompute}}}
parallel: {{tp: {tp}, sequence_parallel: {sequence_parallel}}}
"""
GPT = (
    "mlp: gelu, norm: layernorm, positions: learned, max_positions: 2048, qkv_bias: true, output_bias: true,"
    " mlp_bias: true"
)
LLAMA = "ffn: 11008"
FIRST_FORWARD, LAST_BACKWARD, HEAD = "norm1", "attention.residual_gradient", "head"


def read(folder):
    with (Path(folder) / "layer_times.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def kernels(timeline):
    """Name, start and end of every kernel of rank 0 in the reported step, nanoseconds."""
    begin, end = timeline.window_ns
    spans, stream = timeline.spans, timeline.streams.index("compute")
    for row in timeline.rows(0, "compute"):
        work, start = timeline.instruction(row), int(spans.start_ns[row])
        if not isinstance(work, Compute) or not begin <= start < end:
            continue
        key = (0, stream, int(spans.instruction[row]), int(spans.step[row]))
        ends, at = timeline.kernel_ends_ns.get(key), 0
        for position, kernel in enumerate(work.kernels):
            last = ends[position] if ends else at + kernel.duration_ns
            yield kernel.name, start + at, start + last
            at = last


def layer_ns(row):
    """Forward and backward of the middle layer, nanoseconds."""
    large = row["model"].startswith("GPT")
    text = SCENARIO.format(
        **{name: row[name] for name in ("hidden", "heads", "vocab", "tp", "seq", "micro_batch", "precision")},
        model=GPT if large else LLAMA,
        software="megatron-2022" if large else "flash",
        recompute=row["recompute"].split()[0],
        sequence_parallel="true" if row["seq_parallel"] == "y" else "false",
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layer.yaml"
        path.write_text(text, encoding="utf-8")
        case = load_scenario(path).cases[0]
    played = list(kernels(play_case(case)))
    turn = next(position for position, (name, *_) in enumerate(played) if name == HEAD)
    first = [start for name, start, _ in played[:turn] if name == FIRST_FORWARD]
    last = [end for name, _, end in played[turn:] if name == LAST_BACKWARD]
    return first[2] - first[1], last[1] - last[0]


def compare(row, name, measured_ms, predicted_ns):
    error = predicted_ns / 1e6 / measured_ms - 1
    sequence = "sequence parallel" if row["seq_parallel"] == "y" else ""
    print(
        f"{row['id']:16} {name:9} {row['recompute']:26} {sequence:18} measured {measured_ms:6.2f} ms"
        f"  predicted {predicted_ns / 1e6:6.2f} ms  {100 * error:+5.1f} %"
    )
    return error


def evaluate(folder):
    """Errors of the rows whose device is named."""
    errors = []
    rows = read(folder)
    for row in rows:
        if row["id"].startswith("kort22-T4"):
            forward_ns, backward_ns = layer_ns(row)
            errors.append(compare(row, "forward", float(row["fwd_ms"]), forward_ns))
            errors.append(compare(row, "backward", float(row["bwd_ms"]), backward_ns))
            errors.append(compare(row, "both", float(row["total_ms"]), forward_ns + backward_ns))
    print("\ndevice not named, taken as A100-SXM4-80GB")
    for row in rows:
        if row["id"].startswith("galv-layer"):
            samples = int(row["micro_batch"])
            compare(row, "forward", float(row["fwd_ms"]) * samples, layer_ns(row)[0])
    return errors


def main(folder):
    errors = evaluate(folder)
    mape, bias = (100 * sum(values) / len(errors) for values in (map(abs, errors), errors))
    summary = f"n {len(errors)}  MAPE {mape:.1f} %  bias {bias:+.1f} %  largest {100 * max(map(abs, errors)):.1f} %"
    print(f"\n22B layer (target {TARGET} %)  {summary}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else HERE.parent.parent / "shared" / "truth")
