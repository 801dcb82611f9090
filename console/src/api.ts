/**
 * The routes of the operator listener. A token stays in this module's memory: a reload forgets it. The session of a
 * person who signed in at the issuer is a cookie, which no script can read.
 */
import { parseJson } from "@client/json.ts";
import type { GivenReceipt } from "./verify.ts";

/** A log as `GET /ledger` lists it. */
export interface Log {
  readonly name: string;
  readonly tenant_id: string;
  readonly origin: string;
  readonly size: number;
  readonly verifier_keys: readonly string[];
}

/** What a record says, as a search shows it. Members without a value are absent. */
export interface Summary {
  readonly principal?: string;
  readonly subject?: string;
  readonly application?: string;
  readonly operation?: string;
  readonly resource?: { readonly kind?: string; readonly id?: string };
  readonly purpose?: string;
  readonly labels?: readonly string[];
  readonly artifact_digest?: string;
  readonly cids?: readonly string[];
  readonly outcome?: string;
  readonly reasons?: readonly string[];
  readonly alerts?: readonly string[];
  readonly citation?: string;
  readonly decision_id?: string;
  readonly evidence?: string;
  /** The record that an operator erased, or released from a hold. */
  readonly about_record?: string;
  readonly reason?: string;
}

/** A row of a search. */
export interface Row {
  readonly leaf_index: number;
  readonly record_id: string;
  readonly kind: string;
  readonly recorded_at: string;
  readonly erased: boolean;
  readonly summary?: Summary;
}

export interface Page {
  readonly found: readonly Row[];
  /** Leaves of the log. */
  readonly tree_size: number;
  /** Counts of this page's leaves, if the search counts; those of all pages add up. */
  readonly counted?: Counted;
  readonly next?: number;
}

export interface Counted {
  readonly records: number;
  /** Most records first. */
  readonly values: readonly { readonly value: string; readonly records: number }[];
}

/** What records can be counted by. */
export type Counting = "principal" | "reason" | "resource" | "application" | "day";

type Counts = Counted["values"];

/** A report's numbers. */
export interface ReportCounts {
  readonly records: number;
  readonly by_time: Counts;
  /** By principal, reason or operator: what its template counts by. */
  readonly values: Counts;
  readonly revisions: readonly { readonly revision: string; readonly since: string }[];
}

export type Criteria = Readonly<Record<string, string>>;

export interface Proven {
  readonly erased: boolean;
  readonly receipt?: GivenReceipt;
}

/** A condition that a policy needs and the question does not meet. */
export interface Unmet {
  readonly condition: string;
  readonly needs: string;
  readonly state: string;
  readonly inputs: Readonly<Record<string, unknown>>;
}

export interface ExplainedPolicy {
  readonly id: string;
  readonly file: string;
  readonly line: number;
  readonly effect: string;
  readonly description?: string;
  readonly decided: boolean;
  readonly inputs: Readonly<Record<string, unknown>>;
  readonly unmet: readonly Unmet[];
}

export interface Layer {
  readonly layer: string;
  readonly set: string;
  readonly outcome: string;
  readonly policies: readonly ExplainedPolicy[];
}

export interface Explained {
  readonly recorded_revision: string;
  readonly current_revision: string;
  /** Absent if the policies in force need what the decision did not look up. */
  readonly explanation?: {
    readonly allow: boolean;
    readonly reasons: readonly string[];
    readonly inputs: readonly string[];
    readonly layers: readonly Layer[];
  };
}

export interface Readiness {
  readonly status: string;
  readonly checks: readonly { readonly name: string; readonly status: string; readonly reason?: string }[];
}

/** The listener's refusal, in its own words. */
export class Refusal extends Error {
  readonly status: number;
  readonly requestId: string | undefined;

  constructor(status: number, message: string, requestId?: string) {
    super(message);
    this.status = status;
    this.requestId = requestId;
  }
}

let credentials: string | undefined;
let onExpired: () => void = () => {};

/** Keeps the credentials if the listener takes them, and returns the logs that they may see. */
export async function signIn(given: string, expired: () => void): Promise<readonly Log[]> {
  credentials = given;
  onExpired = () => {};
  try {
    const logs = await logsOf();
    onExpired = expired;
    return logs;
  } catch (error) {
    credentials = undefined;
    throw error;
  }
}

