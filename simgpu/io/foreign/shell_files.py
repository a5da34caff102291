"""Files that a shell script writes, changes and reads, as far as their text is known without running it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from simgpu.errors import ScenarioError
from simgpu.io.text_file import read_text

_IN_PLACE: Final = ("sed", "perl", "yq", "jq", "awk", "gawk", "crudini", "patch")
_COPIES: Final = ("cp", "mv", "install")
_NAMED: Final = re.compile(r"['\"]([\w./-]+\.(?:json|ya?ml|toml|sh|env))['\"]")
_DUMPS: Final = re.compile(r"dump|write|save|to_json|[\"']w[\"']")
BRANCH: Final = "a branch that only a run decides"


def plain_name(name: str) -> str:
    """Return a file's name without ``./``.

    Examples
    --------
    >>> plain_name("././a/b.json")
    'a/b.json'
    """
    return re.sub(r"^(?:\./)+", "", name)


def lies_in(folder: Path | None, name: str) -> bool:
    """Return whether a file of that name lies in a folder.

    Examples
    --------
    >>> lies_in(Path(), "absent.json"), lies_in(None, "x"), lies_in(Path(), 9_999 * "x")
    (False, False, False)
    """
    try:
        return folder is not None and (folder / plain_name(name)).is_file()
    except (OSError, ValueError):  # no name that a file can have
        return False


@dataclass(slots=True)
class Files:
    r"""Files by their names as the script writes them.

    Parameters
    ----------
    folder : Path, optional
        Where the script lies.
    written : mapping of str to str
        Their text.
    changed : mapping of str to str
        Those whose text is not known, with the command that writes it.
    piped : str, optional
        What the command in front of ``|`` prints.

    Examples
    --------
    >>> files = Files(folder=None)
    >>> files.follow(["echo", "TP=4"], [(">", "env.sh")], [])
    >>> files.follow(["sed", "-i", "s/2/3/", "ds.json"], [], [])
    >>> files.text("env.sh").strip(), files.changed["ds.json"]
    ('TP=4', 'sed -i s/2/3/ ds.json')
    """

    folder: Path | None
    written: dict[str, str] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)
    piped: str | None = None

    def copied(self) -> Files:
        """Return a copy that changes by itself."""
        return replace(self, written=dict(self.written), changed=dict(self.changed))

    def join(self, other: Files) -> None:
        """Take over what another branch of the script leaves."""
        for name in self.written.keys() | other.written.keys():
            if self.written.get(name) != other.written.get(name):
                self.changed.setdefault(name, BRANCH)
                self.written.pop(name, None)
        self.changed |= {name: text for name, text in other.changed.items() if name not in self.changed}

    def text(self, name: str) -> str | None:
        """Return the text of a file; None where it is not known."""
        name = plain_name(name)
        if name in self.changed:
            return None
        if name in self.written:
            return self.written[name]
        if self.folder is None or not lies_in(self.folder, name):
            return None
        try:
            return read_text(self.folder / name, name)
        except ScenarioError:
            return None

    def printed(self, words: Sequence[str], fed: Sequence[str]) -> str | None:
        """Return what a command prints, of which these texts are the input; None where only a run would tell."""
        program = words[0] if words else ""
        if program == "echo":
            flags = [word for word in words[1:2] if re.fullmatch(r"-[neE]+", word)]
            text = " ".join(words[1 + len(flags) :]) + ("" if flags and "n" in flags[0] else "\n")
            return text.replace("\\n", "\n").replace("\\t", "\t") if flags and "e" in flags[0] else text
        if program == "printf" and len(words) > 1:
            return formatted(words[1], words[2:])
        if program == "cat":
            texts = [self.text(word) for word in words[1:] if word != "-"] or list(fed) or [self.piped]
            return (
                None if None in texts else "".join(text if text[-1:] == "\n" else f"{text}\n" for text in texts if text)
            )
        return None

    def follow(self, words: Sequence[str], targets: Sequence[tuple[str, str]], fed: Sequence[str]) -> None:
        """Keep account of what a command writes.

        Parameters
        ----------
        words : sequence of str
        targets : sequence of (str, str)
            Redirections of its output: the sign, and the file.
        fed : sequence of str
            Texts that it reads.
        """
        said = " ".join(words)
        for sign, name in targets:
            self._put(name, self.printed(words, fed), said or f"> {name}", more=sign == ">>")
        program = words[0].rsplit("/", 1)[-1] if words else ""
        plain = [word for word in words[1:] if not word.startswith("-")]
        flags = [word for word in words[1:] if word.startswith("-")]
        if program == "tee":
            for name in plain:
                self._put(name, next(iter(fed), self.piped), said, more="-a" in flags)
        elif program in _IN_PLACE and any(re.match(r"-\w*i|--in-?place", flag) for flag in flags):
            for name in plain:
                self._put(name, None, said)
        elif program in _COPIES and len(plain) > 1:
            for name in plain[:-1]:
                ends = plain[-1] + name.rsplit("/", 1)[-1] if plain[-1].endswith("/") else plain[-1]
                self._put(ends, self.text(name), said)
        elif program in ("wget", "curl"):
            for flag, name in itertools.pairwise(words):
                if flag in ("-O", "-o", "--output", "--output-document"):
                    self._put(name, None, said)
        elif program.startswith("python"):
            for text in [*fed, *(words[2:3] if words[1:2] == ["-c"] else [])]:
                for name in _NAMED.findall(text) if _DUMPS.search(text) else []:
                    self._put(name, None, " ".join(words[:2]))

    def _put(self, name: str, text: str | None, said: str, *, more: bool = False) -> None:
        name = plain_name(name)
        if more and text is not None:
            before = self.text(name)
            text = text if before is None and name not in self.changed else None if before is None else before + text
        self.written.pop(name, None)
        self.changed.pop(name, None)
        if text is None:
            self.changed[name] = said
        else:
            self.written[name] = text


def formatted(form: str, words: Sequence[str]) -> str | None:
    r"""Return what ``printf`` prints; None for forms other than %s, %d and %%.

    Examples
    --------
    >>> formatted("TP=%d\\n", ["4"]), formatted("%05.2f", ["1"])
    ('TP=4\n', None)
    """
    left = list(words)
    found: list[str] = []
    for plain, sign in re.findall(r"([^%]+)|(%.?)", form.replace("\\n", "\n").replace("\\t", "\t"), re.DOTALL):
        if plain:
            found.append(plain)
        elif sign == "%%":
            found.append("%")
        elif sign in ("%s", "%d", "%i"):
            found.append(left.pop(0) if left else "" if sign == "%s" else "0")
        else:
            return None
    return None if left else "".join(found)
