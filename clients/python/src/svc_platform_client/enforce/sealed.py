"""
`sealed://`: a filesystem of fsspec over another one, which holds ciphertext only. Needs the extra `fsspec`.

Files are read at any position: each block is an access with its own decision and event. They are written as streams.
Names and listings are those of the other filesystem, and so are the sizes there.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, cast

import fsspec
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from . import Enforcer, Profile
from ._data import digest_of, size_of
from ._envelope import encode_header, read_header
from ._streams import plaintext_size
from ._tdf import read_tdf
from .errors import EnforcementError

_PASSED_ON = ("ls", "info", "created", "modified", "mkdir", "makedirs", "rmdir", "rm", "rm_file", "mv", "cp_file")


class SealedFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """
    Give it `fs`, or `target_protocol` and `target_options`.

    `enforcer`: protects and opens. `resource`: of files that are written, and expected of those that are read.
    `profile`, `purpose`, `labels`: of every operation. Operations raise EnforcementError.
    """

    protocol = "sealed"
    cachable = False

    def __init__(
        self,
        fs: Any = None,
        *,
        enforcer: Enforcer,
        resource: Mapping[str, str],
        target_protocol: str = "file",
        target_options: Mapping[str, Any] | None = None,
        profile: Profile = "envelope",
        purpose: str | None = None,
        labels: Sequence[str] = (),
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.fs = fs or fsspec.filesystem(target_protocol, **(target_options or {}))
        self.enforcer = enforcer
        self.request: dict[str, Any] = {"resource": resource, "profile": profile, "purpose": purpose, "labels": labels}
        for name in _PASSED_ON:
            setattr(self, name, getattr(self.fs, name))

    def open(self, path: str, mode: str = "rb", *args: Any, **options: Any) -> Any:
        # The compressor would not close the file, so nothing would be written, and no failure be raised.
        if "r" not in mode and options.get("compression") is not None:
            raise EnforcementError("invalid", "fsspec.open compresses what is written: it closes the file too")
        return super().open(path, mode, *args, **options)

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, **options: Any) -> Any:
        """
        `artifact_digest`: of the file that is read, which is otherwise read once to compute it. A digest that was kept
        since protection also shows that the file is the same.
        """
        if mode == "wb":
            return _Writer(self, path, options.get("autocommit", True))
        if mode != "rb":
            raise EnforcementError("invalid", "sealed files are opened to read, or to write them whole")
        digest, profile = options.pop("artifact_digest", None), self.request["profile"]
        with self.fs.open(path, "rb") as file:
            if digest is None and profile == "envelope":
                digest = digest_of(file).digest()
            header, size = _header_of(file, profile)
        reader = _Reader(self, path, mode, block_size or "default", size=size, **options)
        reader.sealed_header, reader.artifact_digest = header, digest
        return reader


class _Reader(AbstractBufferedFile):  # type: ignore[misc]
    sealed_header: bytes
    """Determines the content key, so blocks under the same header are of the same data."""
    artifact_digest: str | None

    def _fetch_range(self, start: int, end: int) -> bytes:
        plaintext, request = io.BytesIO(), self.fs.request | {"artifact_digest": self.artifact_digest}
        with self.fs.fs.open(self.path, "rb") as file:
            if _header_of(file, request["profile"])[0] != self.sealed_header:
                raise EnforcementError("not_authentic", "the file is another one than was opened")
            self.fs.enforcer.open_range(file, plaintext, offset=start, length=end - start, **request)
        return plaintext.getvalue()


class _Writer(io.RawIOBase):
    """
    Protects what is written in a thread, at its speed. The file is committed only if all is recorded, in a filesystem
    that can (`autocommit=False`).
    """

    def __init__(self, fs: SealedFileSystem, path: str, autocommit: bool) -> None:
        self._failure: BaseException | None = None
        self._is_abandoned = False
        self._autocommit = autocommit
        # Files may be written while an earlier error is handled.
        self._handled = sys.exc_info()[1]
        reading, writing = os.pipe()
        self._source, self._sink = os.fdopen(reading, "rb"), os.fdopen(writing, "wb", buffering=0)
        self._target = fs.fs.open(path, "wb", autocommit=False)
        # A program that ends without closing the file is a killed one: it does not wait for the rest.
        self._work = threading.Thread(target=self._protect, args=(fs,), daemon=True)
        self._work.start()

    def _protect(self, fs: SealedFileSystem) -> None:
        with self._source:
            try:
                fs.enforcer.protect(cast(BinaryIO, self), self._target, **fs.request)
                self._target.close()
                if self._autocommit:
                    self._target.commit()
            except BaseException as error:
                self._failure = error
                self._target.discard()

    def read(self, size: int = -1, /) -> bytes:
        """What is protected: called by its thread."""
        data = self._source.read(size)
        if self._is_abandoned:
            raise EnforcementError("io_failed", "the writer left the file")
        return data

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        """Writes all of it: a signal may cut short what the pipe takes at once."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest:
                rest = rest[self._sink.write(rest) or 0 :]
            return size
        except BrokenPipeError:
            self._work.join()
            raise self._failure or EnforcementError("io_failed", "the file was left") from None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # What an error cuts short is not the file.
        self._is_abandoned = kind is not None
        try:
            self.close()
        except EnforcementError:
            if kind is None:
                raise

    def close(self) -> None:
        """Also raises the error that it is closed because of: wrappers for text and compression only close it."""
        if self.closed:
            return
        error = sys.exc_info()[1]
        is_cut_short = error is not None and error is not self._handled
        self._is_abandoned = self._is_abandoned or is_cut_short
        super().close()
        self._sink.close()
        self._work.join()
        if self._failure is not None:
            raise (error if is_cut_short and error is not None else self._failure)

    def commit(self) -> None:
        """Gives the file its name, at the end of a transaction of fsspec. One that failed has none."""
        self.close()
        if self._failure is None:
            self._target.commit()

    def discard(self) -> None:
        """Leaves no file of a transaction that failed."""
        self._is_abandoned = True
        with contextlib.suppress(Exception):
            self.close()
        if self._failure is None:
            self._target.discard()


def _header_of(file: BinaryIO, profile: Profile) -> tuple[bytes, int]:
    """
    An envelope's header, or a TDF's manifest, with the size of the plaintext. That is unproven until the end is read: a
    range that ends behind the data proves where it ends.
    """
    size = size_of(file)
    if profile == "tdf":
        found = read_tdf(file)
        return found.container.manifest, found.plaintext_size
    header = read_header(file)
    encoded = encode_header(header)
    return encoded, plaintext_size(header.binding["aead"], size - len(encoded))
