"""The structure of a shell script: its commands, and what decides whether, how often and where they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from simgpu.io.foreign.shell_words import JOINTS, MARKS, Word

_DEEPEST: Final = 60  # structures in one another
_LOOPS: Final = ("for", "while", "until", "select")
_CLOSING: Final = ("then", "do", "elif", "else", "fi", "done", "esac", "}")


@dataclass(frozen=True, slots=True)
class Simple:
    """One command."""

    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Commands joined by ``&&`` and ``||``; of each the sign in front of it, empty for the first."""

    parts: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Pipe:
    """Commands joined by ``|``."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Opposite:
    """``! command``."""

    part: Node


@dataclass(frozen=True, slots=True)
class Group:
    """``{ ... }``, or with its own copy of the variables ``( ... )`` and ``... &``."""

    body: tuple[Node, ...]
    apart: bool


@dataclass(frozen=True, slots=True)
class If:
    """Conditions with their bodies; an ``else`` has the condition ``()``."""

    branches: tuple[tuple[tuple[Node, ...], tuple[Node, ...]], ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop: its words as written, for ``while`` and ``until`` the condition, and the words that feed it."""

    head: tuple[Word, ...]
    condition: tuple[Node, ...]
    body: tuple[Node, ...]
    title: str


@dataclass(frozen=True, slots=True)
class Case:
    """``case WORD in PATTERN) ... esac``."""

    subject: Word
    branches: tuple[tuple[tuple[Word, ...], tuple[Node, ...]], ...]


@dataclass(frozen=True, slots=True)
class Redirected:
    """A structure whose output goes into files: ``{ ... } > file``, ``done >> file``."""

    part: Node
    redirects: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """The definition of a function."""

    name: str
    body: Node


Node: TypeAlias = Simple | Chain | Pipe | Opposite | Group | If | Loop | Case | Redirected | Function


def tree(parts: Sequence[Sequence[Word]]) -> tuple[Node, ...]:
    """Return the structure of statements; what is no script gives commands that nobody knows.

    Examples
    --------
    >>> from simgpu.io.foreign.shell_words import statements
    >>> [type(node).__name__ for node in tree(statements("if a; then b; fi; (c && d) | e; f() { g; }"))]
    ['If', 'Pipe', 'Function']
    """
    return _Parser(queue=[list(words) for words in parts]).body(())


