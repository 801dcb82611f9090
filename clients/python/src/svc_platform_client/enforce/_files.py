"""Files that are there whole or not at all, under names that say whose they are until then."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from .errors import EnforcementError, failure_of_system

_SUFFIX = ".partial"


class ProcessMark(NamedTuple):
    """A process; ids are given out again, so the time of its start counts too."""

    pid: int
    started: str


def own_process() -> ProcessMark:
    """This one."""
    return ProcessMark(os.getpid(), _start_of(os.getpid()))


def is_running(mark: ProcessMark) -> bool:
    """Whether it runs. Where the system tells no start, another one with its id counts as it."""
    if mark.pid <= 0:
        return False
    try:
        os.kill(mark.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _start_of(mark.pid) == mark.started


def _start_of(pid: int) -> str:
    """Field 22 of proc_pid_stat(5); the name before it may hold spaces and parentheses."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return text[text.rindex(")") + 2 :].split(" ")[19]
    except (OSError, ValueError, IndexError):
        return "0"


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a file to read. What is no regular file is refused, and a FIFO not waited for: raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("it is no regular file")
    return open(descriptor, "rb")


def read_regular(path: str | os.PathLike[str], limit: int) -> bytes:
    """All of a regular file of at most so many bytes. Raises OSError."""
    with open_regular(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(f"it has more than {limit} bytes")
    return data


class PartialFile:
    """A file under a name of its own, until it is whole."""

    def __init__(self, final: Path) -> None:
        sweep(final)
        self._final = final
        descriptor, self._path = _open_partial(final)
        self._file = open(descriptor, "wb", buffering=1_048_576)  # noqa: SIM115

    def write(self, piece: bytes) -> None:
        self._file.write(piece)

    def sync(self) -> None:
        """What was written is durable, under no name yet."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def commit(self, replace: bool) -> None:
        """Gives it its name. Raises `exists` where the name is taken, unless it may be replaced."""
        self.sync()
        if replace:
            os.replace(self._path, self._final)
        else:
            try:
                # Unlike a rename, this fails where something has the name.
                os.link(self._path, self._final)
            except FileExistsError:
                raise EnforcementError("exists", f"{self._final} is there already") from None
            self._path.unlink()
        sync_directory(self._final.parent)
        self._file.close()

    def abandon(self) -> None:
        """Removes it, unless it has its name."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._path.unlink(missing_ok=True)


def _open_partial(final: Path) -> tuple[int, Path]:
    """Makes a file whose name says whose it is, until it gets its final one."""
    mark = own_process()
    path = final.parent / f"{_prefix(final)}{_host()}-{mark.pid}-{mark.started}-{secrets.token_hex(6)}{_SUFFIX}"
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), path
    except OSError as error:
        raise EnforcementError(failure_of_system(error), f"{final.parent} takes no file") from error


_MAX_PAUSE = 0.256
"""The longest pause between two attempts, in seconds."""


@contextlib.contextmanager
def alone(name: Path) -> Iterator[None]:
    """
    No other process of this machine is within this for the same name. Each says first that it wants to, by a file; if
    there is another's, it takes its own away and tries again later. The file of a killed process does not count.
    """
    claimed = name.with_name(f"{name.name}.placing")
    pause = 0.002
    while True:
        descriptor, path = _open_partial(claimed)
        os.close(descriptor)
        try:
            if sweep(claimed) == 1:
                yield
                return
        finally:
            path.unlink(missing_ok=True)
        time.sleep(pause * secrets.randbelow(1024) / 1024)
        pause = min(2 * pause, _MAX_PAUSE)


def own_folder(path: Path) -> None:
    """Makes a folder of this user's own. Raises `invalid` where others may write to it: what is in it is believed."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    require_own(path)


def require_own(path: Path) -> None:
    """Raises `invalid` where others than its owner may write to the folder."""
    if stat.S_IMODE(path.stat().st_mode) & 0o022:
        raise EnforcementError("invalid", f"{path} is writable by others than its owner: make it 0700")


def create_file(path: Path, data: bytes) -> None:
    """Writes a small file whole; raises `exists` where something has its name."""
    _write(path, data, replace=False)


def replace_file(path: Path, data: bytes) -> None:
    """Writes a small file whole, replacing what has its name."""
    _write(path, data, replace=True)


def append_file(path: Path, data: bytes) -> None:
    """Adds bytes to a file; durable when it returns."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _write(path: Path, data: bytes, replace: bool) -> None:
    file = PartialFile(path)
    try:
        file.write(data)
        file.commit(replace)
    except BaseException:
        file.abandon()
        raise


def _prefix(final: Path) -> str:
    return f".{final.name}."


def _host() -> str:
    """Process ids mean something on one machine only."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:12]


def sweep(final: Path) -> int:
    """Removes partial files of this name whose process is gone; how many are left of this machine."""
    prefix, left = _prefix(final), 0
    names = os.listdir(final.parent) if final.parent.is_dir() else []
    for name in names:
        if not name.startswith(prefix) or not name.endswith(_SUFFIX):
            continue
        parts = name[len(prefix) : -len(_SUFFIX)].split("-")
        if len(parts) != 4 or parts[0] != _host() or not parts[1].isdecimal():
            continue
        if is_running(ProcessMark(int(parts[1]), parts[2])):
            left += 1
        else:
            (final.parent / name).unlink(missing_ok=True)
    return left


def sync_directory(path: Path) -> None:
    """What was renamed stays so after a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
