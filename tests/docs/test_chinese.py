"""README.zh.md says what README.md says: the same commands, code, links and figures, in the same order of sections."""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh.md").read_text(encoding="utf-8")


def code(text):
    return re.findall(r"```\w*\n.*?```", text, re.DOTALL)


def prose(text):
    return re.sub(r"```\w*\n.*?```", "", text, flags=re.DOTALL)


def test_the_code_is_the_same():
    assert len(code(ENGLISH)) >= 7
    assert code(CHINESE) == code(ENGLISH)


def test_each_leads_to_the_other():
    assert "[中文](README.zh.md)" in ENGLISH
    assert "[English](README.md)" in CHINESE


def test_sections_links_and_words_in_code_are_the_same():
    def levels(text):
        return [len(marks) for marks in re.findall(r"^(#+) ", prose(text), re.MULTILINE)]

    def links(text):
        return Counter(re.findall(r"\]\(([^)]+)\)", text)) - Counter(["README.md", "README.zh.md"])

    def inline(text):
        return Counter(re.sub(r"\s+", " ", word) for word in re.findall(r"`([^`]+)`", prose(text)))

    assert levels(CHINESE) == levels(ENGLISH)
    assert links(CHINESE) == links(ENGLISH)
    assert inline(CHINESE) == inline(ENGLISH)


def test_figures_are_the_same():
    def figures(text):
        return Counter(re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", re.sub(r"`[^`]+`|\]\([^)]+\)", "", prose(text))))

    assert figures(CHINESE) == figures(ENGLISH)


def test_tables_have_as_many_rows():
    assert len(re.findall(r"^\|", CHINESE, re.MULTILINE)) == len(re.findall(r"^\|", ENGLISH, re.MULTILINE))
