"""
Evidence that is on its way: an event is on disk before the work that it tells of begins, and leaves the disk only when
the ledger has it. The format is that of the TypeScript package.
"""

from __future__ import annotations

import contextlib
import copy
import json
import re
import uuid
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

from ..receipts._relations import TABLE
from ._files import (
    ProcessMark,
    alone,
    create_file,
    is_running,
    own_folder,
    own_process,
    read_regular,
    replace_file,
    require_own,
    sync_directory,
)
from ._platform import Json, Platform, Recorded, evidence_request, receipt_json
from ._trust import TrustedLog, moment_of
from .errors import EnforcementError

RECEIPTS_FORMAT = "svc-platform-receipts/v1"
MAX_RECEIPTS_FILE: int = TABLE["artifact"]["max_file_bytes"]
_MAX_ENTRY = 1_048_576


def timestamp(now: float) -> str:
    """RFC 3339 in milliseconds."""
    moment = datetime.fromtimestamp(now, timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


class Pending:
    """An event on its way."""

    def __init__(self, spool: Spool, entry: Json) -> None:
        self.id: str = entry["id"]
        self._spool, self._entry, self._is_tried = spool, entry, False
        spool.held.add(self.id)
        create_file(spool.path_of(entry), _bytes(entry))

    def settle(self, changes: Json, receipts_file: Path | None = None) -> None:
        """
        Replaces what is known of the event, or after it was sent tells more; durable when it returns. If it cannot be
        written, the event stays what it was, and no work holds it.
        """
        entry = {name: value for name, value in self._entry.items() if name != "at_work"}
        if self._is_tried:
            # What was sent may have arrived, and an idempotency key stands for one event: this is another.
            entry["id"] = str(uuid.uuid4())
        entry["event"] = entry["event"] | changes
        self._spool.held.add(entry["id"])
        if receipts_file is not None:
            entry["receipts_file"] = str(receipts_file)
        try:
            replace_file(self._spool.path_of(entry), _bytes(entry))
        except BaseException:
            # After it was sent, this is another event, which nothing on disk is of: it can be sent all the same.
            if self._is_tried:
                self._entry = entry
            else:
                self._spool.leave(self._entry)
            raise
        self._entry, self._is_tried = entry, False

    def conclude(self, changes: Json) -> None:
        """Sends how work ended that came to nothing; or, if that cannot be written, what was written when it began."""
        with contextlib.suppress(Exception):
            self.settle(changes)
        self.send()

    def send(self) -> Recorded | None:
        """Sends it; None where that did not succeed: it is kept."""
        self._is_tried = True
        try:
            return self._spool.send(self._entry)
        except Exception:
            return None
        finally:
            self._spool.held.discard(self._entry["id"])


class Spool:
    """The folder, on a local disk of one machine. Holds metadata only."""

    def __init__(self, directory: Path, platform: Platform, log: TrustedLog, now: Callable[[], float]) -> None:
        self._directory, self._platform, self._log, self._now = directory, platform, log, now
        self._left: set[str] = set()
        """Ids of events that this process left as they were."""
        self.held: set[str] = set()
        """Ids of events whose work in this process sends them itself."""

    def through(self, platform: Platform) -> Spool:
        """The same spool, whose events are sent in another way."""
        other = copy.copy(self)
        other._platform = platform
        return other

    def begin(self, event: Json, tolerance: float) -> Pending:
        """Keeps an event of work that begins now, with the outcome that holds if the work never ends."""
        now = self._now()
        own_folder(self._directory)
        mark = own_process()
        entry: Json = {
            "version": 1,
            "id": str(uuid.uuid4()),
            "at_work": {"pid": mark.pid, "started": mark.started},
            "due_at": timestamp(now + tolerance),
            "event": event | {"outcome": "aborted", "occurred_at": timestamp(now)},
        }
        return Pending(self, entry)

    def flush(self) -> tuple[int, int]:
        """
        Sends all that waits; how many were sent, and how many wait still. Raises `evidence_overdue` where an event
        that is due could not be sent: until it is on the ledger nothing else is done.
        """
        sent = waiting = 0
        overdue: str | None = None
        for entry in self._entries():
            mark = entry.get("at_work")
            is_left = entry["id"] in self._left
            if mark is not None and not is_left and is_running(ProcessMark(mark["pid"], mark["started"])):
                continue
            try:
                self.send(entry)
                sent += 1
            except Exception as error:
                waiting += 1
                if entry["due_at"] <= timestamp(self._now()) and overdue is None:
                    overdue = f"evidence {entry['id']} is overdue and cannot be sent ({error})"
        if overdue is not None:
            raise EnforcementError("evidence_overdue", overdue)
        return sent, waiting

    def send(self, entry: Json) -> Recorded:
        """Sends one, and forgets it when the ledger has it, as far as a trusted log's keys are known."""
        request = evidence_request(entry["event"])
        answer = self._platform.record_evidence(request, idempotency_key=entry["id"])
        ingestion = answer.ingestion
        # Another process may have sent it before; not before it happened.
        self._log.require(request, answer, moment_of(entry["event"]["occurred_at"]))
        if not ingestion.accepted:
            raise EnforcementError("unavailable", "the event was not accepted")
        if "receipts_file" in entry and ingestion.HasField("receipt"):
            _add_receipt(Path(entry["receipts_file"]), entry["id"], receipt_json(ingestion.receipt))
        for path in (self.path_of(entry), self._left_path_of(entry)):
            path.unlink(missing_ok=True)
        self._left.discard(entry["id"])
        sync_directory(self._directory)
        return answer

    def path_of(self, entry: Json) -> Path:
        """Where the entry is kept."""
        return self._directory / f"{entry['id']}.json"

    def _left_path_of(self, entry: Json) -> Path:
        return self._directory / f"{entry['id']}.left.json"

    def leave(self, entry: Json) -> None:
        """Lets every process send an event that is on disk. A new name takes no room on a disk that is full."""
        self._left.add(entry["id"])
        self.held.discard(entry["id"])
        with contextlib.suppress(OSError):
            self.path_of(entry).rename(self._left_path_of(entry))

    def _entries(self) -> list[Json]:
        """Oldest first. A file that is no entry fails: what it was is not known to be sent."""
        if not self._directory.exists():
            return []
        require_own(self._directory)
        entries: list[Json] = []
        for path in self._directory.iterdir():
            named = re.fullmatch(r"([0-9a-f-]{36})(\.left)?\.json", path.name)
            if named is None or named[1] in self.held:
                continue
            try:
                entry = json.loads(read_regular(path, _MAX_ENTRY))
                if entry["version"] != 1 or not isinstance(entry["event"], dict):
                    raise ValueError("no entry")
                if named[2] is not None:
                    entry.pop("at_work", None)
                entries.append(entry)
            except FileNotFoundError:
                # Another process sent it meanwhile.
                continue
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise EnforcementError("evidence_overdue", f"{path} cannot be read, so it cannot be sent") from error
        return sorted(entries, key=lambda entry: str(entry["event"]["occurred_at"]))


def write_receipts(path: Path, receipts: Json) -> None:
    """Writes the file beside an output."""
    replace_file(path, f"{json.dumps(receipts, indent=2, ensure_ascii=False)}\n".encode())


def _add_receipt(path: Path, evidence_id: str, receipt: Json) -> None:
    """Adds the receipt of an event that was sent later. A file that is gone, or of another event, is left alone."""
    if _receipts_of(path, evidence_id) is None:
        return
    # While no writer of the same output places its own.
    with alone(path):
        found = _receipts_of(path, evidence_id)
        if found is not None:
            found["receipts"]["evidence"] = receipt
            write_receipts(path, found)


def _receipts_of(path: Path, evidence_id: str) -> Json | None:
    try:
        found: Json = json.loads(read_regular(path, MAX_RECEIPTS_FILE))
        is_own = found["format"] == RECEIPTS_FORMAT and found["evidence_id"] == evidence_id
        return found if is_own and isinstance(found["receipts"], dict) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _bytes(entry: Json) -> bytes:
    return f"{json.dumps(entry, ensure_ascii=False)}\n".encode()
