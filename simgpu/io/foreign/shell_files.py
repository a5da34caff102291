"""Files that a shell script writes, changes and reads, as far as their text is known without running it."""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from simgpu.errors import ScenarioError
from simgpu.io.foreign.shell_printed import printed
from simgpu.io.text_file import read_text

_IN_PLACE: Final = ("sed", "perl", "yq", "jq", "awk", "gawk", "crudini", "patch")
_COPIES: Final = ("cp", "mv", "ln", "install")
_NAMED: Final = re.compile(r"['\"]([\w./-]+\.(?:json|ya?ml|toml|sh|env))['\"]")
_DUMPS: Final = re.compile(r"dump|write|save|to_json|[\"']w[\"']")
BRANCH: Final = ", in a branch or a loop that only a run decides"
NO_NAMES: Final[Mapping[str, str]] = {}
_LONGEST: Final = 200_000  # characters of a file


def plain_name(name: str) -> str:
    """Return a file's name without ``./``.

    Examples
    --------
    >>> plain_name("././a/b.json")
    'a/b.json'
    """
    return re.sub(r"^(?:\./)+", "", name)


def same_file(name: str, names: Iterable[str]) -> str | None:
    """Return the one of some names that is a file's: by itself, or where ``cd`` may stand between, by its last part.

    Examples
    --------
    >>> same_file("./a.json", ["a.json"]), same_file("conf/a.json", ["a.json"]), same_file("/x/a.json", ["a.json"])
    ('a.json', 'a.json', None)
    """
    name, known = plain_name(name), list(names)
    if name in known:
        return name
    last = name.rsplit("/", 1)[-1]
    found = [one for one in known if one.rsplit("/", 1)[-1] == last and one[:1] != "/"]
    return found[0] if len(found) == 1 and name[:1] != "/" else None


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
    removed : mapping of str to str
        Those that are no longer there, with the command that takes them away.
    output : str or None
        What has been printed, and not into a file; None where only a run would tell.
    by : mapping of str to str
        What wrote each of them last.
    lines : list of str, optional
        What ``read`` of a loop has before it; None where that is not known.
    joint : bool
        Whether what is printed as an error goes where the output goes.

    Examples
    --------
    >>> files = Files(folder=None)
    >>> files.put("env.sh", "TP=4\n", "echo TP=4")
    >>> files.follow(["sed", "-i", "s/2/3/", "ds.json"], [])
    >>> files.text("env.sh").strip(), files.changed["ds.json"]
    ('TP=4', '`sed -i s/2/3/ ds.json`')
    """

    folder: Path | None
    written: dict[str, str] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)
    piped: str | None = None
    removed: dict[str, str] = field(default_factory=dict)
    output: str | None = ""
    by: dict[str, str] = field(default_factory=dict)
    lines: list[str] | None = None
    joint: bool = False

    def copied(self) -> Files:
        """Return a copy that changes by itself."""
        return replace(
            self, written=dict(self.written), changed=dict(self.changed), removed=dict(self.removed), by=dict(self.by),
            lines=None if self.lines is None else list(self.lines),
        )  # fmt: skip

    def join(self, other: Files) -> None:
        """Take over what another branch of the script leaves."""
        for name in self.written.keys() | other.written.keys() | self.removed.keys() | other.removed.keys():
            if self._state(name) != other._state(name):
                said = self.by.get(name) or other.by.get(name) or ""
                self.changed.setdefault(name, f"{said}{BRANCH}")
                self.written.pop(name, None)
                self.removed.pop(name, None)
        self.changed |= {name: text for name, text in other.changed.items() if name not in self.changed}
        self.by = {**other.by, **self.by}
        self.lines = self.lines if self.lines == other.lines else None
        self.output = self.output if self.output == other.output else None

    def _state(self, name: str) -> tuple[str | None, bool]:
        return self.written.get(name), name in self.removed

    def unknown(self) -> dict[str, str]:
        """Return the files that are not what lies beside the script, with the reason."""
        written: dict[str, str] = {}
        for name, said in self.changed.items():
            command, branched, _ = said.partition(BRANCH)
            written[name] = f"is written by {command} of the script{branched or ', which is not run'}"
        return written | {name: f"is taken away by `{said}` of the script" for name, said in self.removed.items()}

    def text(self, name: str) -> str | None:
        """Return the text of a file; None where it is not known."""
        name = plain_name(name)
        if name in self.changed or name in self.removed:
            return None
        if name in self.written:
            return self.written[name]
        if name == "/dev/null":
            return ""
        if self.folder is None or name.startswith(("/", "~")) or not lies_in(self.folder, name):
            return None
        try:
            return read_text(self.folder / name, name)
        except ScenarioError:
            return None

    def printed(self, words: Sequence[str], fed: Sequence[str], exported: Mapping[str, str] = NO_NAMES) -> str | None:
        """Return what a command prints, of which these texts are the input; None where only a run would tell."""
        found = printed(words, next(iter(fed[-1:]), self.piped), self.text, exported)
        return found if words[:1] != ["tee"] else next(iter(fed), self.piped)

    def say(self, text: str | None) -> None:
        """Add to what has been printed."""
        known = self.output is not None and text is not None and len(self.output) + len(text) <= _LONGEST
        self.output = f"{self.output}{text}" if known else None

    def feed(self, text: str | None) -> None:
        """Let ``read`` find a text."""
        whole = text is not None and (not text or text[-1] == "\n")
        self.lines = text.splitlines() if text is not None and whole else None

    def follow(self, words: Sequence[str], fed: Sequence[str]) -> None:
        """Keep account of what a command writes by itself, and not as its output.

        Parameters
        ----------
        words : sequence of str
        fed : sequence of str
            Texts that it reads.
        """
        said = " ".join(words)
        program = words[0].rsplit("/", 1)[-1] if words else ""
        plain = [word for word in words[1:] if not word.startswith("-")]
        flags = [word for word in words[1:] if word.startswith("-")]
        if program == "tee":
            for name in plain:
                self.put(name, next(iter(fed), self.piped), said, more="-a" in flags)
        elif program in _IN_PLACE and any(re.match(r"-\w*i|--in-?place", flag) for flag in flags):
            for name in plain:
                self.put(name, None, said)
        elif program in _COPIES and len(plain) > 1:
            for name in plain[:-1]:
                self._copy(name, plain[-1], said, moves=program == "mv")
        elif program in ("rm", "unlink"):
            for name in [found for one in plain for found in self._named(one)]:
                self._forget(name)
                self.removed[name] = said
        elif program in ("wget", "curl"):
            for flag, name in itertools.pairwise(words):
                if flag in ("-O", "-o", "--output", "--output-document"):
                    self.put(name, None, said)
        elif program.startswith("python"):
            for text in [*fed, *(words[2:3] if words[1:2] == ["-c"] else [])]:
                for name in _NAMED.findall(text) if _DUMPS.search(text) else []:
                    self.put(name, None, " ".join(words[:2]))

    def _copy(self, name: str, target: str, said: str, *, moves: bool) -> None:
        ends = plain_name(target + name.rsplit("/", 1)[-1] if target.endswith("/") else target)
        name, why = plain_name(name), self.changed.get(plain_name(name))
        self.put(ends, self.text(name), said)
        if why is not None:
            self.changed[ends] = why  # the command that made it, and not the one that took it along
        if moves:
            self._forget(name)
            self.removed[name] = said

    def _named(self, pattern: str) -> list[str]:
        """Return the files that a pattern of ``rm`` names."""
        name = plain_name(pattern).rstrip("/")
        known = {*self.written, *self.changed}
        if not re.search(r"[*?\[]", name):
            return [name, *(one for one in known if one.startswith(f"{name}/"))]
        try:
            beside = [] if self.folder is None or "/" in name else [path.name for path in self.folder.iterdir()]
        except OSError:
            beside = []
        return [one for one in {*known, *beside} if fnmatch.fnmatchcase(one, name)]

    def _forget(self, name: str) -> None:
        for held in (self.written, self.changed, self.removed, self.by):
            held.pop(name, None)

    def put(self, name: str, text: str | None, said: str, *, more: bool = False) -> None:
        """Let a command write a file.

        Parameters
        ----------
        name : str
        text : str or None
            None where only a run would tell.
        said : str
            The command.
        more : bool
            Whether it is added to what the file holds.
        """
        name = plain_name(name)
        if name.startswith("/dev/"):
            return
        if more and text is not None and name not in self.removed:
            before = self.text(name)
            known = before is not None or not (name in self.changed or self._is_there(name))
            text = f"{before or ''}{text}" if known else None
        why = self.changed.get(name, f"`{said}`") if more else f"`{said}`"
        self._forget(name)
        self.by[name] = f"`{said}`"
        if text is None or len(text) > _LONGEST:
            self.changed[name] = why
        else:
            self.written[name] = text

    def _is_there(self, name: str) -> bool:
        return self.folder is not None and lies_in(self.folder, name)
