import json
import os

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.json_file import read_json, to_json, write_json
from simgpu.io.text_file import OutputError, check_writable, write_text


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})
    write_json(path, {"b": [1, 2]})
    assert json.loads(path.read_text()) == {"b": [1, 2]}
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.json"]


def test_a_failed_write_leaves_the_old_file_and_no_temporary(tmp_path):
    path = tmp_path / "x.txt"
    write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "half \ud800")  # a lone surrogate cannot be encoded
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.txt"]


def test_mode_of_a_new_file_follows_the_umask_and_of_an_old_one_is_kept(tmp_path):
    path = tmp_path / "x.txt"
    previous = os.umask(0o027)
    try:
        write_text(path, "a")
    finally:
        os.umask(previous)
    assert path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o600)
    write_text(path, "b")
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_written_is_said_before_anything_is_touched(tmp_path):
    with pytest.raises(OutputError, match="there is no folder"):
        check_writable(tmp_path / "absent" / "x.html")
    with pytest.raises(OutputError, match="it is a folder"):
        check_writable(tmp_path)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(OutputError, match="is not a folder"):
        check_writable(file / "x.html")
    check_writable(tmp_path / "new.html")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    with pytest.raises(OutputError):
        write_text(tmp_path / "absent" / "x", "")


def test_links_keep_pointing(tmp_path):
    target = tmp_path / "target.txt"
    target.write_text("old")
    link = tmp_path / "link.txt"
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_json_has_no_nan():
    with pytest.raises(ValueError, match="JSON"):
        to_json({"a": float("nan")})


def test_bad_json_names_its_line(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{\n  "a": 1,\n  oops\n}')
    with pytest.raises(ScenarioError, match=r"config.json:3: is not valid JSON"):
        read_json(path)
