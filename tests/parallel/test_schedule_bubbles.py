"""With free communication: bubbles and live activations have the papers' closed forms."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from simgpu.parallel.schedules import build_schedule
from tests.parallel.list_scheduler import run

times = st.integers(1, 9)
ranks = st.integers(1, 8)


def played(name, p, v, m, *durations, pair=None):
    result = run(build_schedule(name, ranks=p, virtual=v, microbatches=m), *durations, pair=pair)
    assert result.done
    return result


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["gpipe", "1f1b"]), ranks, st.integers(1, 24), times, times, times)
def test_gpipe_and_1f1b(name, p, m, f, i, w):
    assert played(name, p, 1, m, f, i, w).bubble == (p - 1) * (f + i + w)


@settings(max_examples=60, deadline=None)
@given(ranks, st.integers(1, 4), st.integers(1, 4), times, times, times)
def test_interleaved_in_groups_of_p(p, v, rounds, f, i, w):
    # f, i, w are a chunk's: a rank's own F and B are v times that, so (p-1)(F+B)/v is (p-1)(f+i+w).
    assert played("interleaved_1f1b", p, v, rounds * p, f, i, w).bubble == (p - 1) * (f + i + w)


@settings(max_examples=60, deadline=None)
@given(ranks, st.integers(1, 4), st.integers(0, 12), times, times, times)
def test_looped_bfs(p, v, more, f, i, w):
    assert played("looped_bfs", p, v, p + more, f, i, w).bubble == (p - 1) * (f + i + w)


@settings(max_examples=60, deadline=None)
@given(ranks, st.integers(0, 16), times, times, times)
def test_zbh1(p, more, f, i, w):
    assume(w <= f)
    result = played("zbh1", p, 1, p + more, f, i, w)
    assert result.bubble == (p - 1) * (f + i - w)
    assert max(result.peak_live) == p


@settings(max_examples=60, deadline=None)
@given(ranks, st.integers(1, 24), times, times, times)
def test_zbh2(p, m, f, i, w):
    """The last rank has at most m - 1 weight gradients to put before its last input gradient."""
    assume(w <= f)
    assume(w <= i)
    result = played("zbh2", p, 1, m, f, i, w)
    assert result.bubble == (p - 1) * (f + i) - min(2 * (p - 1), m - 1) * w
    assert max(result.peak_live) == min(2 * p - 1, m)


@pytest.mark.parametrize("p", range(1, 17))
def test_zbh2_has_no_bubble_from_as_many_microbatches_as_its_warm_up(p):
    """With F = I = W the published bubble, 0, needs 2 p - 1 microbatches, and not just p of them.

    Rank 0 warms up with 2 p - 1 forwards (arXiv 2401.10241, section 2.2). Its first input gradient has to wait for p
    forwards and p - 1 input gradients of the ranks on its way, 2 p - 1 of time, in which it has nothing but m forwards
    to do: no schedule idles less than 2 p - 1 - m.
    """
    for m in (p, (3 * p - 1) // 2, 2 * p - 1, 2 * p, 64):
        result = played("zbh2", p, 1, m, 1, 1, 1)
        assert result.bubble == max(0, 2 * p - 1 - m)


@settings(max_examples=40, deadline=None)
@given(ranks, st.integers(0, 16), times)
def test_zbv(p, more, one):
    result = played("zbv", p, 2, 2 * p - 1 + more, one, one, one)
    assert result.bubble == 0
    assert result.peak_live == [2 * p] * p  # chunks, half a stage each


def dual_bubble(result):
    """Idle time of the worst rank in the whole step: overlapped pairs differ in number from rank to rank."""
    return max(result.ends) - min(result.busy)


@settings(max_examples=40, deadline=None)
@given(ranks, st.integers(0, 12), times, times, st.data())
def test_dualpipev(p, more, f, w, data):
    assume(w <= f)  # with F = I, as the published form needs
    pair = data.draw(st.integers(f + w, 2 * f + w))
    result = played("dualpipev", p, 2, 2 * p + more, f, f, w, pair=pair)
    assert dual_bubble(result) == (p - 1) * (pair + (f + w) - 3 * w)
    assert max(result.peak_live) == 2 * p + 1


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(0, 6), times, times, st.data())
def test_dualpipe(half, more, f, w, data):
    assume(w <= f)
    pair = data.draw(st.integers(f + w, 2 * f + w))
    p, m = 2 * half, 4 * half + 2 * more
    result = played("dualpipe", p, 2, m, f, f, w, pair=pair)
    assert dual_bubble(result) == (p // 2 - 1) * (pair + (f + w) - 3 * w)
    assert max(result.peak_live) == p + 1


@settings(max_examples=80, deadline=None)
@given(ranks, st.integers(1, 4), st.integers(1, 24))
def test_live_activations_of_the_others(p, v, m):
    assert played("gpipe", p, 1, m, 1, 1, 1).peak_live == [m] * p
    assert played("1f1b", p, 1, m, 1, 1, 1).peak_live == [min(m, p - r) for r in range(p)]
    assert played("looped_bfs", p, v, m, 1, 1, 1).peak_live == [m * v] * p
    whole = m * p
    warm_up = [min(2 * (p - 1 - r) + (v - 1) * p, whole * v) for r in range(p)]
    assert played("interleaved_1f1b", p, v, whole, 1, 1, 1).peak_live == [min(w + 1, whole * v) for w in warm_up]


@pytest.mark.parametrize(
    ("name", "p", "v", "m", "durations", "bubble", "peak"),
    [
        ("interleaved_1f1b", 4, 2, 10, (1, 1, 1), 9, 12),
        ("interleaved_zero_bubble", 4, 2, 8, (1, 1, 1), 3, 8),
        ("interleaved_zero_bubble", 4, 2, 12, (2, 2, 1), 9, 8),
        ("zbv", 4, 2, 4, (1, 1, 1), 6, 8),
        ("zbv", 4, 2, 8, (2, 3, 2), 6, 8),
        ("hanayo", 4, 2, 4, (1, 1, 1), 12, 8),
        ("hanayo", 4, 2, 8, (1, 1, 1), 17, 11),
        ("hanayo", 4, 4, 4, (1, 1, 1), 13, 16),
        ("hanayo", 4, 4, 8, (1, 1, 1), 26, 19),
        ("hanayo", 8, 4, 8, (1, 1, 1), 30, 32),
    ],
)
def test_bubbles_without_a_closed_form(name, p, v, m, durations, bubble, peak):
    result = played(name, p, v, m, *durations)
    assert (result.bubble, max(result.peak_live)) == (bubble, peak)


def test_hanayo_lets_a_microbatch_in_while_the_first_rank_holds_less_than_a_rank_of_1f1b():
    """P v stage activations, 8 here; a wave that is in does not stop, so the others come to hold more."""
    assert played("hanayo", 4, 2, 16, 1, 1, 1).peak_live == [8, 11, 12, 14]
