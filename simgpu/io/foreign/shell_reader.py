"""A shell script read in the order in which it runs, as far as the script itself decides it."""

from __future__ import annotations

import contextlib
import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from simgpu.io.foreign.shell_assignments import assign
from simgpu.io.foreign.shell_branches import decided, found_empty, joined, words_of_test
from simgpu.io.foreign.shell_command import Command
from simgpu.io.foreign.shell_commands import run_command
from simgpu.io.foreign.shell_fed import fed_text
from simgpu.io.foreign.shell_heredocs import HereDocument, cut_heredocs
from simgpu.io.foreign.shell_loops import run_loop
from simgpu.io.foreign.shell_output import raw, redirected
from simgpu.io.foreign.shell_patterns import unknown
from simgpu.io.foreign.shell_start import own_folder
from simgpu.io.foreign.shell_state import LeftError, State, merge
from simgpu.io.foreign.shell_tree import (
    Case,
    Chain,
    Function,
    Group,
    If,
    Loop,
    Node,
    Opposite,
    Pipe,
    Redirected,
    Simple,
    tree,
)
from simgpu.io.foreign.shell_variables import Variables
from simgpu.io.foreign.shell_words import Word, statements

_POSITIONAL: Final = re.compile(r"\$[1-9@*]|\$\{[1-9]\d*(?::?-)?\}")
_WHOLE_FILE: Final = re.compile(r"\s*<\s*[\"']?([^\s<>&|;\"']+)[\"']?\s*")
_HERE: Final = re.compile(r"((?:[^\\]|\\(?![$`\\\n]))+)|\\([$`\\])|(\\\n)")
_MOST_STEPS: Final = 20_000
_DEEPEST: Final = 12  # commands in the texts of others


