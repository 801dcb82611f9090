/** Methods to prove possession of a token's key, one per deployment. */
import { createHmac, hash, timingSafeEqual } from "node:crypto";
import {
  calculateJwkThumbprint,
  decodeJwt,
  decodeProtectedHeader,
  EmbeddedJWK,
  errors,
  jwtVerify,
  type ProtectedHeaderParameters,
} from "jose";
import { type Clock, clockToleranceSeconds } from "../base/clock.ts";
import type { FairSemaphore } from "../base/fair-queue.ts";
import { isCleanText } from "../base/ids.ts";
import type { InboundRequest } from "../base/inbound-request.ts";
import { isLoopbackHost } from "../base/network.ts";
import type { ProofOfPossession } from "../base/vocabulary.ts";
import { rsaProblem } from "./candidate-keys.ts";
import {
  missingNonce,
  refusedProof,
  refusedToken,
  signatureAlgorithms,
  type TokenScheme,
  underDpop,
} from "./challenge.ts";
import {
  boundThumbprint,
  confirmCertificate,
  type MutualTlsRule,
  type NoPossessionRule,
  type OnCertificateIgnored,
  requireCertificate,
  requireUnbound,
} from "./confirmation.ts";
import type { ReplayStore } from "./replay-store.ts";
import type { VerifiedToken } from "./token-cache.ts";

export type ProofOfPossessionRule = NoPossessionRule | MutualTlsRule | DpopRule;

export interface PossessionMethod {
  readonly scheme: TokenScheme;
  /**
   * Checks, before any signature is checked or anything is fetched, that the call has the certificate that its token
   * names, or a proof by the token's key that is valid except for its unchecked signature. For an opaque token, any
   * certificate or proof.
   * @throws ServiceError `proof_of_possession_failed`
   */
  beforeSignature(token: string, claimed: VerifiedToken | "unknown", inbound: InboundRequest): void | Promise<void>;
  /**
   * Checks that the call proves possession of the key that its token is bound to. Call this for every call, however the
   * token was verified, as the last check of its token.
   * @throws ServiceError `proof_of_possession_failed`, `store_unavailable`; the signal's reason once aborted
   */
  confirm(token: string, verified: VerifiedToken, inbound: InboundRequest, signal: AbortSignal): void | Promise<void>;
  /**
   * Checks an open stream again as far as possible: a proof counts once (RFC 9449 §11.1), and was checked when the
   * stream began.
   * @throws ServiceError `proof_of_possession_failed`
   */
  confirmStill(verified: VerifiedToken, inbound: InboundRequest): void;
  /** Returns the thrown value, with the challenge of the scheme if it is a refusal. */
  asThrown(thrown: unknown): unknown;
}

interface PossessionContext {
  readonly clock: Clock;
  readonly onCertificateIgnored: OnCertificateIgnored;
  /** See `VerifierRules`. */
  readonly signatures: FairSemaphore;
}

type RuleOf<Mode extends ProofOfPossession> = Extract<ProofOfPossessionRule, { readonly mode: Mode }>;

const methods: {
  readonly [Mode in ProofOfPossession]: (rule: RuleOf<Mode>, context: PossessionContext) => PossessionMethod;
} = {
  none: () => ({
    scheme: "Bearer",
    beforeSignature: (_token, claimed) => void (claimed === "unknown" || requireUnbound(claimed.binding)),
    confirm: (_token, { binding }) => requireUnbound(binding),
    confirmStill: ({ binding }) => requireUnbound(binding),
    asThrown: (thrown) => thrown,
  }),
  mtls: (rule, { onCertificateIgnored }) => ({
    scheme: "Bearer",
    beforeSignature: (_token, claimed, inbound) => {
      // A call that gets further is reported when it is confirmed.
      const ignored: string[] = [];
      try {
        if (claimed === "unknown") requireCertificate(inbound, rule);
        else confirmCertificate(claimed.binding, inbound, rule, (address) => ignored.push(address));
      } catch (refusal) {
        for (const address of ignored) onCertificateIgnored(address);
        throw refusal;
      }
    },
    confirm: (_token, { binding }, inbound) => confirmCertificate(binding, inbound, rule, onCertificateIgnored),
    confirmStill: ({ binding }, inbound) => confirmCertificate(binding, inbound, rule, () => {}),
    asThrown: (thrown) => thrown,
  }),
  dpop: (rule, context) => ({
    scheme: "DPoP",
    beforeSignature: async (token, claimed, inbound) => {
      if (claimed === "unknown") proofOf(inbound);
      else await readProof(token, claimed, inbound, rule, context);
    },
    confirm: (token, verified, inbound, signal) =>
      confirmDpopPossession(token, verified, inbound, rule, context, signal),
    confirmStill: ({ binding }) => void boundThumbprint(binding, "jkt"),
    asThrown: underDpop,
  }),
};

