"""Holistic Trace Analysis as an independent oracle."""

import json
import subprocess
import sys

import pytest

from simgpu.io.kineto import write_kineto
from simgpu.metrics.intervals import intersection, length, union
from tests.traces.test_export import CASES, played

pytest.importorskip("hta", reason="traceinsight is not installed")

# A process of its own: HTA reads its switch at import, and warns about its own dependencies.
SCRIPT = """
import json, os, sys
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_dir=sys.argv[1])
time = analysis.get_temporal_breakdown(visualize=False).set_index("rank")
overlap = analysis.get_comm_comp_overlap(visualize=False).set_index("rank")
print(json.dumps({"compute": time["compute_time(us)"].to_dict(), "other": time["non_compute_time(us)"].to_dict(),
                  "overlap": overlap["comp_comm_overlap_pctg"].to_dict()}))
"""


@pytest.mark.parametrize(("scenario", "name"), CASES)
def test_hta_agrees(scenario, name, tmp_path):
    timeline, report = played(scenario, name)
    write_kineto(tmp_path, timeline)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    for rank in report.ranks:
        busy = union((b.start_ns, b.end_ns) for b in rank.bars if b.kind == "compute")
        moving = union((b.start_ns, b.end_ns) for b in rank.bars if b.kind == "transfer")
        talking = union((b.start_ns, b.end_ns) for b in rank.bars if b.kind == "transfer" and b.bytes)
        hidden = length(intersection(talking, busy)) / length(talking)
        key = str(rank.rank)
        assert found["compute"][key] * 1000 == pytest.approx(length(busy), rel=1e-3)
        assert found["other"][key] * 1000 == pytest.approx(
            length(moving) - length(intersection(moving, busy)), rel=1e-3
        )
        assert found["overlap"][key] / 100 == pytest.approx(hidden, abs=1e-3)
    if len({rank.stages for rank in report.ranks}) == 1:  # in a pipeline a send may move within a bubble
        exposed = sum(value for key, value in report.breakdown_ns.items() if key.startswith("exposed."))
        assert found["other"]["0"] * 1000 == pytest.approx(exposed, rel=1e-3)
        assert found["overlap"]["0"] / 100 == pytest.approx(report.overlap_ratio, abs=1e-3)
