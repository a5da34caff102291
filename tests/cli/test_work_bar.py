"""Off a terminal a long list of runs says now and then how far it is."""

from __future__ import annotations

import pytest

from simgpu.cli import work_bar


def test_a_line_every_ten_seconds_and_none_for_short_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    bar = work_bar.WorkBar("runs")
    bar.start(1200)
    for _ in range(40):  # four runs a second: ten seconds
        now_s += 0.25
        bar.advance()
    assert capsys.readouterr().err == "40 of 1,200 runs after 10 s, about 290 s left\n"
    for _ in range(39):
        now_s += 0.25
        bar.advance()
    bar.expect(321)
    assert not capsys.readouterr().err
    now_s += 0.25
    bar.advance()
    assert capsys.readouterr().err == "80 of 400 runs after 20 s, about 80 s left\n"
    bar.close()
