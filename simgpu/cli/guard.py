"""Turns errors into one message and an exit code: no traceback for anything a user can cause."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from simgpu.errors import ScenarioError, SimGPUError
from simgpu.io.text_file import OutputError

USAGE: Final = 2  # the shell's convention for wrong input
INTERRUPTED: Final = 130  # 128 + SIGINT
BROKEN_PIPE: Final = 141  # 128 + SIGPIPE


@contextmanager
def guarded() -> Iterator[None]:
    """Run a command; end the process with one message on standard error when it cannot go on.

    Raises
    ------
    SystemExit
        2 for a SimGPUError and where standard output cannot be written, 130 for Ctrl-C, 141 when the reader of
        standard output went away.

    Examples
    --------
    >>> with guarded():
    ...     pass
    """
    try:
        if sys.stdout is None:  # as in `simgpu run x >&-`
            raise OutputError("standard output: cannot be written: it is closed")
        yield
        sys.stdout.flush()
    except SimGPUError as error:
        print(error_text(error), file=sys.stderr)
        raise SystemExit(USAGE) from None
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        _forget_output()
        raise SystemExit(BROKEN_PIPE) from None
    except OSError as error:
        # Errors of files name the file and are SimGPUErrors; those of a stream, a full disk behind it, name nothing.
        _forget_output()
        print(f"error: {error.filename or 'standard output'}: {error.strerror or error}", file=sys.stderr)
        raise SystemExit(USAGE) from None


def _forget_output() -> None:
    """Drop what is still buffered: it would raise again when the interpreter closes standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def error_text(error: SimGPUError) -> str:
    """Return an error as the command line prints it.

    Parameters
    ----------
    error : SimGPUError

    Returns
    -------
    str
        One line per problem, below a count when there are several.

    Examples
    --------
    >>> from simgpu.errors import TopologyError
    >>> error_text(TopologyError("no link connects gpu 3"))
    'error: no link connects gpu 3'
    """
    if isinstance(error, ScenarioError) and len(error.issues) > 1:
        return f"error: {len(error.issues)} problems\n{error}"
    return f"error: {error}"
