"""The gallery: a page for each bundled scenario, with the picture and the report that SimGPU makes of it at build.

Needs the extra ``static`` and a Chromium. ``-D gallery_pictures=pipeline_ideal,zero_stages`` draws only those, and
``-D gallery_pictures=none`` none: pages are then without picture and report, which is enough to check links.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from itertools import takewhile
from logging import WARNING, getLogger
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging

import simgpu
from simgpu.cli.main import app as commands
from simgpu.errors import SimGPUError
from simgpu.io.scenario_yaml import to_scenario_yaml
from simgpu.view import heat_map, search_page, sweep_page
from simgpu.view.picture import picture

SCENARIOS = Path(__file__).parents[2] / "scenarios"
LOG = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_config_value("gallery_pictures", "all", "env")
    app.connect("builder-inited", write_pages)
    app.connect("source-read", list_pages)
    app.connect("build-finished", copy_reports)
    for chatty in ("kaleido", "choreographer"):
        getLogger(chatty).setLevel(WARNING)
    return {"parallel_read_safe": True}


def write_pages(app: Sphinx) -> None:
    """Write ``gallery/NAME.md`` for every scenario, and its picture and report beside it where they are wanted."""
    folder = Path(app.srcdir) / "gallery"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "reports").mkdir(parents=True)
    wanted = app.config.gallery_pictures
    for path in sorted(SCENARIOS.glob("*.yaml")):
        drawn = wanted == "all" or path.stem in wanted.split(",")
        if drawn:
            LOG.info("gallery: %s", path.stem)
            try:
                DRAW[kind(path)](path.stem, folder)
            except SimGPUError as error:
                raise ExtensionError(f"gallery: {path.stem}: {error}") from error
        (folder / path.name).with_suffix(".md").write_text(page(path, drawn=drawn), encoding="utf-8")


def list_pages(app: Sphinx, name: str, source: list[str]) -> None:
    """Show every page on the gallery's own: its title, its picture, and the question that it answers."""
    if name != "gallery":
        return
    for path in sorted(SCENARIOS.glob("*.yaml")):
        title, words, _ = parts(path)
        drawn = (Path(app.srcdir) / "gallery" / f"{path.stem}.png").exists()
        shown = f"[![{title}](gallery/{path.stem}.png)](gallery/{path.stem}.md)\n\n" if drawn else ""
        first = words.split("\n\n")[0]
        source[0] += f"\n\n## [{title}](gallery/{path.stem}.md)\n\n{first}\n\n{shown}"


def copy_reports(app: Sphinx, failed: Exception | None) -> None:
    """Put the reports beside the pages: they are pages of their own, not parts of one."""
    if failed is None and app.builder.format == "html":
        source, target = Path(app.srcdir) / "gallery" / "reports", Path(app.outdir) / "gallery" / "reports"
        shutil.copytree(source, target, dirs_exist_ok=True)


def kind(path: Path) -> str:
    """Return the command that plays a scenario."""
    blocks = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    return next((name for name in ("sweep", "search") if name in blocks), "run")


def parts(path: Path) -> tuple[str, str, str]:
    """Return a scenario's title, its first comment, and what follows that."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    head = list(takewhile(lambda line: line.startswith("#"), lines))
    words = "\n".join(line.removeprefix("#").strip() for line in head if "yaml-language-server" not in line)
    return YAML(typ="safe").load(text)["name"], words.strip(), "".join(lines[len(head) :])


def page(path: Path, *, drawn: bool) -> str:
    """Write a page: what the scenario teaches, as its first comment says, its picture, and the file."""
    title, words, text = parts(path)
    command = f"simgpu {kind(path)} {path.stem}"
    shown = (
        f"[![{title}]({path.stem}.png)](reports/{path.stem}.html)\n\n"
        f'<a href="reports/{path.stem}.html">The report, to zoom, point at and print</a>\n\n'
    )
    return f"# {title}\n\n{words}\n\n{shown if drawn else ''}```sh\n{command}\n```\n\n```yaml\n{text}```\n"


def draw_run(name: str, folder: Path) -> None:
    """Play the variants; the picture is their timeline."""
    report, timeline = folder / "reports" / f"{name}.html", folder / f"{name}.png"
    with redirect_stdout(StringIO()):
        commands(["run", name, "--html", str(report), "--png", str(timeline)], standalone_mode=False)


def draw_sweep(name: str, folder: Path) -> None:
    """Play the grid; the picture is its map of step times."""
    table = simgpu.sweep(name)
    (folder / f"{name}.png").write_bytes(picture(heat_map.spec(table, heat_map.time_quantity(table)), "png"))
    scenario = (SCENARIOS / f"{name}.yaml").read_text(encoding="utf-8")
    write(folder, name, sweep_page.sweep_page(table, scenarios=[(f"{name}.yaml", scenario)]))


def draw_search(name: str, folder: Path) -> None:
    """Find the fastest; the picture is where the steps of the fastest few go."""
    found = simgpu.search(name)
    data = found.to_json()
    fastest = search_page.fastest_spec(data)
    if fastest is None:
        raise ExtensionError(f"gallery: {name}: no strategy fits")
    (folder / f"{name}.png").write_bytes(picture(fastest, "png"))
    winner = to_scenario_yaml(found.scenario or {}, str(found).splitlines())
    write(folder, name, search_page.search_page(data, verdict=str(found), scenario=winner))


def write(folder: Path, name: str, report: str) -> None:
    """Write a report."""
    (folder / "reports" / f"{name}.html").write_text(report, encoding="utf-8")


DRAW: dict[str, Callable[[str, Path], None]] = {"run": draw_run, "sweep": draw_sweep, "search": draw_search}
