"""Paths as users type them: ``~`` is their home, and no spelling makes the file system raise."""

from __future__ import annotations

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


def is_file(path: Path) -> bool:
    """Return whether a path is a file that can be seen; too long or otherwise impossible names are not.

    Parameters
    ----------
    path : Path

    Returns
    -------
    bool

    Examples
    --------
    >>> is_file(Path("x" * 5000))
    False
    """
    try:
        return path.is_file()
    except (OSError, ValueError):
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
