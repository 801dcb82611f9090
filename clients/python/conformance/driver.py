"""The driver of the clients' conformance suite: a JSON object a line in, one out. `--async` drives the other client."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message

from svc_platform_client import (
    AsyncPlatformClient,
    ClientCredentials,
    NotPermitted,
    Options,
    PlatformClient,
    PlatformError,
    ReceiptRefused,
    Retry,
    Tls,
    v1,
    verify_receipt,
)

Json = dict[str, Any]

# Names of the methods, the same on both clients, and what they are asked with.
CALLS: dict[str, tuple[str, Callable[[], Message] | None]] = {
    "whoami": ("who_am_i", None),
    "capabilities": ("get_capabilities", None),
    "bootstrap": ("get_bootstrap", None),
    "cached-capabilities": ("capabilities", None),
    "cached-bootstrap": ("bootstrap", None),
    "protection-plan": ("plan_protection", v1.PlanProtectionRequest),
    "policy-resolve": ("resolve_policy", v1.ResolvePolicyRequest),
    "key-access-plan": ("plan_key_access", v1.PlanKeyAccessRequest),
    "artifact-register": ("register_artifact", v1.RegisterArtifactRequest),
    "evidence": ("record_evidence", v1.RecordEvidenceRequest),
}
HOLDERS = ("decision", "registration", "ingestion")


def settings(case: Json) -> tuple[str, Tls, ClientCredentials | None, Options]:
    tls, token, given = case.get("tls", {}), case.get("token"), case.get("options", {})
    tokens = token and ClientCredentials(
        token["issuer"], token["client_id"], token.get("client_secret"), token.get("scopes", [])
    )
    options = Options(
        deadline=given.get("deadline_ms", 10_000) / 1000,
        retry=Retry(
            max_attempts=given.get("max_attempts", 4),
            initial_backoff=given.get("initial_backoff_ms", 100) / 1000,
            max_backoff=given.get("max_backoff_ms", 5_000) / 1000,
        ),
        receipts=given.get("receipts", "whole"),
        log_keys=given.get("log_keys", []),
        understood_obligations=given.get("understood_obligations", []),
        understood_parameters=given.get("understood_parameters", {}),
        discovery_max_age=given.get("cache_ms", 60_000) / 1000,
        dpop=case.get("dpop", False),
    )
    return case["base_url"], Tls(tls.get("ca"), tls.get("cert"), tls.get("key")), tokens, options


def verdict(step: Json) -> Json:
    try:
        verify_receipt(ParseDict(step["receipt"], v1.Receipt()), step["log_key"])
    except (ReceiptRefused, ParseError, ValueError) as refused:
        print(refused, file=sys.stderr)
        return {"receipt": "refused"}
    return {"receipt": "verified"}


def call_of(client: PlatformClient | AsyncPlatformClient, step: Json) -> Callable[[], Any]:
    name, request = CALLS[step["call"]]
    arguments = [] if request is None else [ParseDict(step.get("request", {}), request())]
    options = {"idempotency_key": step["idempotency_key"]} if step.get("idempotency_key") else {}
    return lambda: getattr(client, name)(*arguments, **options)


def answered(client: PlatformClient | AsyncPlatformClient, step: Json, answer: Message) -> Json:
    holder = next((getattr(answer, name) for name in HOLDERS if name in answer.DESCRIPTOR.fields_by_name), None)
    known = client.options.log_keys and holder is not None and holder.HasField("receipt")
    if step.get("require_allow") and holder is not None:
        own: list[str] = step.get("request", {}).get("understoodObligations", [])
        client.require_allow(holder, own or None)
    return {"answer": MessageToDict(answer), "receipt": "verified" if known else "absent"}


def failed(error: Exception) -> Json:
    if isinstance(error, ReceiptRefused) and error.answer is not None:
        print(error, file=sys.stderr)
        return {"answer": MessageToDict(error.answer), "receipt": "refused"}
    if isinstance(error, NotPermitted):
        unknown = list(error.unknown_obligations)
        return {"not_permitted": {"reasons": list(error.reasons), "unknown_obligations": unknown}}
    if not isinstance(error, PlatformError):
        raise error
    print(error, file=sys.stderr)
    return {
        "error": {
            "code": error.code.name.lower(),
            "reason": error.reason,
            "request_id": error.request_id,
            "missing_scopes": list(error.missing_scopes),
            "violations": [{"field": violation.field} for violation in error.violations],
        }
    }


def run_step(client: PlatformClient, step: Json) -> Json:
    time.sleep(step.get("pause_ms", 0) / 1000)
    if step["call"] == "verify-receipt":
        return verdict(step)
    if step["call"] == "concurrent":
        with ThreadPoolExecutor(len(step["calls"])) as pool:
            return {"steps": list(pool.map(lambda one: run_step(client, one), step["calls"]))}
    try:
        return answered(client, step, call_of(client, step)())
    except Exception as error:
        return failed(error)


def run_case(case: Json) -> list[Json]:
    base_url, tls, tokens, options = settings(case)
    with PlatformClient(base_url, tls=tls, tokens=tokens, options=options) as client:
        return [run_step(client, step) for step in case["steps"]]


async def run_step_async(client: AsyncPlatformClient, step: Json) -> Json:
    await asyncio.sleep(step.get("pause_ms", 0) / 1000)
    if step["call"] == "verify-receipt":
        return verdict(step)
    if step["call"] == "concurrent":
        return {"steps": await asyncio.gather(*(run_step_async(client, one) for one in step["calls"]))}
    try:
        return answered(client, step, await call_of(client, step)())
    except Exception as error:
        return failed(error)


async def run_case_async(case: Json) -> list[Json]:
    base_url, tls, tokens, options = settings(case)
    async with AsyncPlatformClient(base_url, tls=tls, tokens=tokens, options=options) as client:
        return [await run_step_async(client, step) for step in case["steps"]]


def main() -> None:
    awaited = "--async" in sys.argv[1:]
    for line in sys.stdin:
        case: Json = json.loads(line)
        steps = asyncio.run(run_case_async(case)) if awaited else run_case(case)
        print(json.dumps({"case": case["case"], "steps": steps}), flush=True)


if __name__ == "__main__":
    main()
