"""Texts that a shell script writes into files: ``cat <<EOF > ds_config.json``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_TEXT: Final = re.compile(
    r"^(?P<before>[^\n]*?)(?<!<)<<(?P<dash>-?)[ \t]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)(?P<after>[^\n]*)\n"
    r"(?:(?P<text>.*?)\n)??\s*(?P=end)[ \t]*(?=\n|$)",
    re.DOTALL | re.MULTILINE,
)

_TABS: Final = re.compile(r"^\t+", re.MULTILINE)


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


def cut_heredocs(script: str, first: int = 0) -> tuple[str, list[HereDocument]]:
    r"""Take the texts out of a script that it writes into files or feeds to commands.

    Parameters
    ----------
    script : str
    first : int
        Index of the first text.

    Returns
    -------
    (str, list of HereDocument)
        The script, with ``<<INDEX`` in the place of a text.

    Examples
    --------
    >>> cut_heredocs("cat <<EOF > x.json\n{}\nEOF\nls")
    ('cat <<0 > x.json\nls', [HereDocument(text='{}', expanded=True)])
    """
    found: list[HereDocument] = []

    def mark(match: re.Match[str]) -> str:
        text = match["text"] or ""
        if match["dash"]:
            text = _TABS.sub("", text)
        found.append(HereDocument(text=text, expanded=not match["quote"]))
        return f"{match['before']}<<{first + len(found) - 1} {match['after'].lstrip()}"

    return _TEXT.sub(mark, script), found