@dataclass(slots=True)
class Reader:
    """Goes through a script, and keeps the commands that it would run.

    Parameters
    ----------
    folder : Path, optional
        Where the script lies.

    Examples
    --------
    >>> from simgpu.io.foreign.shell_files import Files
    >>> reader = Reader(folder=None)
    >>> _ = reader.body(reader.parsed("f() { run $1; }; f 4"), State(Variables(), Files(folder=None)))
    >>> reader.commands[0].words
    ('run', '4')
    """

    folder: Path | None
    texts: list[HereDocument] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    called: set[str] = field(default_factory=set)
    loops: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    left: list[State] = field(default_factory=list)  # what branches leave that may return, or break off
    without_arguments: int = 0  # conditions decided as in a start without arguments
    steps: int = 0
    depth: int = 0
    inside: list[str] = field(default_factory=list)  # texts of files and commands around this one
    current: State | None = None  # in which commands run

    def parsed(self, text: str) -> tuple[Node, ...]:
        script, found = cut_heredocs(own_folder(text), len(self.texts))
        self.texts += found
        return tree(statements(script))

    def body(self, nodes: Sequence[Node], state: State) -> bool | None:
        status: bool | None = True
        for node in nodes:
            status = self.node(node, state)
        return status

    def node(self, node: Node, state: State) -> bool | None:
        self.steps += 1
        self.current = state
        if self.steps > _MOST_STEPS:
            raise LeftError("exit")
        match node:
            case Simple():
                return run_command(self, node.words, state)
            case Chain():
                return self.chain(node, state)
            case Pipe():
                return self.pipe(node, state)
            case Opposite():
                status = self.node(node.part, state)
                return None if status is None else not status
            case Group():
                if not node.apart:
                    return self.body(node.body, state)
                inner = state.copied()
                try:
                    status = self.body(node.body, inner)
                except LeftError:
                    status = None
                state.files = inner.files
                return status
            case If():
                return self.branches(node, state)
            case Loop():
                return run_loop(self, node, state)
            case Case():
                return self.case(node, state)
            case Redirected():
                outer = state.files.lines
                if any(word.redirect[:1] == "<" for word in node.redirects):
                    state.files.feed(fed_text(self, node.redirects, state))
                try:
                    with redirected(state, node.redirects, _title(node)):
                        return self.node(node.part, state)
                finally:
                    state.files.lines = outer
            case Function():
                state.functions[node.name] = node.body
                return True

    def prints(self, text: str, variables: Variables) -> str | None:
        """Return what the commands of ``$(...)`` print; None where only a run would tell."""
        outer = self.current
        if outer is None or self.depth >= _DEEPEST or self.steps > _MOST_STEPS or not text.strip():
            return None
        inner = State(variables.copied(), outer.files.copied(), dict(outer.functions))
        inner.files.output, inner.files.piped = "", None
        if whole := _WHOLE_FILE.fullmatch(text):
            found = inner.files.text(inner.variables.substituted(whole[1]))
            return None if found is None or unknown(found) else found.rstrip("\n")
        kept, left = len(self.commands), len(self.left)
        self.depth += 1
        try:
            self.body(self.parsed(text), inner)
        except LeftError as end:
            if end.how not in ("exit", "return"):
                return None
        finally:
            self.depth -= 1
            self.current = outer
            del self.commands[kept:], self.left[left:]
        variables.seen |= inner.variables.seen
        found = inner.files.output
        return None if found is None or unknown(found) else found.rstrip("\n")

    def apart(self, node: Node, state: State) -> None:
        """Read what may run, for its commands."""
        with contextlib.suppress(LeftError):
            self.node(node, state.copied())

    def chain(self, node: Chain, state: State) -> bool | None:
        status: bool | None = True
        tested: set[str] = set()
        for joint, part in node.parts:
            if not joint:
                status, tested = self.node(part, state), found_empty(part, "-n" if node.parts[1][0] == "||" else "-z")
            elif status is None:
                merge(state, [self.fork((part,), state), state.copied()], tested)
                status = joined(status, joint, None)
            elif status is (joint == "&&"):
                status = self.guarded((part,), state)
        return status

    def pipe(self, node: Pipe, state: State) -> bool | None:
        text: str | None = None
        outer = state.files.output
        for at, part in enumerate(node.parts):
            inner = state.copied()
            inner.files.piped = text
            if at:
                inner.files.feed(text)
            inner.files.output = outer if at == len(node.parts) - 1 else ""
            with contextlib.suppress(LeftError):
                self.node(part, inner)
            text = inner.files.output
            state.files = inner.files
        state.files.piped = None
        return None

    def fork(self, nodes: Sequence[Node], state: State) -> State | None:
        """Return what a body that may run leaves; None where it leaves the script, the function or the loop."""
        inner = state.copied()
        try:
            self.body(nodes, inner)
        except LeftError as left:
            if left.how != "exit":
                self.left.append(inner)
            return None
        return inner

    def gather(self, kept: int, state: State) -> None:
        """Take over what branches leave that may have returned or broken off since there were ``kept`` of them."""
        if len(self.left) > kept:
            merge(state, [state.copied(), *self.left[kept:]], set())
            del self.left[kept:]

    def guarded(self, nodes: Sequence[Node], state: State, *, supposed: bool = False) -> bool | None:
        """Run a branch; one that leaves the script with an error is a check, which a run passes."""
        inner = state.copied()
        try:
            status = self.body(nodes, inner)
        except LeftError as left:
            if left.how == "exit" and (supposed or left.failed):
                return None
            state.take(inner)
            raise
        state.take(inner)
        return status

    def branches(self, node: If, state: State) -> bool | None:
        found: list[State | None] = []
        tested: set[str] = set()
        before = self.without_arguments
        for condition, body in node.branches:
            status = self.body(condition, state) if condition else True
            if status is True and not found:
                return self.guarded(body, state, supposed=self.without_arguments > before)
            if status is not False:
                found.append(self.fork(body, state))
                tested |= {name for part in condition for name in found_empty(part, "-z")}
            if status is True:
                break
        else:
            found.append(state.copied())
        if len(found) > 1:
            merge(state, found, tested if len(found) == 2 else set())
        return None

    def case(self, node: Case, state: State) -> bool | None:
        state.variables.seen = set()
        subject = state.variables.joined(node.subject.pieces)
        supposed = state.variables.depend_on_arguments()
        subject = "" if _POSITIONAL.fullmatch(subject) else subject
        self.without_arguments += supposed and not unknown(subject)
        if unknown(subject):
            found: list[State | None] = [self.fork(body, state) for _, body in node.branches]
            default = any(pattern.text == "*" for patterns, _ in node.branches for pattern in patterns)
            merge(state, [*found, *([] if default else [state.copied()])], set())
            return None
        for patterns, body in node.branches:
            texts = [state.variables.joined(pattern.pieces) for pattern in patterns]
            if any(fnmatch.fnmatchcase(subject, text) for text in texts):
                return self.guarded(body, state, supposed=supposed)
        return True

    def test(self, words: Sequence[Word], state: State) -> bool | None:
        """Return what a test gives."""
        state.variables.seen = set()
        expanded = words_of_test(words, state.variables)
        found = decided(expanded)
        self.without_arguments += found is not None and state.variables.depend_on_arguments()
        if found is None and state.variables.arguments is None:  # as if it were started without arguments
            found = decided(["0" if word == "$#" else "" if _POSITIONAL.fullmatch(word) else word for word in expanded])
            self.without_arguments += found is not None
        return found

    def assigned(self, word: Word, variables: Variables, own: dict[str, str]) -> str:
        """Set what ``NAME=...`` sets, and return the name."""
        return assign(word, variables, own, self.document)

    def document(self, index: int, variables: Variables) -> str | None:
        if index >= len(self.texts):
            return None
        found = self.texts[index]
        if not found.expanded:
            return found.text
        parts = _HERE.findall(found.text)
        return "".join(escaped if escaped else variables.substituted(plain) for plain, escaped, _ in parts)


def _title(node: Redirected) -> str:
    """Return a structure in short, for messages."""
    match node.part:
        case Loop(title=title):
            short = f"{title}; do ...; done"
        case If():
            short = "if ...; fi"
        case Case():
            short = "case ... esac"
        case Group(apart=True):
            short = "( ... )"
        case _:
            short = "{ ...; }"
    return f"{short} {raw(node.redirects)}"
