"""Whether an answer of the platform lets the work be done: only what is said clearly, and can be met, does."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from .. import v1
from ._platform import PROFILES
from .errors import EnforcementError

ObligationHandler = Callable[[Mapping[str, str]], bool]
"""Meets an obligation with these parameters; anything but True means that it cannot be met."""

EVIDENCE_WITHIN = "evidence-within"
"""Demands that the event reaches the ledger within so many seconds; without it, before anything is released."""

Decision = v1.ProtectionDecision | v1.KeyAccessDecision
Execution = v1.ProtectionExecution | v1.KeyAccessExecution


def require_permission(
    decision: Decision,
    execution: Execution,
    profile: str,
    transports: Sequence[str],
    wrapping: Sequence[object],
    understood: Collection[str],
    handling_modes: Collection[str],
) -> None:
    """
    Raises `not_permitted` unless the decision allows the work to be done here and so. Meets nothing yet.

    `wrapping`: keys that wrap; one of them must be the TDF key that the plan names.
    """

    def require(holds: bool, why: str) -> None:
        if not holds:
            raise EnforcementError("not_permitted", why, decision.decision_id)

    reasons = f": {', '.join(decision.reasons)}" if decision.reasons else ""
    require(decision.allow, f"the platform denied it{reasons}")
    require(bool(decision.decision_id and decision.policy_revision), "the answer names no decision or policy revision")
    require(not execution.send_plaintext_to_platform, "the plan would send plaintext away")
    require(execution.artifact_profile == PROFILES[profile], "the plan is for another profile")
    mode = execution.key_transport.mode if execution.HasField("key_transport") else "local_provided"
    require(mode in transports, f"the plan is for a key that is {mode}, this one is {transports[-1]}")
    planned = execution.key_transport.tdf_key
    if profile == "tdf" and planned.url and wrapping:
        held = [(getattr(key, "url", None), getattr(key, "kid", None)) for key in wrapping]
        require((planned.url, planned.kid) in held, f"the plan is for the TDF key {planned.kid} of {planned.url}")
    if isinstance(execution, v1.ProtectionExecution):
        require(execution.protect_locally, "the plan is not to be carried out here")
        library = execution.local_enforcement_library
        require(library == "sdk_embedded_library", f"the plan is for {library}")
    else:
        require(execution.local_cryptographic_operation, "the plan is not to be carried out here")
    if isinstance(decision, v1.ProtectionDecision):
        require(decision.handling_mode in handling_modes, f"the platform demands {decision.handling_mode}")
    for obligation in decision.obligations:
        require(obligation.id in (*understood, EVIDENCE_WITHIN), f"the platform demands {obligation.id}")


def meet_obligations(decisions: Sequence[Decision], handlers: Mapping[str, ObligationHandler]) -> None:
    """Meets all obligations of the decisions. Raises `not_permitted` where one cannot be met."""
    for decision in decisions:
        for obligation in decision.obligations:
            if obligation.id != EVIDENCE_WITHIN and not _is_met(handlers[obligation.id], obligation):
                raise EnforcementError(
                    "not_permitted", f"the platform demands {obligation.id}: not met", decision.decision_id
                )


def _is_met(handler: ObligationHandler, obligation: v1.Obligation) -> bool:
    try:
        return handler(dict(obligation.parameters)) is True
    except Exception:
        return False


def evidence_tolerance(decisions: Sequence[Decision], limit: float | None) -> float:
    """
    For how long the event may be on its way, in seconds: the least that a decision names, and no more than `limit`;
    nothing where neither speaks. Raises `not_permitted` for an obligation that is not clear.
    """
    named: list[float] = []
    for decision in decisions:
        for obligation in decision.obligations:
            if obligation.id != EVIDENCE_WITHIN:
                continue
            seconds = obligation.parameters.get("seconds", "")
            if not re.fullmatch(r"[0-9]{1,9}", seconds) or len(obligation.parameters) != 1:
                raise EnforcementError(
                    "not_permitted", f"{EVIDENCE_WITHIN} has other parameters than seconds", decision.decision_id
                )
            named.append(float(seconds))
    return min([*named, *([] if limit is None else [limit])], default=0.0)
