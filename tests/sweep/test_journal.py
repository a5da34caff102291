import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.executor import ExecutorError, Journal


def written(path, count=3):
    with Journal(path) as journal:
        for number in range(count):
            journal.add(f"key{number}", {"number": number, "share": 0.1 + number})
    return path.read_bytes()


def test_results_come_back_exactly(tmp_path):
    path = tmp_path / "j.jsonl"
    written(path)
    with Journal(path) as journal:
        assert journal.found == {f"key{n}": {"number": n, "share": 0.1 + n} for n in range(3)}
        assert journal.unreadable == 0


def test_a_result_is_on_the_disk_before_the_next_is_computed(tmp_path):
    path = tmp_path / "j.jsonl"
    with Journal(path) as journal:
        journal.add("a", {"x": 1})
        assert json.loads(path.read_text().splitlines()[1]) == {"key": "a", "row": {"x": 1}}


@given(cut=st.integers(0, 1000))
def test_cut_anywhere_it_loses_the_half_written_line_and_nothing_else(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cut") / "j.jsonl"
    whole = written(path)
    path.write_bytes(whole[: cut % (len(whole) + 1)])
    kept = path.read_bytes().count(b"\n")
    with Journal(path) as journal:
        assert list(journal.found) == [f"key{n}" for n in range(max(kept - 1, 0))]
        journal.add("after", {})
    with Journal(path) as journal:
        assert list(journal.found)[-1] == "after"
        assert journal.unreadable == 0


def test_a_damaged_line_is_skipped(tmp_path):
    path = tmp_path / "j.jsonl"
    lines = written(path).splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"\0\0\0\n", b'{"key": 1}\n', *lines[2:]]))
    with Journal(path) as journal:
        assert list(journal.found) == ["key1", "key2"]
        assert journal.unreadable == 2


@pytest.mark.parametrize("content", [b"my notes\n", b"name,step\n1,2\n", b"{}\n", b"my notes"])
def test_another_file_is_refused_and_left_as_it_is(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ExecutorError, match="is no journal"):
        Journal(path)
    assert path.read_bytes() == content


def test_two_at_once_are_refused(tmp_path):
    path = tmp_path / "j.jsonl"
    with Journal(path), pytest.raises(ExecutorError, match="in use by another sweep"):
        Journal(path)
    Journal(path).__exit__(None, None, None)


def test_a_folder_that_is_absent(tmp_path):
    with pytest.raises(ExecutorError, match="cannot be written: No such file"):
        Journal(tmp_path / "absent" / "j.jsonl")