@dataclass(slots=True)
class _Parser:
    queue: list[list[Word]]
    at: int = 0
    depth: int = 0

    def mark(self) -> str:
        """Return the sign that stands here; empty where a command does."""
        if self.at >= len(self.queue):
            return ""
        words = self.queue[self.at]
        plain = words[0].pieces[:1] == ((words[0].text, ""),) and not words[0].redirect
        plain = plain and all(word.redirect for word in words[1:])
        return words[0].text if plain and words[0].text in MARKS else ""

    def keyword(self) -> str:
        """Return the first word that stands here, where it has no quotes."""
        if self.at >= len(self.queue):
            return ""
        first = self.queue[self.at][0]
        return first.text if len(first.pieces) == 1 and first.pieces[0][1] == "" and not first.redirect else ""

    def take(self) -> list[Word]:
        """Return the words that stand here, and go on."""
        self.at += 1
        return self.queue[self.at - 1]

    def strip(self) -> None:
        """Go behind the first word."""
        if self.at < len(self.queue):
            self.put(self.queue[self.at][1:])

    def put(self, words: list[Word]) -> None:
        """Leave these of the words that stand here."""
        if words:
            self.queue[self.at] = words
        else:
            self.at += 1

    def body(self, ends: tuple[str, ...]) -> tuple[Node, ...]:
        """Read commands up to one of these words or signs, which is left."""
        found: list[Node] = []
        while self.at < len(self.queue) and not ({self.keyword(), self.mark()} & {*ends}):
            found.append(self.chain())
            if self.mark() == "&":
                found[-1] = Group((found[-1],), apart=True)
                self.at += 1
        return tuple(found)

    def chain(self) -> Node:
        parts: list[tuple[str, Node]] = [("", self.pipe())]
        while (sign := self.mark()) in JOINTS:
            self.at += 1
            if self.at < len(self.queue):
                parts.append((sign, self.pipe()))
        return parts[0][1] if len(parts) == 1 else Chain(tuple(parts))

    def pipe(self) -> Node:
        if self.keyword() == "!" and len(self.queue[self.at]) > 1:
            self.strip()
            return Opposite(self.pipe()) if self.depth < _DEEPEST and self.queue[self.at][0].text != "!" else Simple(())
        parts = [self.command()]
        while self.mark() == "|":
            self.at += 1
            if self.at < len(self.queue):
                parts.append(self.command())
        return parts[0] if len(parts) == 1 else Pipe(tuple(parts))

    def command(self) -> Node:
        word, sign = self.keyword(), self.mark()
        if self.depth >= _DEEPEST or (sign and sign != "(") or word in _CLOSING:
            self.take()
            return Simple(())
        self.depth += 1
        try:
            return self.structure(word, sign)
        finally:
            self.depth -= 1

    def structure(self, word: str, sign: str) -> Node:
        if sign:
            self.at += 1
            return self.closed(Group(self.body((")",)), apart=True))
        if word == "{":
            self.strip()
            return self.closed(Group(self.body(("}",)), apart=False))
        if word == "if":
            return self.branches()
        if word in _LOOPS:
            return self.loop(word)
        if word == "case":
            return self.case()
        words = self.take()
        called = len(words) > 1 and word == "function"
        if called or words[0].text.endswith("()"):
            rest = words[2:] if called else words[1:]
            if rest:
                self.at -= 1
                self.queue[self.at] = rest
            name = (words[1] if called else words[0]).text.removesuffix("()")
            return Function(name, self.command()) if self.at < len(self.queue) else Simple(())
        return Simple(tuple(words))

    def closed(self, node: Node) -> Node:
        """Go behind the word or the sign that closes a structure, with the redirections behind it."""
        words = self.take() if self.at < len(self.queue) else []
        redirects = tuple(word for word in words[1:] if word.redirect)
        return Redirected(node, redirects) if redirects else node

    def branches(self) -> Node:
        found = []
        while self.keyword() in ("if", "elif", "else"):
            condition: tuple[Node, ...] = ()
            if self.keyword() != "else":
                self.strip()
                condition = self.body(("then", "fi"))
            self.strip()
            found.append((condition, self.body(("elif", "else", "fi"))))
        return self.closed(If(tuple(found)))

    def loop(self, word: str) -> Node:
        title, condition, head = "", tuple[Node, ...](), tuple[Word, ...]()
        if word in ("for", "select"):
            head = tuple(self.take())
            title = " ".join(part.text for part in head)
        else:
            title = " ".join(part.redirect + part.text for part in self.queue[self.at])
            head = (self.queue[self.at][0],)
            self.strip()
            condition = self.body(("do", "done"))
        if self.keyword() == "do":
            self.strip()
        inner = self.body(("done",))
        return self.closed(Loop(head, condition, inner, title))

    def case(self) -> Node:
        words = self.take()
        if len(words) < 3:
            return Simple(())
        if words[3:]:
            self.at -= 1
            self.queue[self.at] = words[3:]
        found = []
        while self.at < len(self.queue) and self.keyword() != "esac":
            patterns: list[Word] = []
            while self.at < len(self.queue) and self.mark() != ")":
                sign = self.mark()
                patterns += [] if sign else self.queue[self.at]
                self.at += 1
            if self.at < len(self.queue):
                self.put(self.queue[self.at][1:])
            found.append((tuple(patterns), self.body((";;", "esac"))))
            if self.mark() == ";;":
                self.at += 1
        return self.closed(Case(words[1], tuple(found)))
