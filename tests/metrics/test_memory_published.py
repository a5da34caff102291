"""Memory against what was measured: benchmarks/memory.py within the targets of the project.

``published_memory`` has one row of each kind, figures with their source; the whole tables where they are at hand.
"""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRUTH = ROOT.parent / "shared" / "truth"
FOLDERS = [
    pytest.param(Path(__file__).parent / "published_memory", id="bundled"),
    pytest.param(TRUTH, id="whole", marks=pytest.mark.skipif(not TRUTH.is_dir(), reason="the tables are not here")),
]


def benchmark():
    spec = importlib.util.spec_from_file_location("benchmark_memory", ROOT / "benchmarks" / "memory.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


memory = benchmark()


@pytest.fixture(scope="module", params=FOLDERS)
def profiles(request):
    return memory.profiles(request.param)


@pytest.mark.parametrize("folder", FOLDERS)
def test_megatron_on_b200_within_three_percent_and_never_six_below(folder):
    rows = memory.b200(folder)
    assert memory.mean_error(rows) < memory.B200_TARGET
    assert memory.worst_under(rows) < memory.UNDER_TARGET


def test_profiled_states_within_five_percent_and_never_six_below(profiles):
    states, _ = profiles
    assert memory.mean_error(states) < memory.PROFILE_TARGET
    assert memory.worst_under(states) < memory.UNDER_TARGET


def test_profiled_peaks_within_five_percent_and_never_six_below(profiles):
    _, peaks = profiles
    assert memory.mean_error(peaks) < memory.PROFILE_TARGET
    assert memory.worst_under(peaks) < memory.UNDER_TARGET


def test_full_recomputation_is_among_them(profiles):
    """What a re-entrant checkpoint holds: the rows that were 16 to 18 % too low without it."""
    recomputed = [row for row in profiles[1] if "_c_" in row[0]]
    assert recomputed
    assert memory.worst_under(recomputed) < memory.UNDER_TARGET
