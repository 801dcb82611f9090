"""
Pending evidence: an event is on disk before its work begins, and leaves the disk only when the ledger has it. The
format is that of the TypeScript package: each line of a file is the event as it became known, and the last complete
line counts. A killed process, or a full disk, may leave a part of a line.
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
    append_file,
    is_running,
    own_folder,
    own_process,
    read_regular,
    replace_file,
    require_own,
    sweep,
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
        replace_file(spool.path_of(self.id), _line(entry))

    def settle(self, changes: Json, receipts_file: Path | None = None) -> None:
        """
        Updates the event, or, after it was sent, adds another one; durable when it returns. If it cannot be written,
        the event stays as it was, without a working process.
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
            write = replace_file if self._is_tried else append_file
            write(self._spool.path_of(entry["id"]), _line(entry))
        except BaseException:
            # After it was sent, this is another event, which nothing on disk is of: it can be sent all the same.
            if self._is_tried:
                self._entry = entry
            else:
                self._spool.leave(self._entry["id"])
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
        """Ids of events that any process may send, although the one at work still runs."""
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
                if self._is_due(entry) and overdue is None:
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
            try:
                _add_receipt(Path(entry["receipts_file"]), entry["id"], receipt_json(ingestion.receipt))
            except (OSError, EnforcementError):
                # The ledger has the event: a folder that takes no file does not make it overdue.
                if not self._is_due(entry):
                    raise
        self.path_of(entry["id"]).unlink(missing_ok=True)
        if entry["id"] in self._left:
            self._left_path_of(entry["id"]).unlink(missing_ok=True)
            self._left.discard(entry["id"])
        sync_directory(self._directory)
        return answer

    def _is_due(self, entry: Json) -> bool:
        return str(entry["due_at"]) <= timestamp(self._now())

    def path_of(self, event_id: str) -> Path:
        """File of the event."""
        return self._directory / f"{event_id}.json"

    def _left_path_of(self, event_id: str) -> Path:
        return self._directory / f"{event_id}.left.json"

    def leave(self, event_id: str) -> None:
        """Lets any process send an event on disk. Renaming works on a full disk."""
        self._left.add(event_id)
        self.held.discard(event_id)
        with contextlib.suppress(OSError):
            self.path_of(event_id).rename(self._left_path_of(event_id))

    def _entries(self) -> list[Json]:
        """Oldest first. Raises `evidence_overdue` for a malformed file: its event may not have been sent."""
        if not self._directory.exists():
            return []
        require_own(self._directory)
        entries: list[Json] = []
        for path in self._directory.iterdir():
            named = re.fullmatch(r"\.?([0-9a-f-]{36})(\.left)?\.json(\..+\.partial)?", path.name)
            if named is None or named[1] in self.held:
                continue
            if named[3] is not None:
                sweep(self.path_of(named[1]))
                continue
            if named[2] is not None:
                self._left.add(named[1])
            try:
                complete = read_regular(path, _MAX_ENTRY).split(b"\n")[:-1]
                entry = json.loads(next(filter(None, reversed(complete)), b""))
                if entry["version"] != 1 or not isinstance(entry["event"], dict):
                    raise ValueError("no entry")
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


def _line(entry: Json) -> bytes:
    """The first line break ends the rest of an earlier attempt."""
    return f"\n{json.dumps(entry, ensure_ascii=False)}\n".encode()