/** How people sign in here, and the session of this browser, if there is one. */
export interface SignInState {
  /** Whether people can sign in at an issuer. */
  readonly sign_in: boolean;
  readonly session?: { readonly subject: string; readonly tenants?: readonly string[]; readonly expires_at: string };
}

let isBySession = false;

export async function signInState(): Promise<SignInState> {
  return (await fetch("/console/session", { cache: "no-store" })).json();
}

/** Uses the browser's session, and returns the logs that it may see. */
export async function resume(expired: () => void): Promise<readonly Log[]> {
  isBySession = true;
  onExpired = expired;
  return logsOf();
}

/** Forgets the token, or ends the browser's session. Rejects if the listener did not end it. */
export async function signOut(): Promise<void> {
  const wasBySession = isBySession;
  credentials = undefined;
  isBySession = false;
  onExpired = () => {};
  if (wasBySession) await answer("/console/sign-out", { method: "POST", credentials: "same-origin" });
}

export async function logsOf(): Promise<readonly Log[]> {
  return (await answerOf<{ logs: readonly Log[] }>("/ledger")).logs;
}

/** Searches a log. Values go in the body: an address may end up in files that more people read. */
export function search(log: string, criteria: Criteria, signal?: AbortSignal): Promise<Page> {
  return answerOf(`/ledger/${encodeURIComponent(log)}/search`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(criteria),
    ...(signal !== undefined && { signal }),
  });
}

/** Rows with summaries, the newest first. */
export function newestRows(log: string, criteria: Criteria, signal?: AbortSignal): Promise<Page> {
  return search(log, { ...criteria, newest: "true", summary: "true" }, signal);
}

/** Counts all matching records. */
export async function count(log: string, criteria: Criteria, by: Counting, signal?: AbortSignal): Promise<Counted> {
  const sums = new Map<string, number>();
  let records = 0;
  let after: Criteria = {};
  for (;;) {
    const page = await search(log, { ...criteria, ...after, count_by: by }, signal);
    records += page.counted?.records ?? 0;
    for (const { value, records: more } of page.counted?.values ?? []) sums.set(value, (sums.get(value) ?? 0) + more);
    if (page.next === undefined) break;
    after = { after: String(page.next) };
  }
  const values = [...sums].map(([value, some]) => ({ value, records: some }));
  return { records, values: values.sort((one, other) => other.records - one.records) };
}

/** Numbers of a report. The period is `last`, or `from` and `to`. */
export function reportCounts(
  log: string,
  template: string,
  period: Criteria,
  signal?: AbortSignal,
): Promise<ReportCounts> {
  return answerOf(reportPath(log, { template, ...period, format: "json" }), signal === undefined ? {} : { signal });
}

/** The file of a report. */
export async function reportFile(log: string, asked: Criteria, signal?: AbortSignal): Promise<Blob> {
  return (await answer(reportPath(log, asked), signal === undefined ? {} : { signal })).blob();
}

function reportPath(log: string, asked: Criteria): string {
  return `/ledger/${encodeURIComponent(log)}/report?${new URLSearchParams(asked)}`;
}

export function recordOf(log: string, id: string): Promise<Proven> {
  return answerOf(`/ledger/${encodeURIComponent(log)}/record/${encodeURIComponent(id)}`);
}

export function explanationOf(log: string, id: string): Promise<Explained> {
  return answerOf(`/ledger/${encodeURIComponent(log)}/explanation/${encodeURIComponent(id)}`);
}

export async function checkpointOf(log: string): Promise<string> {
  return (await answer(`/ledger/${encodeURIComponent(log)}/checkpoint`)).text();
}

/** Readiness is an answer also when it is negative. */
export async function readiness(): Promise<Readiness> {
  return (await fetch("/readyz")).json();
}

export async function metricsText(): Promise<string> {
  return (await answer("/metrics")).text();
}

export async function answerOf<Answer>(path: string, init: RequestInit = {}): Promise<Answer> {
  return parseJson(await (await answer(path, init)).text()) as Answer;
}

async function answer(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (credentials !== undefined) headers.set("authorization", `Bearer ${credentials}`);
  const response = await fetch(path, {
    credentials: isBySession ? "same-origin" : "omit",
    ...init,
    headers,
    cache: "no-store",
  });
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({ error: undefined }));
  if (response.status === 401) onExpired();
  throw new Refusal(response.status, error?.message ?? `the listener answered ${response.status}`, error?.request_id);
}
