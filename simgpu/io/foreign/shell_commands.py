"""Single commands of a shell script: assignments, functions, files read as scripts, and programs that it starts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from simgpu.io.foreign.shell_assignments import ASSIGNMENT, assign
from simgpu.io.foreign.shell_builtins import HARMLESS, TESTS, Effect, built_in
from simgpu.io.foreign.shell_command import Command
from simgpu.io.foreign.shell_files import Files, plain_name
from simgpu.io.foreign.shell_patterns import unknown
from simgpu.io.foreign.shell_state import LeftError, State
from simgpu.io.foreign.shell_variables import Variables
from simgpu.io.foreign.shell_words import Word

if TYPE_CHECKING:
    from simgpu.io.foreign.shell_reader import Reader

_DEEPEST: Final = 12  # functions, and commands in the texts of others
_ENVIRONMENTS: Final = (
    r"activate", r"bashrc", r"bash_profile", r"profile", r"zshrc", r"conda\w*", r"micromamba", r"modules?", r"lmod",
    r"set_?env\w*\.sh", r"setvars\.sh", r"ssh-agent", r"brew", r"direnv",
)  # fmt: skip
"""Files and commands that set up programs and paths, not the job."""


def run_command(reader: Reader, words: Sequence[Word], state: State) -> bool | None:
    """Run one command, and return its status.

    Parameters
    ----------
    reader : Reader
        Gets the command, or those of the function, the file or the text that it runs.
    words : sequence of Word
    state : State
        Changed to what it leaves.

    Returns
    -------
    bool or None
        None where only a run would tell.

    Examples
    --------
    >>> from simgpu.io.foreign.shell import read_commands
    >>> [command.words for command in read_commands("f() { N=$1; }; f 4; N=2 run $N")]
    [('run', '4')]
    """
    redirects = [word for word in words if word.redirect]
    words = [word for word in words if not word.redirect]
    variables = state.variables
    own: dict[str, str] = {}
    saved = variables
    first, sure = 0, True
    for word in words:
        match = ASSIGNMENT.match(word.text)
        if match is None or word.pieces[0][1] or "=" not in "".join(t for t, q in word.pieces if q == ""):
            break
        first += 1
    if first and first < len(words):
        saved, variables = variables, variables.copied()  # of the command alone
    for word in words[:first]:
        name = assign(word, variables, own, reader.document)
        sure = sure and not unknown(own.get(name, ""))
    rest = words[first:]
    if not rest:
        _write(reader, [], redirects, state)
        return True if sure else None
    if rest[0].text in TESTS and rest[0].pieces[0][1] == "":
        return reader.test(rest, state)
    saved.seen = set()
    expanded = [part for word in rest for part in saved.words(word)]
    if not expanded:
        return True
    if expanded[0] in ("true", "false"):
        return expanded[0] == "true"
    if expanded[0] in state.functions:
        if first:
            state.variables = variables
        try:
            return _call(reader, expanded, state)
        finally:
            if first:
                for name in own:
                    before = saved.values.get(name)
                    if before is None:
                        state.variables.forget(name)
                    else:
                        state.variables.values[name] = before
    effect = built_in(
        rest, expanded, saved, [_read_text(reader, word, saved) for word in redirects], reader.assigned, own.get("IFS")
    )
    if effect is not None:
        return _effect(reader, effect, expanded, redirects, state)
    _write(reader, expanded, redirects, state)
    _add(reader, expanded, own, state)
    if expanded[0] == "exec":
        raise LeftError("exit")
    return True if expanded[0] in HARMLESS else None


def _effect(
    reader: Reader, effect: Effect, expanded: list[str], redirects: Sequence[Word], state: State
) -> bool | None:
    """Do what a command of the shell itself does beyond its variables."""
    if effect.left:
        raise LeftError(effect.left, failed=effect.failed)
    if effect.text is not None:
        return _nested(reader, effect.text, state)
    if effect.reads is not None:
        before = state.variables.export_all
        state.variables.export_all = before or effect.exports
        try:
            return _source(reader, effect.reads, effect.arguments, state)
        finally:
            state.variables.export_all = before
    if effect.opaque:
        _doubt(reader, effect.opaque, state)
    _write(reader, expanded, redirects, state)
    return effect.status


def _call(reader: Reader, expanded: list[str], state: State) -> bool | None:
    """Run a function with its arguments."""
    reader.called.add(expanded[0])
    if reader.depth >= _DEEPEST:
        return None
    before, local = state.variables.arguments, state.variables.local
    passed = [word for word in expanded[1:] if word not in ("$@", "$*")]
    own = before is None and len(passed) < len(expanded) - 1 and not passed
    state.variables.arguments = None if own else passed if before is None else expanded[1:]
    state.variables.local = {}
    reader.depth += 1
    kept = len(reader.left)
    status: bool | None = None
    try:
        status = reader.node(state.functions[expanded[0]], state)
    except LeftError as left:
        if left.how != "return":
            raise
        status = not left.failed
    finally:
        reader.gather(kept, state)
        reader.depth -= 1
        for name, values in (state.variables.local or {}).items():
            state.variables.aliases.pop(name, None)
            if values is None:
                state.variables.forget(name)
            else:
                state.variables.values[name] = values
        state.variables.local = local
        state.variables.arguments = before
    return status


def _source(reader: Reader, name: str, arguments: Sequence[str], state: State) -> bool | None:
    """Read a file as a script in place."""
    text = state.files.text(name)
    if text is not None and reader.depth < _DEEPEST:
        reader.depth += 1
        before = state.variables.arguments
        if arguments:
            state.variables.arguments = list(arguments)
        try:
            return reader.body(reader.parsed(text), state)
        except LeftError as left:
            if left.how != "return":
                raise
            return None
        finally:
            reader.depth -= 1
            state.variables.arguments = before
    _doubt(reader, name, state)
    return True


def _doubt(reader: Reader, name: str, state: State) -> None:
    """Let nothing that is set hold any more: a file that is not there may set it anew."""
    if any(re.search(rf"(?:^|[/._-])(?:{word})\b", name) for word in _ENVIRONMENTS):
        reader.ignored += [] if name in reader.ignored else [name]
        return
    variables = state.variables
    variables.elsewhere = f"{name} may set, which is not beside the script"
    variables.doubts = dict.fromkeys(variables.values, variables.elsewhere)


def _read_text(reader: Reader, word: Word, variables: Variables) -> str | None:
    """Return what a redirection feeds to a command; None where that is not known."""
    if word.redirect == "<<<":
        return variables.joined(word.pieces)
    if word.redirect in ("<<", "<<-") and word.text.isdecimal():
        return reader.document(int(word.text), variables)
    return None


def printed(reader: Reader, words: Sequence[Word], state: State) -> str | None:
    """Return what a command prints; None where only a run would tell."""
    texts = [_read_text(reader, word, state.variables) for word in words if word.redirect]
    found = [part for word in words if not word.redirect for part in state.variables.words(word)]
    return state.files.printed(found, [text for text in texts if text is not None])


def _write(reader: Reader, expanded: list[str], redirects: Sequence[Word], state: State) -> None:
    """Keep account of the files that a command writes."""
    targets = [(word.redirect, state.variables.joined(word.pieces)) for word in redirects if word.redirect[-1] in ">|"]
    texts = [_read_text(reader, word, state.variables) for word in redirects]
    state.files.follow(expanded, targets, [text for text in texts if text is not None])


def _nested(reader: Reader, text: str, state: State) -> bool | None:
    if reader.depth >= _DEEPEST:
        return None
    if unknown(text[:2]) and re.fullmatch(r"\$\(.*\)|`.*`|\$\{?\w+\}?", text.strip(), re.DOTALL):
        _doubt(reader, text, state)
        return None
    reader.depth += 1
    try:
        return reader.body(reader.parsed(text), state)
    finally:
        reader.depth -= 1


def _child(state: State, own: Mapping[str, str]) -> State:
    """Return what another shell finds: the exported variables."""
    inner = state.copied()
    for name in [name for name in inner.variables.values if name not in inner.variables.exported]:
        inner.variables.forget(name)
    for name, value in own.items():
        inner.variables.set(name, [value])
    return inner


def _add(reader: Reader, expanded: list[str], own: Mapping[str, str], state: State) -> None:
    """Keep a command, or those in its text."""
    variables = state.variables
    seen = set(variables.seen)
    environment = {name: variables.values[name][0] for name in variables.exported if variables.values.get(name)}
    environment |= own
    extra = [word for name in variables.left_out if name in seen for word in variables.left_out[name]]
    outer, inner, passed = _inner(expanded, state.files)
    if inner is None:
        command = Command(
            words=tuple(expanded),
            environment=environment,
            variables={name: " ".join(values) for name, values in variables.values.items()},
            positional=reader.without_arguments > 0,
            written=dict(state.files.written),
            changed=dict(state.files.changed),
            left_out=tuple(extra),
            doubts={name: text for name in sorted(seen) if (text := variables.doubt(name))},
            ignored=tuple(reader.ignored),
            loop=", ".join(reader.loops),
        )
        reader.commands.append(command)
        return
    if reader.depth >= _DEEPEST:
        return
    kept = len(reader.commands)
    reader.depth += 1
    child = _child(state, own)
    child.variables.arguments = passed
    try:
        reader.body(reader.parsed(inner), child)
    except LeftError:
        pass
    finally:
        reader.depth -= 1
    reader.commands[kept:] = [
        replace(
            command,
            words=(*outer, *command.words),
            environment={**environment, **command.environment},
            left_out=(*extra, *command.left_out),
            doubts={**{name: text for name in seen if (text := variables.doubt(name))}, **command.doubts},
        )
        for command in reader.commands[kept:]
    ]


def _inner(words: list[str], files: Files) -> tuple[list[str], str | None, list[str] | None]:
    """Return what stands in front of ``bash -c TEXT`` or of a script that the script wrote, the text, its arguments."""
    for at, word in enumerate(words):
        shell = word.rsplit("/", 1)[-1] in ("bash", "sh")
        if shell and len(words) > at + 2 and re.fullmatch(r"-[a-z]*c", words[at + 1]):
            return words[:at], words[at + 2], None
        name = plain_name(words[at + 1] if shell and len(words) > at + 1 else word)
        if (shell or at == 0) and name in files.written:
            return words[:at], files.written[name], words[at + 1 + shell :]
    return words, None, None