export function possessionMethod<Mode extends ProofOfPossession>(
  rule: RuleOf<Mode> & { readonly mode: Mode },
  context: PossessionContext,
): PossessionMethod {
  return methods[rule.mode](rule, context);
}

// Proof of possession by DPoP (RFC 9449): every call is signed with the key that its token is bound to.

export interface DpopRule {
  /** Tokens must be bound to a key of the caller, and every call carries a proof by it. */
  readonly mode: "dpop";
  /** Base URL of the service for callers, without a trailing slash. Undefined: loopback callers only. */
  readonly publicUrl: string | undefined;
  readonly replayStore: ReplayStore;
  /** Undefined: nonces are not required. */
  readonly nonces: ReturnType<typeof createDpopNonces> | undefined;
}

/**
 * Checks that the call carries a fresh proof by the key that the verified token is bound to, and records its use. Call
 * this for every call, as the last check of its token.
 * @throws ServiceError `proof_of_possession_failed`, `store_unavailable`; the signal's reason once aborted
 */
async function confirmDpopPossession(
  accessToken: string,
  verified: VerifiedToken,
  inbound: InboundRequest,
  rule: DpopRule,
  context: PossessionContext,
  signal: AbortSignal,
): Promise<void> {
  const { clock, signatures } = context;
  const {
    text,
    boundKey,
    id,
    issuedAtSeconds,
    nonce = "",
  } = await readProof(accessToken, verified, inbound, rule, context);
  const { tenantId } = verified.caller;
  const options = {
    algorithms: signatureAlgorithms,
    clockTolerance: clockToleranceSeconds,
    currentDate: new Date(clock.now()),
  };
  // Item 7. The key is the token's, so that only keys known to the issuer are used.
  const verify = () => readable(() => jwtVerify(text, EmbeddedJWK, options));
  await signatures.run(`proofs of ${tenantId}`, verify, signal);
  const { nonces } = rule;
  if (nonces !== undefined && !nonces.accepts(nonce)) throw missingNonce(nonces.current());
  const use = { tenantId, proof: hash("sha256", `${boundKey} ${id}`, "base64url") };
  const expiresAtMs = (issuedAtSeconds + proofLifetimeSeconds + replicaClockSeconds) * 1000;
  if (!(await rule.replayStore.firstUse(use, expiresAtMs))) throw refusedProof("the DPoP proof was used before");
}

/** RFC 9449 §4.3 item 1: at most one. Two that a proxy joined are not a JWT. */
function proofOf(inbound: InboundRequest): string {
  const [proof, ...others] = inbound.headerValues("dpop");
  if (proof === undefined) throw refusedProof("a DPoP proof is required");
  if (others.length > 0) throw refusedProof("more than one DPoP header");
  return proof;
}

// DPoP proofs (RFC 9449 §4): a JWT that the caller signs for one call, with the key that its token is bound to.

/** Longest proof. One with an RSA key of 4096 bits has about 2 KiB. */
const maximumProofBytes = 4 * 1024;
const maximumIdLength = 256;
/** Seconds for which a proof is valid, transit time and clock difference included. */
const proofLifetimeSeconds = 60;
/**
 * Seconds by which the clocks of two replicas may differ until a proof could count twice: one that is behind accepts it
 * for longer, and one that is ahead forgets its use sooner. A replica that is further behind the log does not start.
 */
const replicaClockSeconds = 300;

interface DpopProof {
  readonly text: string;
  /** RFC 7638 thumbprint of its key, which the token is bound to, base64url. */
  readonly boundKey: string;
  /** Its `jti`: 1 to 256 characters. */
  readonly id: string;
  /** Its `iat`, in seconds since the Unix epoch. */
  readonly issuedAtSeconds: number;
  readonly nonce: string | undefined;
}

/**
 * Reads the call's proof and checks all but its signature, which is far more expensive: RFC 9449 §4.3, items 2 to 6, 8,
 * 9, 11 and 12, and that its key is not expensive to compute with. Does NOT check the signature (item 7), the nonce
 * (item 10), nor whether the proof was used before.
 * @throws ServiceError `proof_of_possession_failed`
 */
