"""The table of cases: every report of the field is reproduced, bounded, or said not to be simulable."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import simgpu

from .quantities import quantities

HERE = Path(__file__).parent
LIST = HERE.parents[2] / "shared" / "CASES.md"
CASES = YAML(typ="safe").load((HERE / "cases.yaml").read_text(encoding="utf-8"))
PLAYED = {1, 3, 5, 13, 19, 23, 31, 37, 39, 55, 61, 67, 71, 73, 79, 101}  # at least bounded
FIELDS = {"row", "section", "source", "fact", "outcome"}


def listed():
    """Rows of sections A to F and H, as (row, section, place of the report)."""
    found, section = [], ""
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line[3]
        row = re.match(r"\| (\d+) \| ([^|]+) \|", line)
        if row and section in "ABCDEFH":
            found.append((int(row[1]), section, row[2].strip()))
    return found


@pytest.mark.skipif(not LIST.exists(), reason="the list of cases is not here")
def test_every_listed_row_is_in_the_table_once():
    assert [(case["row"], case["section"]) for case in CASES] == [(row, section) for row, section, _ in listed()]
    for case, (row, _, where) in zip(CASES, listed(), strict=True):
        assert case["source"].split()[0].rstrip(";") in where, row


def test_every_row_says_what_becomes_of_it():
    for case in CASES:
        row = case["row"]
        if case["outcome"] == "not simulable":
            assert case.keys() == FIELDS | {"reason"}, row
            assert row not in PLAYED, row
            continue
        assert case["outcome"] in {"reproduced", "bounded"}, row
        assert case.keys() - {"scenario"} == FIELDS | {"checks"}, row
        assert any("reported" in check for check in case["checks"]) or case["outcome"] == "bounded", row
        for check in case["checks"]:
            assert (
                {"quantity", "because"}
                <= check.keys()
                <= {"quantity", "reported", "least", "most", "exactly", "because"}
            )
            assert ("exactly" in check) != bool({"least", "most"} & check.keys()), row


def figures(reported):
    """Return the numbers of a reporter's figure: one, or both ends of a range."""
    return [float(number) for number in str(reported).split(" to ")]


@pytest.mark.parametrize("case", [case for case in CASES if "checks" in case], ids=lambda case: f"row {case['row']}")
def test_what_is_allowed_holds_the_reporters_own_figure(case):
    """A range that leaves it out reproduces nothing, and bounds nothing that was reported."""
    for check in case["checks"]:
        for figure in figures(check["reported"]) if "reported" in check else ():
            low, high = (check.get("exactly", check.get(end, figure)) for end in ("least", "most"))
            assert low <= figure <= high, check


def test_every_scenario_belongs_to_a_row():
    named = sorted(case["scenario"] for case in CASES if "scenario" in case)
    assert named == sorted(path.stem for path in (HERE / "scenarios").glob("*.yaml"))


@pytest.mark.parametrize(
    "case", [case for case in CASES if case["outcome"] != "not simulable"], ids=lambda case: f"row {case['row']}"
)
def test_the_row_comes_out(case):
    path = HERE / "scenarios" / f"{case['scenario']}.yaml" if "scenario" in case else None
    runs = {report.name: report for report in simgpu.run(path)} if path else {}
    known = quantities(runs)
    wrong = []
    for check in case["checks"]:
        value = eval(check["quantity"], {"__builtins__": {}}, known)  # expressions of our own table
        if "exactly" in check:
            held = value == check["exactly"]
        else:
            held = check.get("least", value) <= value <= check.get("most", value)
        if not held:
            wrong.append(f"{check['quantity']} is {value}, not {check}")
    assert not wrong, "\n".join(wrong)
