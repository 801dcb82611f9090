/** Whom a call counts for, as far as its headers tell before anything is verified. */
import { LRUCache } from "lru-cache";
import type { InboundRequest } from "../../auth/inbound-request.ts";
import type { Account } from "./wait-queue.ts";

/** Credentials that are recognized, some 100 bytes each. The one that was not used for longest goes first. */
const maxRecognized = 20_000;
/** Of an authorization header, its end: enough of a signature to know it again, too little to be a token. */
const tailLength = 32;

/** Groups of those who belong to no tenant that is known. No tenant's id begins with a space. */
export const unknownGroup = " unknown";
export const unauthenticatedGroup = " open";
export const operatorGroup = " operators";
export const probeGroup = " probes";

export interface AccountsOptions {
  /** Address of the caller of a call, for counting. */
  readonly addressOf: (inbound: InboundRequest) => string;
  /** Lowercase name of the header in which an ingress names the tenant. */
  readonly tenantHeader: string;
}

/**
 * Recognizes the credentials of callers who were let in before, from the same address. That is a guess about whose turn
 * it is, and proves nothing: who is wrong about it is refused when the credentials are looked at.
 */
export class Accounts {
  readonly #options: AccountsOptions;
  readonly #tenants = new LRUCache<string, string>({ max: maxRecognized });

  constructor(options: AccountsOptions) {
    this.#options = options;
  }

  of(inbound: InboundRequest): Account {
    const credentials = this.#credentials(inbound);
    const tenant = credentials === undefined ? undefined : this.#tenants.get(credentials);
    if (tenant !== undefined) return { group: tenant, member: "" };
    // Callers without an address are one.
    return { group: unknownGroup, member: this.#options.addressOf(inbound) || "nowhere" };
  }

  /** The call was found to be the tenant's. */
  recognize(inbound: InboundRequest, tenant: string): void {
    const credentials = this.#credentials(inbound);
    if (credentials !== undefined && this.#tenants.get(credentials) !== tenant) this.#tenants.set(credentials, tenant);
  }

  #credentials(inbound: InboundRequest): string | undefined {
    const [authorization] = inbound.headerValues("authorization");
    const shown = authorization?.slice(-tailLength) ?? inbound.headerValues(this.#options.tenantHeader)[0];
    return shown === undefined ? undefined : `${inbound.remoteAddress} ${shown}`;
  }
}
