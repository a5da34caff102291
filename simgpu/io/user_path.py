"""Paths as users type them: ``~`` is their home, and no spelling makes the file system raise."""

from __future__ import annotations

import errno
import stat
from pathlib import Path


def user_path(text: str) -> Path:
    """Return the path a user means; ``~name`` of an unknown user stays as it is.

    Parameters
    ----------
    text : str

    Returns
    -------
    Path

    Examples
    --------
    >>> user_path("a/b.yaml").as_posix(), user_path("~nobody-of-this-name/x").as_posix()
    ('a/b.yaml', '~nobody-of-this-name/x')
    """
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def is_readable(path: Path) -> bool:
    """Return whether a path is something that can be opened and read: a file, a pipe, a character device.

    Parameters
    ----------
    path : Path

    Returns
    -------
    bool
        False for names that are too long or otherwise impossible.

    Examples
    --------
    >>> is_readable(Path("/dev/null")), is_readable(Path()), is_readable(Path("x" * 5000))
    (True, False, False)
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def obstacle(path: Path) -> str | None:
    """Say what stands at a path that cannot be read.

    Parameters
    ----------
    path : Path

    Returns
    -------
    str or None
        What it is, as "is a folder"; None when nothing is there.

    Examples
    --------
    >>> obstacle(Path()), obstacle(Path("absent.yaml"))
    ('is a folder', None)
    """
    try:
        mode = path.stat().st_mode
    except ValueError:  # a null character
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "is a symbolic link that leads back to itself"
        if error.errno == errno.EACCES:
            return "cannot be reached: permission denied"
        return "is a symbolic link to nothing" if _is_link(path) else None
    return "is a folder" if stat.S_ISDIR(mode) else "is neither a file nor a pipe"


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder that can be seen.

    Parameters
    ----------
    path : Path

    Returns
    -------
    bool

    Examples
    --------
    >>> is_folder(Path()), is_folder(Path("x" * 5000))
    (True, False)
    """
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
