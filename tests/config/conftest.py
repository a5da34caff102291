from pathlib import Path

import pytest

GOOD = """\
model: llama-2-7b
cluster:
  topology: dgx-a100
  gpus: 8
training:
  sequence_length: 4096
  micro_batch_size: 1
  global_batch_size: 64
parallel:
  tp: 2
"""


@pytest.fixture
def write(tmp_path: Path):
    """Writes a scenario (the good one, with text replaced or added) and returns its path."""

    def writer(*replacements: tuple[str, str], add: str = "", name: str = "s.yaml") -> Path:
        text = GOOD
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / name
        path.write_text(text + add, encoding="utf-8")
        return path

    return writer
