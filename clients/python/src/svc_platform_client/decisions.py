"""What a decision permits: what it allows, as long as the program can do all that it demands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from . import v1
from .errors import NotPermitted

Decision = v1.ProtectionDecision | v1.PolicyDecision | v1.KeyAccessDecision


def permitted(
    decision: Decision, understood: Sequence[str] = (), parameters: Mapping[str, Sequence[str]] | None = None
) -> bool:
    """
    Whether it allows, and every obligation is understood.

    `parameters` names those that are understood, by obligation; of an obligation that is not in it all are.
    """
    return decision.allow and not unknown_obligations(decision.obligations, understood, parameters or {})


def require_allow(
    decision: Decision, understood: Sequence[str] = (), parameters: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Raises NotPermitted unless `permitted`."""
    if not permitted(decision, understood, parameters):
        unknown = unknown_obligations(decision.obligations, understood, parameters or {})
        raise NotPermitted(list(decision.reasons), unknown)


def unknown_obligations(
    obligations: Iterable[v1.Obligation], understood: Sequence[str], parameters: Mapping[str, Sequence[str]]
) -> list[str]:
    if isinstance(understood, str):
        raise TypeError("understood is a list of ids: a text would hold every part of itself")
    unknown = [
        obligation.id
        for obligation in obligations
        if obligation.id not in understood
        or not set(obligation.parameters) <= set(parameters.get(obligation.id, obligation.parameters))
    ]
    return list(dict.fromkeys(unknown))
