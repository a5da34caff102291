"""The documentation builds without a warning: links lead somewhere, pages are listed, docstrings read."""

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

for needed in ("sphinx", "myst_parser", "furo"):
    pytest.importorskip(needed, reason=f"{needed} is not installed")

ROOT = Path(__file__).parents[2]
DRAWN = "pipeline_ideal"  # one picture shows that pictures are made


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build a copy, since a build writes pages beside the sources."""
    root = tmp_path_factory.mktemp("site")
    for path in ROOT.iterdir():
        if path.suffix == ".md" or path.name in ("simgpu", "scenarios", "scripts"):
            (root / path.name).symlink_to(path)
    shutil.copytree(ROOT / "docs", root / "docs", ignore=shutil.ignore_patterns("api", "gallery", "build", "*.pyc"))
    draws = find_spec("kaleido") is not None and shutil.which("chromium") is not None
    pictures = DRAWN if draws else "none"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-D", f"gallery_pictures={pictures}"]
    result = subprocess.run(
        [*command, str(root / "docs"), str(root / "out")], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return root / "out", draws


def test_every_page_is_there(site):
    out, _ = site
    sources = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")]
    pages = [path for path in sources if path.parts[0] not in ("api", "gallery", "build")]
    assert len(pages) > 50
    assert [str(path) for path in pages if not (out / path).exists()] == []


def test_the_gallery_has_every_scenario_and_its_picture(site):
    out, draws = site
    names = sorted(path.stem for path in (ROOT / "scenarios").glob("*.yaml"))
    assert sorted(path.stem for path in (out / "gallery").glob("*.html")) == names
    front = (out / "gallery.html").read_text(encoding="utf-8")
    assert all(f'href="gallery/{name}.html"' in front for name in names)
    if draws:
        assert "pipeline_ideal.png" in front
        page = (out / "gallery" / f"{DRAWN}.html").read_text(encoding="utf-8")
        assert f'href="reports/{DRAWN}.html"' in page
        assert (out / "gallery" / "reports" / f"{DRAWN}.html").stat().st_size > 1_000_000


def test_public_names_have_their_pages(site):
    import simgpu

    out, _ = site
    assert sorted(path.stem for path in (out / "api").glob("*.html")) == sorted(f"simgpu.{n}" for n in simgpu.__all__)
    gantt = (out / "api" / "simgpu.gantt.html").read_text(encoding="utf-8")
    assert "Draw the timelines of several runs" in gantt
    assert "Parameters" in gantt


def test_the_front_page_is_the_readme_in_both_languages(site):
    out, _ = site
    assert "Your own question" in (out / "index.html").read_text(encoding="utf-8")
    assert 'href="chinese.html"' in (out / "index.html").read_text(encoding="utf-8")
    assert "换成你自己的问题" in (out / "chinese.html").read_text(encoding="utf-8")
