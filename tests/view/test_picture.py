"""Pictures through kaleido: clear words where it, or a browser, is missing."""

import os

import pytest

import simgpu
from simgpu.cli.destination import Destination, DestinationError
from simgpu.cli.pictures import picture_paths
from simgpu.view import picture

NOWHERE = Destination(html=None, json=None, json_to_stdout=False)


def test_without_the_extra(monkeypatch, tmp_path):
    monkeypatch.setattr(picture, "find_spec", lambda _: None)
    with pytest.raises(
        picture.PictureError, match=r"--png: kaleido is not installed; fix: pip install 'simgpu\[static\]'"
    ):
        picture_paths(str(tmp_path / "x.png"), None, NOWHERE)


def test_two_options_name_one_file(tmp_path):
    pytest.importorskip("kaleido")
    path = str(tmp_path / "x")
    with pytest.raises(DestinationError, match="--svg"):
        picture_paths(path, path, NOWHERE)


def test_without_a_browser(monkeypatch):
    pytest.importorskip("kaleido")
    monkeypatch.setitem(os.environ, "BROWSER_PATH", "/nonexistent/chromium")
    with pytest.raises(
        picture.PictureError, match="finds no Chrome or Chromium; fix: install one, or set BROWSER_PATH"
    ):
        picture.timeline_picture(simgpu.run("pipeline_ideal")[:1], "png")


@pytest.mark.browser
@pytest.mark.parametrize(("kind", "begins"), [("png", b"\x89PNG"), ("svg", b"<svg")])
def test_pictures(kind, begins):
    pytest.importorskip("kaleido")
    assert picture.timeline_picture(simgpu.run("pipeline_ideal")[:1], kind).startswith(begins)
