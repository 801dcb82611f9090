/** Callers without pauses: each makes one call after the other, with a random tenant, route and protocol. */
import { hash, randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { type SampleCall, sampleCalls } from "../dev/requests.ts";
import { findReceipt, type GivenReceipt, verifyReceipt } from "../src/ledger/record/receipt.ts";
import type { NoteVerifier } from "../src/ledger/tlog/note-keys.ts";
import { type Answer, type Call, callRest, grpcCaller, type Outcome } from "./soak-calls.ts";

export interface SoakClient {
  readonly tenantId: string;
  readonly clientId: string;
  readonly secret: string;
}

export interface Acknowledged {
  readonly tenant: string;
  readonly recordId: string;
  readonly log: string;
  readonly leafIndex: number;
  /** The resource id that only this call and its retries carried. */
  readonly resourceId: string;
}

export interface CallersOptions {
  readonly number: number;
  readonly urls: readonly string[];
  /** The first one is hot: it gets half of all calls. */
  readonly tenants: readonly string[];
  readonly tokenOf: (tenant: string) => string;
  /** Its tokens are used for a part of its tenant's calls. */
  readonly client: SoakClient;
  /** The trusted key, under the name of a log. */
  readonly verifierOf: (origin: string) => NoteVerifier;
  readonly random: () => number;
}

export interface Called {
  readonly acknowledged: readonly Acknowledged[];
  /** Resource ids of calls with an idempotency key, answered or not: each may be in the log once. */
  readonly keyed: ReadonlySet<string>;
  /** Calls that were repeated with their key and answered. */
  readonly repeated: number;
  readonly reads: number;
  readonly sessions: number;
  readonly problems: readonly string[];
}

/** Refusals that a gateway may give while it starts or stops, or while its store is busy. */
const passing: ReadonlySet<string> = new Set([
  "overloaded",
  "store_unavailable",
  "issuer_unavailable",
  "canceled",
  "deadline_exceeded",
]);
const retryMs = 20;
const keyedRoutes = ["/v1/sdk/artifact-register", "/v1/sdk/evidence"];
const sessionCall = { route: "/v1/sdk/session", rpc: "platform.sdk.v1.SessionService/CreateSession" };
const share = { hotTenant: 0.5, session: 0.04, keyed: 0.5, repeated: 0.5 };

/** Starts the callers. `stop` resolves with the results when the last call has ended. */
export function startCallers(options: CallersOptions) {
  const { random } = options;
  const protocols = [callRest, grpcCaller()];
  const acknowledged: Acknowledged[] = [];
  const keyed = new Set<string>();
  const problems: string[] = [];
  const called = { acknowledged, keyed, problems, repeated: 0, reads: 0, sessions: 0 };
  let sessionToken: string | undefined;
  let stopping = false;
  const pick = <Item>(items: readonly Item[]) => items[Math.floor(random() * items.length)] as Item;

  /** Undefined if no gateway serves now, or none answered. */
  async function ask(call: Omit<Call, "url">): Promise<Outcome> {
    const url = pick(options.urls);
    const outcome = url === undefined ? undefined : await pick(protocols)({ url, ...call });
    if (typeof outcome === "object") return outcome;
    if (outcome !== undefined && !passing.has(outcome)) problems.push(`${call.route} was refused: ${outcome}`);
    await delay(retryMs);
    return undefined;
  }

  async function openSession(): Promise<void> {
    const { tenantId, clientId, secret } = options.client;
    const body = { tenant_id: tenantId, client_id: clientId, client_secret: secret };
    // A new address each time, so that this client stays below the rate limit.
    const address = `10.${[0, 0, 0].map(() => Math.floor(random() * 256)).join(".")}`;
    const answer = await ask({ ...sessionCall, body, headers: { "x-forwarded-for": address } });
    if (answer === undefined) return;
    if (answer.tenant_id !== tenantId) problems.push(`a session of ${tenantId} is of ${answer.tenant_id}`);
    sessionToken = answer.access_token;
    called.sessions += 1;
  }

  function tokenFor(tenant: string): string {
    const hasSession = tenant === options.client.tenantId && sessionToken !== undefined;
    return hasSession && random() < share.repeated ? (sessionToken as string) : options.tokenOf(tenant);
  }

  async function callOnce(): Promise<void> {
    if (random() < share.session) return openSession();
    const tenant = random() < share.hotTenant ? (options.tenants[0] as string) : pick(options.tenants);
    const sample = pick(sampleCalls());
    const headers = { authorization: `Bearer ${tokenFor(tenant)}` };
    if (sample.body === undefined) return read(tenant, sample, headers);
    const resourceId = randomUUID();
    const body = { ...sample.body, resource: { kind: "soak", id: resourceId } };
    const call = { ...sample, headers, body };
    if (keyedRoutes.includes(sample.route) && random() < share.keyed) return recordOnce(tenant, call, resourceId);
    const answer = await ask(call);
    if (answer !== undefined) acknowledge(tenant, resourceId, answer);
  }

  async function read(tenant: string, { route, rpc }: SampleCall, headers: Call["headers"]): Promise<void> {
    const answer = await ask({ route, rpc, headers });
    if (answer === undefined) return;
    if (answer.caller.tenant_id !== tenant) problems.push(`${route} answered ${tenant} as ${answer.caller.tenant_id}`);
    called.reads += 1;
  }

  /**
   * Repeats the call with its key until it is answered; then several times concurrently, which must give the same
   * answer.
   */
  async function recordOnce(tenant: string, call: Omit<Call, "url">, resourceId: string): Promise<void> {
    const headers = { ...call.headers, "idempotency-key": resourceId };
    keyed.add(resourceId);
    let first: Answer | undefined;
    while (first === undefined && !stopping) first = await ask({ ...call, headers });
    if (first === undefined) return;
    acknowledge(tenant, resourceId, first);
    if (random() > share.repeated) return;
    const digest = digestOf(first);
    const again = await Promise.all([1, 2, 3].map(() => ask({ ...call, headers })));
    for (const answer of again.filter((each) => each !== undefined)) {
      called.repeated += 1;
      if (digestOf(answer) !== digest) problems.push(`${resourceId}: a retry got another receipt`);
    }
  }

  function acknowledge(tenant: string, resourceId: string, answer: Answer): void {
    const receipt = findReceipt(answer);
    if (receipt === undefined) return void problems.push(`${resourceId}: an answer without a receipt`);
    const { record_id: recordId, log_origin: log, leaf_index: leafIndex } = receipt;
    const problem = receiptProblem(receipt, tenant, resourceId, options.verifierOf(log));
    if (problem !== undefined) problems.push(`${resourceId}: ${problem}`);
    acknowledged.push({ tenant, recordId, log, leafIndex, resourceId });
  }

  const work = async () => {
    while (!stopping) await callOnce();
  };
  const all = Promise.all(Array.from({ length: options.number }, work));
  return {
    called: called as Called,
    async stop(): Promise<Called> {
      stopping = true;
      await all;
      return called;
    },
  };
}

function digestOf(answer: Answer): string {
  return hash("sha256", JSON.stringify(findReceipt(answer)), "base64");
}

/** The problem with a receipt; undefined if it proves the record of this call. */
function receiptProblem(
  receipt: GivenReceipt,
  tenant: string,
  resourceId: string,
  verifier: NoteVerifier,
): string | undefined {
  try {
    const { record } = verifyReceipt(receipt, verifier);
    const { resource } = (record?.request ?? {}) as { readonly resource?: { readonly id?: string } };
    if (record?.tenant_id === tenant && resource?.id === resourceId) return undefined;
    return "its receipt shows another record";
  } catch (error) {
    return `its receipt does not verify: ${error instanceof Error ? error.message : String(error)}`;
  }
}
