"""Whether a record is the one of an answer: of the question that was asked, by its caller, then, and so answered."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from google.protobuf.message import Message

from .. import bulk_v1, v1
from ..errors import ReceiptRefused
from ._relations import ABSENT, ANSWER, TABLE, WHOAMI, at, differences, same
from ._spelling import recorded_form, route_json
from ._texts import Json, require

ROUTES: dict[type[Message], str] = {
    v1.PlanProtectionResponse: "protection-plan",
    v1.ResolvePolicyResponse: "policy-resolve",
    v1.PlanKeyAccessResponse: "key-access-plan",
    v1.RegisterArtifactResponse: "artifact-register",
    v1.RecordEvidenceResponse: "evidence",
    v1.PlanProtectionRequest: "protection-plan",
    v1.ResolvePolicyRequest: "policy-resolve",
    v1.PlanKeyAccessRequest: "key-access-plan",
    v1.RegisterArtifactRequest: "artifact-register",
    v1.RecordEvidenceRequest: "evidence",
    bulk_v1.ProtectionPlanItem: "protection-plan",
    bulk_v1.PolicyResolutionItem: "policy-resolve",
    bulk_v1.KeyAccessPlanItem: "key-access-plan",
    bulk_v1.RegistrationResult: "artifact-register",
    bulk_v1.EventResult: "evidence",
}
_TOLERANCE: float = TABLE["time"]["tolerance_seconds"]
_REWRITTEN: list[str] = TABLE["request"]["rewritten"]


@dataclass(frozen=True)
class Asked:
    """What a caller knows of its call before there is an answer."""

    request: Message | None
    """As it was sent; None if it was not kept."""
    caller: v1.Caller | None = None
    """As `who_am_i` names it; None if that is not known."""
    sent_at: float | None = None
    """
    When it was sent first, in seconds of `time.time`: the record is no older, and not of the future, but for the
    tolerance of two clocks. `-inf` if it may have been recorded at any time before; None if nothing is known, as of an
    answer that was kept.
    """


def holder_of(answer: Message) -> str:
    """The member that has the receipt."""
    holder: str = TABLE["routes"][ROUTES[type(answer)]]["holder"]
    return holder


def require_answers(answer: Message, asked: Asked, record_id: str, record: dict[str, Json] | None) -> None:
    """
    Raises ReceiptRefused if the record is not the answer's. `record` is None of a brief receipt, which names a
    decision and nothing else of it.
    """
    _require_recorded(ROUTES[type(answer)], route_json(answer), None, asked, record_id, record)


def require_item(
    item: Message, told: v1.Caller | None, asked: Asked, record_id: str, record: dict[str, Json] | None
) -> None:
    """The same of an item of a bulk call or stream. `told`: the caller that the answer around it names, if it does."""
    require_outcome(item)
    said = route_json(item)
    # Items say nothing of the request, nor of the whole answer.
    parts = ["decision", "execution", "handling", "registration", "ingestion"]
    if told is not None:
        said["caller"] = route_json(told)
        parts.append("caller")
    _require_recorded(ROUTES[type(item)], said, parts, asked, record_id, record)


def require_outcome(item: Message) -> None:
    """An item that was answered says so, and no other has an answer."""
    is_answered: bool = getattr(item, "outcome", None) == bulk_v1.ITEM_OUTCOME_ANSWERED
    require(is_answered == item.HasField(holder_of(item)), "the item's outcome is not what it has")


def _require_recorded(
    route: str,
    said: dict[str, Json],
    parts: list[str] | None,
    asked: Asked,
    record_id: str,
    record: dict[str, Json] | None,
) -> None:
    spec = TABLE["routes"][route]
    if spec["kind"] == "decision":
        is_own = same(at(said, ("decision", "decision_id")), record_id)
        require(is_own, "the receipt is of another decision than the answer")
    if record is None:
        return
    is_of_route = record["kind"] == spec["kind"] and record["route"] == f"/v1/sdk/{route}"
    require(is_of_route, "the receipt is of another call than the answer")
    _require_none(differences(ANSWER[route], said, record, parts), "the answer")
    if asked.caller is not None:
        _require_none(differences(WHOAMI[route], route_json(asked.caller), record), "its caller")
    if asked.request is not None:
        require(ROUTES[type(asked.request)] == route, "the receipt is of another call than was made")
        _require_none(_request_differences(recorded_form(asked.request), record["request"]), "was asked")
    if asked.sent_at is not None:
        try:
            recorded_at = datetime.fromisoformat(str(record["recorded_at"]).replace("Z", "+00:00")).timestamp()
        except ValueError as error:  # Python's calendar begins with the year 1
            raise ReceiptRefused("the receipt is of a time before the year 1") from error
        require(recorded_at >= asked.sent_at - _TOLERANCE, "the receipt is of an earlier call than was made")
        require(recorded_at <= time.time() + _TOLERANCE, "the receipt is of a time to come")


def _request_differences(sent: dict[str, Json], recorded: Json) -> Iterable[str]:
    assert isinstance(recorded, dict)
    for name in sorted({*sent, *recorded}):
        one, other = at(sent, (name,)), at(recorded, (name,))
        is_rewritten = name in _REWRITTEN and one is not ABSENT
        if not is_rewritten and not same(one, other):
            yield name


def _require_none(different: Iterable[str], than: str) -> None:
    for member in different:
        require(False, f"the receipt is of another {member} than {than}")
