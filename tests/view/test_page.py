"""The HTML page: whole, self-contained, safe."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from plotly.offline import get_plotlyjs

from simgpu.metrics.critical_link import Link
from simgpu.metrics.critical_path import CriticalPath
from simgpu.view.figure import to_json
from simgpu.view.report import html, write_html

from .reports import ddp, four_variants, pipeline

HOSTILE = "<script>alert('x')</script> & \"co\" </title>"


@pytest.fixture(scope="module")
def page():
    return html(four_variants(), title=HOSTILE, verdict=HOSTILE, subtitle=HOSTILE)


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_plotly_is_inside_once(page):
    assert page.count(get_plotlyjs()) == 1


def test_no_address_outside_plotly(page):
    own = page.replace(get_plotlyjs(), "")
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(|sourceMappingURL", own)
    assert "sourceMappingURL" not in get_plotlyjs()


def test_no_tag_fetches_anything(page):
    tags = Tags(page).found
    assert not {"link", "img", "iframe", "object", "embed", "base", "form", "a"} & {tag for tag, _ in tags}
    assert not [attrs for _, attrs in tags if {"src", "href", "srcset", "action"} & attrs.keys()]


def test_the_browser_is_told_to_fetch_nothing(page):
    policy = next(attrs["content"] for tag, attrs in Tags(page).found if attrs.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy


def test_user_text_is_never_markup(page):
    own = page.replace(get_plotlyjs(), "")
    assert "<script>alert" not in own
    assert own.count("&lt;script&gt;alert") >= 4
    scripts = [attrs for tag, attrs in Tags(page).found if tag == "script"]
    assert len(scripts) == 2 + 4  # plotly, the page's own, and four blocks of data


def test_data_blocks_are_json(page):
    blocks = re.findall(r'<script type="application/json" data-figure="(\w+)">(.*?)</script>', page)
    assert [name for name, _ in blocks] == ["timeline", "breakdown", "memory", "composition"]
    for _, block in blocks:
        assert json.loads(block).keys() - {"time", "levels", "curves"} == {"data", "layout"}
    shared = [name for name, block in blocks if json.loads(block).get("time")]
    assert shared == ["timeline", "memory"]  # those zoom together


def test_verdict_comes_first(page):
    assert page.index("<h1") < page.index("<table") < page.index('id="timeline"') < page.index('id="memory"')


def test_further_lines_of_the_verdict_are_findings():
    written = html([], title="t", verdict="first <b>\nsecond & third\n")
    assert "<h1>first &lt;b&gt;</h1>" in written
    assert written.count("<p class=finding>") == 1
    assert "<p class=finding>second &amp; third</p>" in written


def test_bubble_stands_beside_its_ideal():
    assert "(ideal 27.3 %)" in html([replace(pipeline(), ideal_bubble_fraction=3 / 11)], title="t", verdict="v")


def test_out_of_memory_is_said_in_red(page):
    assert '<td class="bad">OUT OF MEMORY</td>' in page
    assert page.count('<td class="good">fits</td>') == 3
    assert '<h1 class="bad">' in html([ddp(held_bytes=2**40)], title="t", verdict="OUT OF MEMORY")


def test_warnings_stand_before_everything_else(page):
    own = page.replace(get_plotlyjs(), "")
    assert own.index("<h1") < own.index("does not fit: the timeline shows") < own.index("<table")
    assert own.count("does not fit: the timeline shows what would happen if it did") == 1
    assert "Warnings" not in html([ddp()], title="t", verdict="v").replace(get_plotlyjs(), "")


def test_a_warning_of_several_runs_is_said_once():
    runs = [replace(ddp(name), warnings=("nearly <full>",)) for name in ("one", "two", "three")]
    assert "<li><b>All variants</b>: nearly &lt;full&gt;</li>" in html(runs, title="t", verdict="v")
    runs[1] = ddp("two")
    assert "<li><b>one, three</b>: nearly &lt;full&gt;</li>" in html(runs, title="t", verdict="v")
    assert "<li>Nearly &lt;full&gt;</li>" in html(runs[:1], title="t", verdict="v")


def test_assumptions_are_said_in_plain_words(page):
    assert "312 TFLOP/s per GPU" in page
    assert "transfer times come from a measured fit of this system" in page
    run = ddp()
    moved = [replace(run.transfers[0], source=source) for source in ("measured", "constructed", "free")]
    words = html([replace(run, transfers=tuple(moved))], title="t", verdict="v")
    assert "fit of this system or from link rates and NCCL&#x27;s latency constants; communication is set to" in words


def test_a_run_alone_says_its_verdict_once():
    run = replace(ddp(), verdict="210 ms per step: all of it computes\nand more")
    own = html([run], title="t", verdict=run.verdict).replace(get_plotlyjs(), "")
    assert own.count("all of it computes") == 1
    assert own.count("and more") == 1
    two = html([run, ddp("other")], title="t", verdict="one of two").replace(get_plotlyjs(), "")
    assert two.count("all of it computes") == 1
    assert "and more" not in two
    full = replace(ddp(held_bytes=2**40), verdict="OUT OF MEMORY on rank 0 at 1 ms")
    assert html([full], title="t", verdict=full.verdict).replace(get_plotlyjs(), "").count("on rank 0 at 1 ms") == 1


def test_rows_of_communication_say_how_many_ranks_they_stand_for():
    run = ddp(gpus=64)
    page = html([run], title="t", verdict="v")
    assert '<td class="left">64 <small>(0–63)</small></td>' in page
    spread = replace(run.ranks[0], members=tuple(range(0, 64, 8)))
    page = html([replace(run, ranks=(spread,))], title="t", verdict="v")
    assert '<td class="left">8 <small>(0, 8 … 56)</small></td>' in page


def test_what_limits_a_transfer_is_latency_when_that_takes_most_of_it():
    run = ddp()
    assert ">node0/gpu0-&gt;nvswitch</td>" in html([run], title="t", verdict="v")
    slow = replace(run.transfers[0], latency_share=0.62)
    page = html([replace(run, transfers=(slow,))], title="t", verdict="v")
    assert ">latency <small>(62% of the time)</small></td>" in page


def test_same_reports_same_page(page):
    assert html(four_variants(), title=HOSTILE, verdict=HOSTILE, subtitle=HOSTILE) == page


def test_money_only_when_known():
    run = pipeline()
    assert "GPU-hours" not in html([run], title="t", verdict="v")
    assert ">1,234<" in html([replace(run, hours=2.5, gpu_hours=10.0, cost=1234.4)], title="t", verdict="v")


def test_json_survives_closing_tags_and_special_floats():
    assert "</script" not in to_json({"a": "</script><!--"})
    assert json.loads(to_json({"a": "</script>\u2028&"})) == {"a": "</script>\u2028&"}
    with pytest.raises(ValueError, match="JSON compliant"):
        to_json({"a": float("nan")})
    with pytest.raises(TypeError, match="object has no JSON form"):
        to_json(object())


def test_write_is_whole_or_nothing(tmp_path, monkeypatch):
    target = tmp_path / "run.html"
    target.write_text("old")
    monkeypatch.setattr("simgpu.view.report.html", lambda *_, **__: "new")
    assert write_html([], target, title="t", verdict="v") == target
    assert target.read_text() == "new"
    monkeypatch.setattr("pathlib.Path.replace", _fail)
    with pytest.raises(OSError, match="disk full"):
        write_html([], target, title="t", verdict="v")
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def _fail(*_):
    raise OSError("disk full")


def test_missing_folder_is_reported(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_html([], tmp_path / "absent" / "run.html", title="t", verdict="v")


def test_the_page_needs_no_figure_classes():
    code = (
        "import sys; from simgpu.view.report import html; html([], title='t', verdict='v');"
        "sys.exit('plotly.graph_objs' in sys.modules or 'pandas' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_critical_path_has_a_section_where_there_is_one():
    link = Link(
        rank=3, stream="compute", name="forward 0", phase="forward", microbatch=0, start_ns=0, end_ns=8_000_000,
        accounting=(("compute.gemm", 6_000_000), ("host", 2_000_000)),
    )  # fmt: skip
    report = pipeline()
    plain, shown = (
        html([one], title="t", verdict="v")
        for one in (report, replace(report, critical_path=CriticalPath(links=(link,))))
    )
    assert "<h2>Critical path</h2>" not in plain
    assert "<h2>Critical path</h2>" in shown
    assert "1 op, all on rank 3" in shown
    figure = json.loads(re.search(r'data-figure="path">(.*?)</script>', shown, re.DOTALL)[1])
    assert [(trace["name"], trace["x"]) for trace in figure["data"]] == [
        ("matrix products", [6.0]),
        ("host (CPU)", [2.0]),
    ]
