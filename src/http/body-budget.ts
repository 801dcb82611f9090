/** Memory budget of request bodies: in total, for each tenant, and for callers without credentials. */

import type { Caller } from "../base/caller.ts";
import { ServiceError } from "../base/errors.ts";
import type { InboundRequest } from "../base/inbound-request.ts";
import { localSums } from "../base/sums.ts";

/** Memory of one body, held from before it is read until its call ends. */
export interface BodyLease {
  /** Raises the lease to so many bytes; never lowers it. Throws `overloaded` and takes nothing if there is no room. */
  holds(bytes: number): void;
  /** Gives all of it back. Idempotent. */
  release(): void;
}

/** The call that a body belongs to. */
export interface BodyOwner {
  readonly caller?: Caller;
  /** Set to the bytes that the body holds. */
  bodyBytes?: number;
}

export interface BodyBudget {
  /** Returns an empty lease for a call that has passed the gate. */
  lease(call: BodyOwner, inbound: InboundRequest): BodyLease;
  readonly inFlightBytes: number;
}

export type BodyShare = "all" | "tenant" | "anonymous";

export interface BodyBudgetOptions {
  readonly maxBytes: number;
  /** Returns the address of a call, as `callerAddress` does. */
  readonly addressOf: (inbound: InboundRequest) => string;
  /** Whether the process has little memory left; then only one large body is admitted at a time. Default: never. */
  readonly isTight?: () => boolean;
  /** Called for every refusal. */
  readonly onRefused?: (share: BodyShare) => void;
}

/** Shares of the total: one tenant's; that of all callers without credentials; that of one address among those. */
const shares = { tenant: 1 / 2, anonymous: 1 / 8, address: 1 / 32 };

/** Bodies up to this size are admitted even if memory is tight. */
const smallBytes = 256 * 1024;

/** Bodies are usually released within this time. */
const retryAfterSeconds = 1;

export function createBodyBudget(options: BodyBudgetOptions): BodyBudget {
  return new SharedBudget(options);
}

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

  lease(call: BodyOwner, inbound: InboundRequest): BodyLease {
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
        // A late request for a call that has ended is refused: it would never be given back.
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

  /** Takes the bytes from all accounts; or from none, and returns the first that is full. */
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
