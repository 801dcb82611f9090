/** Decides which group and member a call counts for, from headers that are not verified yet. */
import { LRUCache } from "lru-cache";
import type { Account } from "../base/fair-queue.ts";
import type { InboundRequest } from "../base/inbound-request.ts";

/** Recognized credentials, about 100 bytes each. The least recently used are evicted first. */
const maxRecognized = 20_000;
/** Only the end of an authorization header is kept: enough of a signature to recognize it, too little to be a token. */
const tailLength = 32;

/** Groups of callers without a known tenant. A tenant id never begins with a space. */
const unknownGroup = " unknown";
export const unauthenticatedGroup = " open";
export const operatorGroup = " operators";
export const probeGroup = " probes";

interface AccountsOptions {
  readonly addressOf: (inbound: InboundRequest) => string;
  /** Lowercase name of the header in which an ingress names the tenant. */
  readonly tenantHeader: string;
}

/** Recognizes credentials that were accepted before, to order calls. They are verified later. */
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
    // Callers without an address count as one member.
    return { group: unknownGroup, member: this.#options.addressOf(inbound) || "nowhere" };
  }

  /** Remembers that the credentials of the call belong to the tenant. */
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
