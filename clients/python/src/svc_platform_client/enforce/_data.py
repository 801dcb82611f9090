"""Where bytes come from and go to: files and streams, read and written piece by piece."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from ._files import PartialFile, alone, open_regular, own_folder
from ._header import malformed
from ._platform import Json
from ._streams import Readable, read_exactly
from .errors import EnforcementError, failure_of_system

Input = str | os.PathLike[str] | BinaryIO
"""Path of a file, or a stream that is read."""
Output = str | os.PathLike[str] | BinaryIO
"""Path of a file that is made, or a stream that is written to and left open."""
OnProgress = Callable[[int, int | None], None]
"""Told after each piece how many bytes of the input have been worked on, and the total where it is known."""

CHUNK = 1_048_576
_T = TypeVar("_T")


class Digesting:
    """Digest and size of the bytes that it is shown."""

    def __init__(self) -> None:
        self._hash, self.size = hashlib.sha256(), 0

    def update(self, piece: bytes) -> None:
        self._hash.update(piece)
        self.size += len(piece)

    def digest(self) -> str:
        """As the contract spells it."""
        return f"sha256:{self._hash.hexdigest()}"

    def names(self) -> Json:
        """SHA-256 and CIDv1 (raw)."""
        return names_of(self.digest())


def names_of(digest: str) -> Json:
    """SHA-256 and CIDv1 (raw) of what has this digest. Raises `invalid` if it is none."""
    if re.fullmatch(r"sha256:[0-9a-f]{64}", digest) is None:
        raise EnforcementError("invalid", "a digest is sha256: and 64 digits")
    code = bytes([1, 0x55, 0x12, 0x20]) + bytes.fromhex(digest.removeprefix("sha256:"))
    return {"artifact_digest": digest, "artifact_cid": f"b{base64.b32encode(code).decode().lower().rstrip('=')}"}


class Watched:
    """A source whose pieces are looked at as they are read."""

    def __init__(self, source: Readable, *looks: Callable[[bytes], None]) -> None:
        self._source, self._looks = source, looks

    def read(self, size: int, /) -> bytes:
        piece = self._source.read(size)
        for look in self._looks:
            look(piece)
        return piece


class _Unbroken:
    """A stream that is read, perhaps at any position; where it breaks, that is `io_failed`."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        return self._carried_out(lambda: self._stream.read(size))

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return self._carried_out(lambda: self._stream.seek(offset, whence))

    def tell(self) -> int:
        return self._carried_out(self._stream.tell)

    def _carried_out(self, work: Callable[[], _T]) -> _T:
        try:
            return work()
        except EnforcementError:
            raise
        except Exception as error:
            raise EnforcementError("io_failed", f"the input broke: {error}") from error


def progress(on_progress: OnProgress | None, total: int | None) -> Callable[[bytes], None]:
    """Reports the sum of the pieces that it is shown."""
    done = 0

    def count(piece: bytes) -> None:
        nonlocal done
        done += len(piece)
        if on_progress is not None and piece:
            on_progress(done, total)

    return count


def pieces_of(source: Readable) -> Iterator[bytes]:
    while piece := source.read(CHUNK):
        yield piece


def digest_of(source: Readable) -> Digesting:
    """Of all that is left of it."""
    digesting = Digesting()
    for piece in pieces_of(source):
        digesting.update(piece)
    return digesting


def is_stream(data: Any) -> bool:
    return hasattr(data, "read") or hasattr(data, "write")


def size_of(file: BinaryIO) -> int:
    """In bytes. Leaves the file at its start."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


def read_at(file: BinaryIO, position: int, size: int) -> bytes:
    """Reads so many bytes. Raises `not_authentic` if they are not there."""
    if not 0 <= position <= size_of(file) - size:
        raise malformed("it is too short")
    file.seek(position)
    return read_exactly(file, size)


@contextmanager
def seekable(source: Input) -> Iterator[BinaryIO]:
    """An input that is read at any position. Raises `invalid` if a stream cannot be."""
    if not is_stream(source):
        with opened(source) as file:
            yield file
        return
    stream = cast(BinaryIO, source)
    if not stream.seekable():
        raise EnforcementError("invalid", "the stream can be read from its start only")
    stream.seek(0)
    yield cast(BinaryIO, _Unbroken(stream))


@contextmanager
def opened(source: Input, staging: Path | None = None) -> Iterator[BinaryIO]:
    """
    The input as a file. With `staging`, a stream is put into a file without a name there first, as ciphertext: whether
    it may be opened is asked about the whole of it.
    """
    if is_stream(source):
        stream = cast(BinaryIO, _Unbroken(cast(BinaryIO, source)))
        if staging is None:
            yield stream
            return
        with staged(pieces_of(stream), staging) as file:
            yield file
        return
    path = Path(cast(str, source))
    try:
        named = open_regular(path)
    except OSError as error:
        raise EnforcementError(failure_of_system(error), f"{path} cannot be read: {error}") from error
    with named:
        yield named


@contextmanager
def staged(pieces: Iterator[bytes], directory: Path) -> Iterator[BinaryIO]:
    """The pieces in a file without a name, which no other process can change."""
    own_folder(directory.parent)
    own_folder(directory)
    with tempfile.TemporaryFile(dir=directory) as file:
        for piece in pieces:
            file.write(piece)
        file.seek(0)
        yield cast(BinaryIO, file)


class Sink:
    """Takes what an operation makes: here, a stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, piece: bytes) -> None:
        rest = memoryview(piece)
        with _unbroken_output():
            while rest:
                # Streams without a buffer may take a part only.
                written = self._stream.write(rest)
                rest = rest[len(rest) if written is None else written :]

    def sync(self) -> None:
        """All of it is durable, under no name yet."""
        with _unbroken_output():
            self._stream.flush()

    def commit(self, receipts: Path | None, place: Callable[[Path], None]) -> None:
        """Gives it its name and, in the same step, puts its receipts beside it."""

    def abandon(self) -> None:
        """Removes it, unless it has its name."""


class _FileSink(Sink):
    """A file that is there whole or not at all."""

    def __init__(self, path: Path, replace: bool) -> None:
        if not replace:
            _require_absent(path)
        self._file, self._replace, self._path = PartialFile(path), replace, path

    def write(self, piece: bytes) -> None:
        self._file.write(piece)

    def sync(self) -> None:
        self._file.sync()

    def commit(self, receipts: Path | None, place: Callable[[Path], None]) -> None:
        if receipts is None:
            return self._file.commit(self._replace)
        # Another writer of the name does all of this before, and then this one leaves what it finds, or afterwards.
        with alone(receipts):
            if not self._replace:
                _require_absent(self._path)
            place(receipts)
            try:
                self._file.commit(self._replace)
            except BaseException:
                receipts.unlink(missing_ok=True)
                raise

    def abandon(self) -> None:
        self._file.abandon()


def _require_absent(path: Path) -> None:
    if os.path.lexists(path):
        raise EnforcementError("exists", f"{path} is there already")


@contextmanager
def _unbroken_output() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise EnforcementError("io_failed", f"the output broke: {error}") from error


@contextmanager
def sink_to(target: Output, replace: bool) -> Iterator[Sink]:
    """The output, abandoned where what is done with it raises. Raises `exists`."""
    sink = Sink(cast(BinaryIO, target)) if is_stream(target) else _FileSink(Path(cast(str, target)), replace)
    try:
        yield sink
    except BaseException:
        sink.abandon()
        raise
