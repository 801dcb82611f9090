/** How much memory request bodies may have at once: in all, for each tenant, and for those who have shown no credentials. */

import type { InboundRequest } from "../../auth/inbound-request.ts";
import { ServiceError } from "../../base/errors.ts";
import { localSums } from "../../base/sums.ts";
import type { Call } from "../calls/call.ts";

/** What one body has of the budget, from before it is read until its call is over. */
export interface BodyLease {
  /**
   * Takes what is missing to so many bytes; never gives any back. Throws `overloaded` where there is no room, and takes
   * nothing then.
   */
  holds(bytes: number): void;
  /** Gives all of it back; once, however often it is called. */
  release(): void;
}

export interface BodyBudget {
  /** A lease of nothing as yet, for a call that has passed the gate. */
  lease(call: Call, inbound: InboundRequest): BodyLease;
  /** Bytes that all leases have now. */
  readonly inFlightBytes: number;
}

/** Whose share was used up. */
export type BodyShare = "all" | "tenant" | "anonymous";

export interface BodyBudgetOptions {
  /** Bytes for all bodies. */
  readonly maxBytes: number;
  /** The address that a call comes from, as `callerAddress` returns it. */
  readonly addressOf: (inbound: InboundRequest) => string;
  /** Whether the process has little memory left: then one large body at a time has room. Default: it never has. */
  readonly isTight?: () => boolean;
  /** Told of every refusal. */
  readonly onRefused?: (share: BodyShare) => void;
}

/** Shares of all: one tenant's; that of all who have shown no credentials; one address's of those. */
const shares = { tenant: 1 / 2, anonymous: 1 / 8, address: 1 / 32 };

/** Bodies up to this have room while memory is tight: others would not notice if they had none. */
const smallBytes = 256 * 1024;

/** Time after which to try again: bodies are gone in less. */
const retryAfterSeconds = 1;

export function createBodyBudget(options: BodyBudgetOptions): BodyBudget {
  return new SharedBudget(options);
}

/** One of the sums that a body counts in. */
interface Account {
  readonly name: string;
  readonly share: BodyShare;
  readonly maxBytes: number;
}

class SharedBudget implements BodyBudget {
  readonly #maxBytes: number;
  readonly #addressOf: (inbound: InboundRequest) => string;
  readonly #isTight: () => boolean;
  readonly #onRefused: (share: BodyShare) => void;
  /** By name of the account. */
  readonly #heldBytes = localSums();
  readonly #all: Account;

  constructor({ maxBytes, addressOf, ...options }: BodyBudgetOptions) {
    const { isTight = () => false, onRefused = () => {} } = options;
    this.#maxBytes = maxBytes;
    this.#addressOf = addressOf;
    this.#isTight = isTight;
    this.#onRefused = onRefused;
    this.#all = { name: "all", share: "all", maxBytes };
  }

  get inFlightBytes(): number {
    return this.#heldBytes.of(this.#all.name);
  }

  lease(call: Call, inbound: InboundRequest): BodyLease {
    const { caller } = call;
    const accounts = [
      ...(caller === undefined
        ? [
            this.#account("anonymous", "", shares.anonymous),
            this.#account("anonymous", `at ${this.#addressOf(inbound)}`, shares.address),
          ]
        : [this.#account("tenant", caller.tenantId, shares.tenant)]),
      this.#all,
    ];
    let heldBytes = 0;
    let isOver = false;
    return {
      holds: (bytes) => {
        const more = bytes - heldBytes;
        if (more <= 0) return;
        // What comes late for a call that is over has no room: nobody would give it back.
        const isRefused = isOver || (bytes > smallBytes && this.inFlightBytes > heldBytes && this.#isTight());
        const full = isRefused ? this.#all : this.#take(accounts, more);
        if (full !== undefined) {
          this.#onRefused(full.share);
          throw new ServiceError("overloaded", messages[full.share], { retryAfterSeconds });
        }
        heldBytes = bytes;
        call.bodyBytes = bytes;
      },
      release: () => {
        if (isOver) return;
        isOver = true;
        for (const { name } of accounts) this.#heldBytes.subtract(name, heldBytes);
      },
    };
  }

  #account(share: BodyShare, name: string, part: number): Account {
    return { name: `${share}:${name}`, share, maxBytes: this.#maxBytes * part };
  }

  /** Takes so much of all accounts; or of none, and returns the first that is full. */
  #take(accounts: readonly Account[], bytes: number): Account | undefined {
    const full = accounts.findIndex(({ name, maxBytes }) => !this.#heldBytes.add(name, bytes, maxBytes));
    if (full === -1) return undefined;
    for (const { name } of accounts.slice(0, full)) this.#heldBytes.subtract(name, bytes);
    return accounts[full];
  }
}

const messages: Readonly<Record<BodyShare, string>> = {
  all: "too many request bodies are in flight",
  tenant: "too many request bodies of this tenant are in flight",
  anonymous: "too many request bodies of callers without credentials are in flight",
};
