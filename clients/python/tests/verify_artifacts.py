"""Verifies artifacts by their receipts, for tests in other languages: requests in, verdicts out, each a list."""

from __future__ import annotations

import json
import sys
from typing import Any

from svc_platform_client.enforce import EnforcementError, LocalSigningKey, verify_artifact


def verdict(request: dict[str, Any]) -> dict[str, Any]:
    signers = request.get("signers")
    keys = None if signers is None else [LocalSigningKey(jwk["kid"], jwk) for jwk in signers]
    try:
        shown = verify_artifact(
            request["artifact"],
            kind=request.get("kind", "artifact"),
            log_keys=request["log_keys"],
            data=request.get("data"),
            keys=keys,
        )
    except EnforcementError as error:
        print(error, file=sys.stderr)
        return {"failure": error.failure}
    return {
        "operation": shown.operation,
        "decision_id": shown.decision_id,
        "names": [record.name for record in shown.records],
        "is_pending": shown.is_evidence_pending,
        "is_content_proven": shown.is_content_proven,
        "origin": None if shown.origin is None else shown.origin.decision_id,
    }


if __name__ == "__main__":
    json.dump([verdict(request) for request in json.load(sys.stdin)], sys.stdout)
