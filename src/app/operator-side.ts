/**
 * The operators' side: the operator listener over readiness, metrics and the logs; who may read these, operators by their
 * credentials and tenants by their own tokens; and the policies that it shows: in force, as they were, and drafts.
 */

import * as fileSystem from "node:fs/promises";
import { readFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { type Authenticator, matchTenantHeader, requireScopes } from "../auth/authenticator.ts";
import { inRealm, presentedScheme } from "../auth/challenge.ts";
import { createIssuerFetch } from "../auth/issuer-documents.ts";
import { createSignIn, type SignIn } from "../auth/sign-in.ts";
import { ServiceError } from "../base/errors.ts";
import type { RecordId, TenantId } from "../base/ids.ts";
import { type Timers, withTimeLimit } from "../base/timers.ts";
import type { ConfigFor } from "../config/config.ts";
import { parseSignInFile } from "../config/data-files.ts";
import { type OpsCredential, operatorOf, parseOpsCredentials } from "../credentials/ops-credentials.ts";
import { inboundOf } from "../http/inbound-request.ts";
import type { PublishedLogs, RecordArchive } from "../ledger/ports/ledger.ts";
import { parseLeaf } from "../ledger/record/leaf.ts";
import { entriesIn, tilePath, tileWidth } from "../ledger/tlog/tiles.ts";
import type { ServedPolicies, Viewer } from "../ops/ledger-access.ts";
import { createOpsListener, type OpsListener, type OpsListenerOptions } from "../ops/listener.ts";
import type { ReadinessCheck } from "../ops/readiness.ts";
import { hasSession, sessionOf } from "../ops/sign-in-routes.ts";
import type { PolicyInForce } from "../policy/engine/policy-in-force.ts";
import { identify, type PolicyBundle, parseBundleContent, tenantSet } from "../policy/load/bundle.ts";
import { copyPolicyFiles } from "../policy/load/directory.ts";
import type { FirstPolicySettings } from "./first-policy.ts";
import { followTls, type Machine } from "./followed-files.ts";
import { defectReport, type ServeConfig } from "./gateway.ts";
import { newerSet } from "./live-policy.ts";

/** Parts of the operator listener. The caller closes them. */
interface OperatorParts {
  readonly checks: readonly ReadinessCheck[];
  readonly logs: PublishedLogs & Pick<RecordArchive, "find" | "policyRevision">;
  readonly policy: PolicyInForce;
  readonly viewers: OpsViewers;
  readonly hold: NonNullable<OpsListenerOptions["hold"]>;
}

export async function createOperatorSide(
  config: ServeConfig,
  machine: Machine,
  { checks, logs, policy, viewers, hold }: OperatorParts,
): Promise<OpsListener> {
  const { clock, timers, random, logger, metrics } = machine;
  if (!servesLogs(config))
    logger.warn({}, "the operator listener does not serve the logs: off loopback it needs SVC_OPS_TLS_CERT");
  let listener: OpsListener | undefined;
  const tls = await followTls("ops_tls", machine, (next) => listener?.replaceTls(next));
  listener = createOpsListener({
    hold,
    serviceName: config.serviceName,
    checks,
    metrics,
    logs: servesLogs(config)
      ? {
          logs,
          viewerOf: viewers.viewerOf,
          explain: (tenantId, recordId) => explainDecision(logs, policy, tenantId, recordId),
          signIn: viewers.signIn,
          policies: servedPolicies(config, logs, policy, timers),
          consolePage: new URL("../../console/dist/index.html", import.meta.url),
        }
      : undefined,
    ...(tls !== undefined && { tls: tls.current }),
    loopback: config.opsListen.loopback,
    onDefect: defectReport(logger),
    logger,
    clock,
    timers,
    random,
  });
  return listener;
}

/**
 * Explains a recorded decision under the policies in force. `explanation` is absent if these policies read the artifact's
 * registrations, and the decision did not look them up. Rejects with `no_route` if there is no such decision, or it was
 * erased.
 */
async function explainDecision(
  archive: Pick<RecordArchive, "find">,
  policy: PolicyInForce,
  tenantId: TenantId,
  recordId: RecordId,
) {
  const { findDecision } = await import("../domain/replay.ts");
  const decision = await findDecision(archive, tenantId, recordId);
  if (decision === "erased") throw new ServiceError("no_route", "the decision, or what it relied on, was erased");
  if (typeof decision === "string") throw new ServiceError("no_route", "the log has no such decision");
  const { record, query, isComplete } = decision;
  return {
    recorded_revision: record.outcome.policy_revision,
    current_revision: policy.revision,
    ...((isComplete || !policy.readsRegistered(query)) && { explanation: policy.engine.explain(query) }),
  };
}

/** A refused set causes a remark only: the one in force is valid, and a mistake must not stop every replica at once. */
export function policyReadiness(policy: PolicyInForce): ReadinessCheck {
  return { name: "policy", check: async () => {}, remark: () => policyRemark(policy) };
}

/** For operators: the number of problems. The problems themselves are only in the log, which fewer people can read. */
function policyRemark({ status }: PolicyInForce): string | undefined {
  const { newest, problems = [] } = status;
  if (newest === "in_force") return undefined;
  return `a newer policy set ${newerSet[newest]}${problems.length > 0 ? `; problems named in the log: ${problems.length}` : ""}`;
}

type Config = ConfigFor<"serve">;

export interface OpsViewers {
  viewerOf(request: IncomingMessage): Promise<Viewer>;
  /** Sign-in to the console; undefined without its setting. */
  readonly signIn: SignIn | undefined;
}

/** Time limit for fetching the issuer's keys, in milliseconds. */
const deadlineMs = 5_000;

/** The protection space (RFC 9110 §11.5): the logs. Operators' credentials are valid only here. */
const realm = "ledger";
const challenge = `Bearer realm="${realm}"`;
/** Lets a tenant's token search by what requests were about, not only by caller. */
const searchScope = "ledger.search";
const anonymousRefusal = new ServiceError(
  "missing_token",
  `this search needs operator credentials, or an access token with the scope ${searchScope}`,
  { challenge },
);
/** b64token (RFC 6750 §2.1) under the only scheme for operators. */
const bearer = /^Bearer +([A-Za-z0-9._~+/-]+=*)$/i;

/** Whether the logs are served: credentials and records must not cross a network in plaintext. */
export function servesLogs({ opsListen, opsTlsCert }: Pick<Config, "opsListen" | "opsTlsCert">): boolean {
  return opsListen.loopback || opsTlsCert !== undefined;
}

/**
 * Watches the file of the operators' credentials, if one is named. Rejects, naming the setting, if it is invalid.
 * @param authenticator the service's own: a tenant's token is accepted here exactly if it is there
 */
export async function openOpsViewers(
  config: Config,
  authenticator: Pick<Authenticator, "authenticate">,
  machine: Machine,
): Promise<OpsViewers> {
  const { files, timers } = machine;
  const signIn = await openSignIn(config, machine);
  const operators = await files.follow("ops_credentials", {
    parse: ([text = ""]) => parseOpsCredentials(text),
    describe: ({ length }) => ({ operators: String(length) }),
  });
  return {
    signIn,
    async viewerOf(request) {
      const session = request.headers.authorization === undefined ? await signedIn(request, signIn) : undefined;
      return session ?? (await viewerOf(request, config, operators?.current ?? [], authenticator, timers));
    },
  };
}

/** Rejects, naming the setting, if the issuer may not be used. An issuer that is down does not prevent the start. */
async function openSignIn(config: Config, { clock, timers, random, fetch }: Machine): Promise<SignIn | undefined> {
  const { consoleSignIn: file, oidcCa } = config;
  if (file === undefined) return undefined;
  const { clientSecretFile, ...rule } = parseSignInFile(await readFile(file, "utf8"));
  const clientSecret = (await readFile(clientSecretFile, "utf8")).trim();
  const authorities = oidcCa === undefined ? undefined : () => readFile(oidcCa, "utf8");
  const signIn = createSignIn({
    ...rule,
    clock,
    timers,
    random,
    clientSecret,
    fetch: createIssuerFetch(fetch, authorities),
  });
  await signIn.check().catch((error: Error) => {
    throw new Error(`SVC_CONSOLE_SIGN_IN: ${error.message}`);
  });
  return signIn;
}

/** The viewer of a session, whose cookie counts for pages of the console only. Undefined without a cookie. */
async function signedIn(request: IncomingMessage, signIn: SignIn | undefined): Promise<Viewer | undefined> {
  if (signIn === undefined || !hasSession(request, signIn)) return undefined;
  const session = await sessionOf(request, signIn);
  if (session === undefined) {
    const message = "the session ended, or the request is not of a page of the console: sign in there";
    throw new ServiceError("expired_token", message, { challenge });
  }
  const { subject: operator, tenantIds } = session;
  return { tenantIds, operator, presented: true, contentRefusal: undefined };
}

async function viewerOf(
  request: IncomingMessage,
  config: Config,
  operators: readonly OpsCredential[],
  authenticator: Pick<Authenticator, "authenticate">,
  timers: Timers,
): Promise<Viewer> {
  const inbound = inboundOf(request);
  const values = inbound.headerValues("authorization");
  if (values.length === 0) {
    if (config.opsListen.loopback) return { tenantIds: undefined, presented: false, contentRefusal: anonymousRefusal };
    throw new ServiceError("missing_token", "operator credentials or an access token are required", { challenge });
  }
  const [, token] = values.length === 1 ? (bearer.exec(values[0] ?? "") ?? []) : [];
  const operator = token === undefined ? undefined : operatorOf(operators, token);
  if (operator !== undefined) return { tenantIds: undefined, operator, presented: true, contentRefusal: undefined };
  // Identity headers name no operator, and no tenant here: they identify calls, not people who read logs.
  if (config.authMode === "trusted_headers")
    throw new ServiceError("invalid_token", "the credentials are not an operator's", {
      challenge: `${challenge}, error="invalid_token"`,
    });
  try {
    const silent = () => new ServiceError("issuer_unavailable", "the keys of the token issuer are not available");
    const authenticate = (signal: AbortSignal) => authenticator.authenticate(inbound, signal);
    const caller = await withTimeLimit(timers, deadlineMs, silent, authenticate);
    matchTenantHeader(caller, inbound, `${config.headerPrefix}tenant-id`);
    requireScopes(caller, config.defaultRequiredScopes, presentedScheme(inbound));
    const contentRefusal = refusalOf(() => requireScopes(caller, [searchScope], presentedScheme(inbound)));
    const { tenantId, principalId } = caller;
    return { tenantIds: [tenantId], principalId, presented: true, contentRefusal };
  } catch (error) {
    throw inRealm(realm, error);
  }
}

function refusalOf(require: () => void): ServiceError | undefined {
  try {
    require();
    return undefined;
  } catch (error) {
    const refusal = inRealm(realm, error);
    if (refusal instanceof ServiceError) return refusal;
    throw refusal;
  }
}

/** Bundles of 256 leaves that are read for revisions, from the end of a log. */
const maxBundles = 64;
/** Larger directories do not fit into a draft. */
const maxFilesChars = 900_000;

export function servedPolicies(
  settings: FirstPolicySettings,
  logs: Pick<PublishedLogs, "search" | "tile"> & Pick<RecordArchive, "find" | "policyRevision">,
  policy: PolicyInForce,
  timers: Timers,
): ServedPolicies {
  return {
    async overview(log, tenantId, isWhole) {
      const layers = policy.engine.layersOf(tenantId).filter(({ layer }) => isWhole || layer === "tenant");
      return {
        current_revision: policy.revision,
        policies: layers.flatMap(({ layer, set }) =>
          set.policies.map(({ id, file, line, effect, description }) => ({
            layer,
            set: set.name,
            id,
            file,
            line,
            effect,
            description,
          })),
        ),
        ...(await revisionsIn(log, tenantId, logs)),
      };
    },
    async texts(tenantId, revision, isWhole) {
      const content = await logs.policyRevision(revision);
      const bundle = content === undefined ? undefined : parseBundleContent(content, revision);
      if (bundle === undefined) throw new ServiceError("no_route", "there is no such policy revision");
      return { revision, layers: layersOf(bundle, tenantId, isWhole) };
    },
    async files() {
      const { files, bundle } = await copyPolicyFiles(settings.policyDir, fileSystem, settings);
      if (Object.values(files).reduce((sum, { length }) => sum + length, 0) > maxFilesChars)
        throw new ServiceError(
          "invalid_request",
          "the policy directory is too large for the playground: use policy diff",
        );
      const isInForce = bundle !== undefined && identify(bundle).revision === policy.revision;
      return { current_revision: policy.revision, in_force: isInForce, files };
    },
    async tryDraft(tenantId, { files, questions, fromMs }, signal) {
      const { runTrial } = await import("../domain/playground.ts");
      const { keyReferences, supportedProfiles } = settings;
      const trial = {
        inForce: policy.engine.content,
        draft: { files, questions },
        settings: { keyReferences, supportedProfiles },
      };
      const since = fromMs === undefined ? undefined : { tenantId, fromMs };
      return { current_revision: policy.revision, ...(await runTrial(trial, since, logs, timers, signal)) };
    },
  };
}

/** What decides for the tenant: texts of its sets by file. */
function layersOf(bundle: PolicyBundle, tenantId: TenantId, isWhole: boolean) {
  const { manifest, sets } = bundle;
  const platform = isWhole ? [["platform", manifest.platform] as const] : [];
  const named = [...platform, ["tenant", tenantSet(bundle, tenantId)] as const];
  return named.flatMap(([layer, set]) => (set === undefined ? [] : [{ layer, set, files: sets[set] ?? {} }]));
}

/** Revisions under which the log has decisions, the newest first, as far as its newest leaves show. */
async function revisionsIn(log: string, tenantId: TenantId, logs: Pick<PublishedLogs, "search" | "tile">) {
  const { size } = await logs.search({ tenantId, terms: [], limit: 1 });
  const found = new Map<string, { readonly last_at: string; first_at: string; decisions: number }>();
  const last = Math.ceil(size / tileWidth) - 1;
  const first = Math.max(0, last - maxBundles + 1);
  for (let index = last; index >= first; index--) {
    const width = Math.min(tileWidth, size - index * tileWidth);
    const bundle = await logs.tile(log, tilePath({ level: "entries", index, width }));
    for (const leaf of [...entriesIn(bundle ?? new Uint8Array())].reverse()) {
      const { policy_revision: revision, recorded_at: at } = parseLeaf(leaf);
      if (revision === undefined) continue;
      const seen = found.get(revision) ?? { last_at: at, first_at: at, decisions: 0 };
      found.set(revision, Object.assign(seen, { first_at: at, decisions: seen.decisions + 1 }));
    }
  }
  return {
    revisions: [...found].map(([revision, seen]) => ({ revision, ...seen })),
    leaves: { from: first * tileWidth, to: size },
  };
}
