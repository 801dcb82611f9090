"""What is trusted and shown, read again when its files change, and the connections that are made with it."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from .options import File, Tls

C = TypeVar("C")
Stamp = tuple[int, int, int] | None


@dataclass(frozen=True, eq=False)
class Identity:
    """What the files said at one moment. Two connections of the same one are interchangeable."""

    ca: bytes | None
    cert: bytes | None
    key: bytes | None
    context: ssl.SSLContext
    """The same, for token requests."""


class Certificates:
    """The identity in force. Where what was changed cannot be read, or does not fit, the earlier one stays."""

    def __init__(self, tls: Tls) -> None:
        """Raises OSError, of which ssl.SSLError is one."""
        self._tls, self._lock = tls, threading.Lock()
        self._files = [file for file in (tls.ca, tls.cert, tls.key) if file is not None]
        self._stamps = self._stamp()
        self._held = _read(tls)

    def current(self) -> Identity:
        """The same until a file changes."""
        with self._lock:
            stamps = self._stamp()
            if stamps != self._stamps:
                # What fails is looked at again by the next call: a replacement may be half done.
                with contextlib.suppress(OSError, ValueError):
                    self._held, self._stamps = self._fresh(), stamps
            return self._held

    def _fresh(self) -> Identity:
        read, held = _read(self._tls), self._held
        is_same = (read.ca, read.cert, read.key) == (held.ca, held.cert, held.key)
        return held if is_same else read

    def _stamp(self) -> list[Stamp]:
        return [_stamp_of(file) for file in self._files]


def _stamp_of(file: File) -> Stamp:
    """Equal for a file that was neither written nor replaced in between."""
    try:
        found = Path(file).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(tls: Tls) -> Identity:
    before = _bytes_of(tls)
    # Fails where certificate and key are not of each other.
    context = ssl_context(tls)
    if _bytes_of(tls) != before:
        raise ValueError("the files changed while they were read")
    ca, cert, key = before
    return Identity(ca, cert, key, context)


def _bytes_of(tls: Tls) -> list[bytes | None]:
    return [None if file is None else Path(file).read_bytes() for file in (tls.ca, tls.cert, tls.key)]


def ssl_context(tls: Tls) -> ssl.SSLContext:
    """Raises OSError, of which ssl.SSLError is one."""
    context = ssl.create_default_context(cafile=tls.ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.cert is not None:
        context.load_cert_chain(tls.cert, tls.key)
    return context


@dataclass(eq=False)
class Connection(Generic[C]):
    channel: C
    identity: Identity
    users: int = 0


class Connections(Generic[C]):
    """
    The connection in use; another one is made where the certificates have changed, and the one before goes on until
    its last call is done. The call that acquires or releases closes what is left over.
    """

    def __init__(self, certificates: Certificates, dial: Callable[[Identity], C]) -> None:
        self._certificates, self._dial, self._lock = certificates, dial, threading.Lock()
        identity = certificates.current()
        self._current = Connection(dial(identity), identity)
        self._retired: list[Connection[C]] = []
        self._is_closed = False

    def acquire(self) -> Connection[C]:
        """The connection for one attempt. It must be released."""
        with self._lock:
            identity = self._certificates.current()
            if identity is not self._current.identity and not self._is_closed:
                self._retired.append(self._current)
                self._current = Connection(self._dial(identity), identity)
            self._current.users += 1
            return self._current

    def release(self, used: Connection[C]) -> list[C]:
        """What is no longer in use, to be closed."""
        with self._lock:
            used.users -= 1
            idle = [connection for connection in self._retired if connection.users == 0]
            self._retired = [connection for connection in self._retired if connection.users > 0]
            return [connection.channel for connection in idle]

    def close(self) -> list[C]:
        """All of them, to be closed."""
        with self._lock:
            self._is_closed = True
            every = [self._current, *self._retired]
            self._retired = []
            return [connection.channel for connection in every]