async function readProof(
  accessToken: string,
  { binding }: VerifiedToken,
  inbound: InboundRequest,
  { publicUrl }: DpopRule,
  { clock }: PossessionContext,
): Promise<DpopProof> {
  const text = proofOf(inbound);
  const boundKey = boundThumbprint(binding, "jkt");
  if (text.length > maximumProofBytes) throw refusedProof("the DPoP proof is too long");
  const [header, payload] = await readable(async () => [decodeProtectedHeader(text), decodeJwt(text)] as const);
  await checkHeader(header, boundKey);
  const { htm, htu, ath, jti, iat, nonce } = payload;
  if (htm !== inbound.method) throw refusedProof("the DPoP proof is for another method");
  const target = targetOf(inbound, publicUrl);
  if (typeof htu !== "string" || target === undefined || normalTarget(htu) !== target)
    throw refusedProof("the DPoP proof is for another URL");
  if (ath !== hash("sha256", accessToken, "base64url"))
    throw refusedProof("the DPoP proof is for another access token");
  if (typeof jti !== "string" || jti.length < 1 || jti.length > maximumIdLength || !isCleanText(jti))
    throw refusedProof("the DPoP proof has no valid jti");
  if (nonce !== undefined && typeof nonce !== "string") throw refusedProof("the DPoP proof has no valid nonce");
  const nowSeconds = clock.now() / 1000;
  if (iat === undefined || !Number.isFinite(iat)) throw refusedProof("the DPoP proof has no valid iat");
  if (iat < nowSeconds - proofLifetimeSeconds) throw refusedProof("the DPoP proof is too old");
  if (iat > nowSeconds + clockToleranceSeconds) throw refusedProof("the DPoP proof was made in the future");
  return { text, boundKey, id: jti, issuedAtSeconds: iat, nonce };
}

/** Items 4, 6 and 12: the type, and the key that the token is bound to. `EmbeddedJWK` checks that the key is public. */
async function checkHeader({ typ, jwk }: ProtectedHeaderParameters, boundKey: string): Promise<void> {
  if (typ !== "dpop+jwt") throw refusedProof("the DPoP proof is of another type");
  if (jwk === undefined) throw refusedProof("the DPoP proof carries no key");
  if ((await readable(() => calculateJwkThumbprint(jwk))) !== boundKey) {
    throw refusedToken("proof_of_possession_failed", "the access token is bound to another DPoP key");
  }
  const problem = rsaProblem(jwk);
  if (problem !== undefined) throw refusedProof("the DPoP proof's key is not supported", problem);
}

/** Converts errors of the library to refusals. */
async function readable<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    const cause = error instanceof errors.JOSEError ? error.code : error instanceof Error ? error.name : "unknown";
    throw refusedProof("the DPoP proof is not valid", cause);
  }
}

/**
 * Returns the URL of the call without query, in normal form; undefined if it is unknown.
 * @param publicUrl base URL of the service for callers, without a trailing slash. Without it the URL comes from the
 *   request, for loopback hosts only: an arbitrary `Host` header would make proofs for other servers valid here.
 */
function targetOf(inbound: InboundRequest, publicUrl: string | undefined): string | undefined {
  const path = inbound.url.split("?", 1)[0] as string;
  const base = publicUrl ?? loopbackBase(inbound);
  return base !== undefined && path.startsWith("/") ? URL.parse(base + path)?.href : undefined;
}

/**
 * Returns the URL in normal form (RFC 9449 §4.3 item 9: scheme and host in lowercase, no default port, no dot segments)
 * without query and fragment; undefined if the text is not a URL.
 */
function normalTarget(htu: string): string | undefined {
  const url = URL.parse(htu);
  if (url === null) return undefined;
  url.search = "";
  url.hash = "";
  return url.href;
}

function loopbackBase(inbound: InboundRequest): string | undefined {
  // HTTP/2 has the host in a pseudo-header (RFC 9113 §8.3.1).
  const hosts = [...inbound.headerValues(":authority"), ...inbound.headerValues("host")];
  const [host] = hosts;
  if (host === undefined || hosts.length > 1 || !/^[A-Za-z0-9.[\]:-]+$/.test(host)) return undefined;
  const base = `${inbound.encrypted === true ? "https" : "http"}://${host}`;
  const url = URL.parse(base);
  return url !== null && isLoopbackHost(url.hostname) ? base : undefined;
}

/** How long one nonce is issued. It is accepted for one more period, and from replicas whose clocks are ahead. */
const periodMs = 5 * 60_000;

/**
 * Derives nonces from the time and a secret, so that nothing else has to be stored or shared.
 * @param secret returns the current secret, the same for all replicas; at least 32 random bytes. Nonces of another
 *   secret are refused, and their callers get a new nonce (RFC 9449 §8)
 */
export function createDpopNonces(secret: () => string, clock: Clock) {
  const period = () => Math.floor(clock.now() / periodMs);
  const nonceOf = (number: number) => createHmac("sha256", secret()).update(`dpop-nonce ${number}`).digest("base64url");
  return {
    /** Current nonce: 43 characters, the same for every caller and replica. */
    current: () => nonceOf(period()),
    /** Whether the nonce is of the previous, this, or the next period. */
    accepts(nonce: string): boolean {
      const given = Buffer.from(nonce);
      const current = period();
      return [current, current - 1, current + 1].some((number) => {
        const expected = Buffer.from(nonceOf(number));
        return given.length === expected.length && timingSafeEqual(given, expected);
      });
    },
  };
}
