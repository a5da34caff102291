"""Tasks that other processes can import."""

import os
import signal
import time
from pathlib import Path


def square(number):
    return number * number


def square_slowly(number):
    time.sleep(0.05)
    return number * number


def die_once(item):
    """Kill this process the first time; a file remembers."""
    number, marker = item
    if number == 3 and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def die_always(number):
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def report_pid(path):
    """Leave the process id behind and then work for ever."""
    Path(path, str(os.getpid())).touch()
    time.sleep(60)


def wait_for_file(path):
    """Leave the process id behind and work until a file says to go on."""
    Path(path, str(os.getpid())).touch()
    while not Path(path, "go").exists():
        time.sleep(0.01)
    return "went on"
