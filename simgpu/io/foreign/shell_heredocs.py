"""Texts that a shell script writes into files: ``cat <<EOF > ds_config.json``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

WRITES: Final = "here-document"
"""The first word of a statement that stands where a text was."""
_TEXT: Final = re.compile(
    r"^(?P<before>[^\n]*?)(?<!<)<<-?[ \t]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)(?P<after>[^\n]*)\n"
    r"(?:(?P<text>.*?)\n)??\s*(?P=end)[ \t]*(?=\n|$)",
    re.DOTALL | re.MULTILINE,
)
_TARGET: Final = re.compile(r"(?:(?<![\d&])>{1,2}|\btee\b)[ \t]*([^\s;|&<>]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class HereDocument:
    """A text of a script.

    Parameters
    ----------
    text : str
    expanded : bool
        Whether variables in it are replaced: not behind a quoted end mark.
    """

    text: str
    expanded: bool


def cut_heredocs(script: str) -> tuple[str, list[HereDocument]]:
    r"""Take the texts out of a script that it writes into files or feeds to commands.

    Parameters
    ----------
    script : str

    Returns
    -------
    (str, list of HereDocument)
        The script, with ``here-document INDEX FILE`` in the place of a text that is written into a file.

    Examples
    --------
    >>> cut_heredocs("cat <<EOF > x.json\n{}\nEOF\nls")
    ('here-document 0 x.json\nls', [HereDocument(text='{}', expanded=True)])
    >>> cut_heredocs("python - <<'EOF'\nprint(1)\nEOF\nls")
    ('python - \nls', [])
    """
    found: list[HereDocument] = []

    def mark(match: re.Match[str]) -> str:
        line = match["before"] + match["after"]
        target = _TARGET.search(line)
        if target is None or match["text"] is None:
            return line
        found.append(HereDocument(text=match["text"], expanded=not match["quote"]))
        return f"{WRITES} {len(found) - 1} {target[1]}"

    return _TEXT.sub(mark, script), found
