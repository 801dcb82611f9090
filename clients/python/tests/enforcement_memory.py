"""
Works on one large file in a process of its own, and prints its peak of memory. Arguments: operation, input, output; to
`verify`, the output that `sign` made, too.
"""

from __future__ import annotations

import json
import resource
import sys
import time

from permissive_platform import PermissivePlatform

from svc_platform_client.enforce import Enforcer, LocalKey, LocalSigningKey, LocalTdfKey

# RFC 8032 section 7.1, test 1.
SIGNER = {
    "kty": "OKP",
    "crv": "Ed25519",
    "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
}
# RFC 7515 appendix A.3.1.
TDF = {
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    "d": "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI",
}


def main() -> None:
    operation, source, target, *signature = sys.argv[1:]
    enforcer = Enforcer(
        PermissivePlatform(),
        application="memory",
        keys=[
            LocalKey("local-old", bytes([1] * 32)),
            LocalKey("local-new", bytes([2] * 32)),
            LocalSigningKey("local-signer", SIGNER),
            LocalTdfKey("local-tdf", TDF, url="https://kas.example.com"),
        ],
        attribute_namespace="example.com",
        spool_directory=f"{target}.spool",
    )
    started_at = time.monotonic()
    if operation == "protect":
        enforcer.protect(source, target, resource={"kind": "test"})
    elif operation == "sign":
        enforcer.protect(source, target, profile="detached_signature", resource={"kind": "test"})
    elif operation == "verify":
        enforcer.open(source, target, signature=signature[0])
    elif operation == "tdf-protect":
        enforcer.protect(source, target, profile="tdf", resource={"kind": "test"})
    elif operation == "tdf-open":
        enforcer.open(source, target, profile="tdf")
    elif operation == "open":
        enforcer.open(source, target)
    else:
        enforcer.rewrap(source, target, new_key_reference="local-new")
    elapsed_ms = (time.monotonic() - started_at) * 1000
    # Kibibytes, by getrusage(2).
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    json.dump({"peakBytes": peak, "elapsedMs": elapsed_ms}, sys.stdout)


if __name__ == "__main__":
    main()
