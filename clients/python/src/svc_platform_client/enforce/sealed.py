"""
`sealed://`: a filesystem of fsspec over another one, which holds ciphertext only. Needs the extra `fsspec`.

Files are read at any position: each block is an access with its own decision and event. They are written as streams.
Names and listings are those of the other filesystem, and so are the sizes there.
"""

from __future__ import annotations

import io
import os
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

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, **options: Any) -> Any:
        """
        `artifact_digest`: of the file that is read, which is otherwise read once to compute it. A digest that was kept
        since protection also shows that the file is the same.
        """
        if mode == "wb":
            return _Writer(self, path)
        if mode != "rb":
            raise EnforcementError("invalid", "sealed files are opened to read, or to write them whole")
        digest, profile = options.pop("artifact_digest", None), self.request["profile"]
        with self.fs.open(path, "rb") as file:
            # A TDF is named by its manifest, which is read anyway.
            if digest is None and profile == "envelope":
                digest = digest_of(file).digest()
            size = _plaintext_size_of(file, profile)
        return _Reader(self, path, mode, block_size or "default", size=size, artifact_digest=digest, **options)


class _Reader(AbstractBufferedFile):  # type: ignore[misc]
    def __init__(self, *args: Any, artifact_digest: str | None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.request = self.fs.request | {"artifact_digest": artifact_digest}

    def _fetch_range(self, start: int, end: int) -> bytes:
        plaintext = io.BytesIO()
        with self.fs.fs.open(self.path, "rb") as file:
            self.fs.enforcer.open_range(file, plaintext, offset=start, length=end - start, **self.request)
        return plaintext.getvalue()


class _Writer(io.RawIOBase):
    """
    Protects what is written in a thread, at its speed. The file is committed only if all is recorded, in a filesystem
    that can (`autocommit=False`).
    """

    def __init__(self, fs: SealedFileSystem, path: str) -> None:
        self._failure: BaseException | None = None
        self._is_abandoned = False
        reading, writing = os.pipe()
        self._source, self._sink = os.fdopen(reading, "rb"), os.fdopen(writing, "wb", buffering=0)
        self._target = fs.fs.open(path, "wb", autocommit=False)
        self._work = threading.Thread(target=self._protect, args=(fs,))
        self._work.start()

    def _protect(self, fs: SealedFileSystem) -> None:
        with self._source:
            try:
                fs.enforcer.protect(cast(BinaryIO, self), self._target, **fs.request)
                self._target.close()
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
        try:
            return self._sink.write(data) or 0
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
        if self.closed:
            return
        super().close()
        self._sink.close()
        self._work.join()
        if self._failure is not None:
            raise self._failure


def _plaintext_size_of(file: BinaryIO, profile: Profile) -> int:
    """Unproven until the end is read: a range that ends behind the data proves where it ends."""
    size = size_of(file)
    if profile == "tdf":
        return read_tdf(file).plaintext_size
    header = read_header(file)
    return plaintext_size(header.binding["aead"], size - len(encode_header(header)))
