/** All cases: the specification of a client, sentence by sentence. */
import type { Case } from "../check.ts";
import { bulk } from "./bulk.ts";
import { bulkReceipts } from "./bulk-receipts.ts";
import { calls } from "./calls.ts";
import { certificates } from "./certificates.ts";
import { deadlines } from "./deadlines.ts";
import { dpop } from "./dpop.ts";
import { errors } from "./errors.ts";
import { idempotency } from "./idempotency.ts";
import { kept } from "./kept.ts";
import { obligations } from "./obligations.ts";
import { receipts } from "./receipts.ts";
import { retries } from "./retries.ts";
import { streamAttempts } from "./stream-attempts.ts";
import { streams } from "./streams.ts";
import { tokens } from "./tokens.ts";

export const cases: readonly Case[] = [
  ...calls,
  ...certificates,
  ...tokens,
  ...dpop,
  ...retries,
  ...idempotency,
  ...deadlines,
  ...errors,
  ...receipts,
  ...obligations,
  ...kept,
  ...bulk,
  ...bulkReceipts,
  ...streams,
  ...streamAttempts,
];
