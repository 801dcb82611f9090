/** One log at one witness: the newest cosigned tree, and submission of newer checkpoints. */
import type { Clock } from "../../base/clock.ts";
import { parseDecimal } from "../../base/text-forms.ts";
import { type Span, traced } from "../../base/trace.ts";
import { type LedgerStore, type LogState, type StoredCosignature, UnsoundLogError } from "../ports/store.ts";
import { type Checkpoint, checkpointText } from "../tlog/checkpoint.ts";
import { type LogName, logNameOf } from "../tlog/log-name.ts";
import { formatPath } from "../tlog/tlog-proof.ts";
import { sameHash } from "../tlog/tree.ts";
import { type TreeHead, verifyConsistency } from "../tlog/tree-verify.ts";
import { type CosignatureVerifier, findCosignature } from "./cosignature.ts";

export interface TrustedWitness {
  readonly verifier: CosignatureVerifier;
  readonly client: WitnessClient;
}

/** Store and signer of the log. */
export interface WitnessLogSource extends Pick<LedgerStore, "head" | "consistencyProof"> {
  /** Signs a committed tree. */
  sign(checkpoint: Checkpoint): string;
}

/** A tree that a witness has cosigned. */
type CosignedTree = Pick<StoredCosignature, "size" | "root" | "line">;

/**
 * Result of the newest exchange. `unsound`: the witness has seen a tree that the log does not extend. `failed`: there
 * is no result for the log; the message has the reason.
 */
export type WitnessStatus =
  | { readonly kind: "unasked" }
  | { readonly kind: "cosigned" }
  | { readonly kind: "unsound"; readonly message: string }
  | { readonly kind: "failed"; readonly message: string };

/** Most exchanges in which a witness names a size that is no larger than before. */
const maxInVain = 3;
/** Most exchanges in which other replicas were faster, each with a larger tree; some callers are answered meanwhile. */
const maxExchanges = 64;

export class WitnessLog {
  readonly #witness: TrustedWitness;
  readonly #logs: WitnessLogSource;
  readonly #clock: Clock;
  readonly #name: LogName;
  readonly #onEnded: (log: WitnessLog) => void;
  #newest: CosignedTree | undefined;
  #status: WitnessStatus = { kind: "unasked" };
  #target: LogState;
  /** Whether the target was confirmed by the store; not if it was read at the start. */
  #isConfirmed = false;
  #running: Promise<void> | undefined;

  /** `stored` is what the witness cosigned before; `onEnded` is called after every run of exchanges. */
  constructor(
    witness: TrustedWitness,
    log: LogState,
    stored: CosignedTree | undefined,
    context: { readonly logs: WitnessLogSource; readonly clock: Clock; readonly onEnded: (log: WitnessLog) => void },
  ) {
    this.#witness = witness;
    this.#target = log;
    this.#name = logNameOf(log.origin);
    this.#newest = stored;
    this.#logs = context.logs;
    this.#clock = context.clock;
    this.#onEnded = context.onEnded;
  }

  get witness(): CosignatureVerifier {
    return this.#witness.verifier;
  }

  get log(): LogState {
    return this.#target;
  }

  get status(): WitnessStatus {
    return this.#status;
  }

  get newest(): CosignedTree | undefined {
    return this.#newest;
  }

  /** Whether the witness has cosigned a tree of at least this size, possibly of another history. */
  hasCosigned(size: number): boolean {
    return this.#status.kind === "cosigned" && (this.#newest?.size ?? 0) >= size;
  }

  /** Resolves with whether the witness has cosigned this tree, or one that provably extends it. */
  async cosign(tree: TreeHead, span?: Span): Promise<boolean> {
    while (!this.hasCosigned(tree.size)) {
      await this.submit(span);
      if (this.#status.kind !== "cosigned") return false;
    }
    return this.#goesOnFrom(tree);
  }

  /**
   * Whether the cosigned tree begins with this one. After a failover to a database that lacks it, another replica may
   * have submitted a larger tree with other records.
   */
  async #goesOnFrom(tree: TreeHead): Promise<boolean> {
    const newest: TreeHead = this.#newest as CosignedTree;
    if (newest.size === tree.size && sameHash(newest.root, tree.root)) return true;
    const proof = await this.#logs.consistencyProof(this.#name, tree.size, newest.size).catch(() => undefined);
    if (proof !== undefined && verifyConsistency(tree, newest, proof)) return true;
    this.#status = {
      kind: proof === undefined ? "failed" : "unsound",
      message:
        `nothing proves that the tree of ${newest.size} leaves of log ${this.#target.origin} that witness ` +
        `${this.witness.name} has cosigned goes on from the one of ${tree.size} leaves that is to be answered`,
    };
    this.#onEnded(this);
    return false;
  }

  /** Notes a committed state of the log, to be submitted next. */
  note(log: LogState): void {
    const { size, root } = this.#target;
    if (log.size < size) return;
    if (log.size > size || !sameHash(log.root, root)) this.#target = log;
    this.#isConfirmed = true;
  }

  /**
   * Submits the newest state to the witness, or joins the exchange in progress. Later states share the next exchange.
   * Resolves when it ended either way; `status` has the result.
   *
   * @param span parent of the exchange, if this call starts it
   */
  submit(span?: Span): Promise<void> {
    this.#running ??= this.#run(span).finally(() => {
      this.#running = undefined;
      this.#onEnded(this);
    });
    return this.#running;
  }

  async #run(span: Span | undefined): Promise<void> {
    do {
      try {
        await this.#bring(span);
        this.#status = { kind: "cosigned" };
      } catch (error) {
        const message = error instanceof Error ? error.message : "unknown error";
        this.#status = { kind: error instanceof UnsoundLogError ? "unsound" : "failed", message };
      }
    } while (this.#status.kind === "cosigned" && !this.hasCosigned(this.#target.size));
  }

  /** Gets the newest state cosigned. Throws `UnsoundLogError` if the log does not extend what the witness saw. */
  async #bring(span: Span | undefined): Promise<void> {
    if (!this.#isConfirmed || this.#status.kind === "unsound") await this.#confirm();
    let log = this.#target;
    let oldSize = this.#newest?.size ?? 0;
    let inVain = 0;
    for (let exchange = 0; exchange < maxExchanges && inVain < maxInVain; exchange++) {
      if (oldSize > log.size) log = await this.#headFrom(oldSize);
      const answer = await traced(span, "witness.add_checkpoint", (part) => this.#send(log, oldSize, part), "client");
      if (answer.kind === "cosigned") return this.#keep(log, answer.lines);
      const isSameSize = answer.kind === "conflict" && oldSize === log.size && (answer.size ?? oldSize) === oldSize;
      if (answer.kind !== "conflict" || isSameSize) throw this.#refused(answer, log, oldSize);
      if (answer.size === undefined) throw new Error("status 409");
      if (answer.size <= oldSize) inVain += 1;
      oldSize = answer.size;
    }
    throw new Error("it names another size at every exchange");
  }

  /** Reads the state that is durable. A state read at the start, and earlier notes, may be lost with a failover. */
  async #confirm(): Promise<void> {
    const before = this.#target;
    const head = await this.#logs.head(this.#name);
    if (head === undefined && !this.#isConfirmed) throw new Error(`the store has no log ${before.origin}`);
    // A tree that was noted meanwhile is newer.
    if (head !== undefined && this.#target === before) this.#target = head;
    this.#isConfirmed = true;
  }

  async #send(log: LogState, oldSize: number, span: Span | undefined): Promise<WitnessAnswer> {
    const proof = oldSize === 0 ? [] : await this.#logs.consistencyProof(this.#name, oldSize, log.size);
    if (proof === undefined) throw new Error(`the store has no proof from size ${oldSize} to ${log.size}`);
    const body = `old ${oldSize}\n${formatPath(proof)}\n${this.#logs.sign(log)}`;
    const answer = await this.#witness.client.addCheckpoint(body);
    span?.set({ "svc.witness.name": this.witness.name, "svc.witness.answer": answer.kind });
    return answer;
  }

  /** The log as the store has it now: another replica may have submitted it. */
  async #headFrom(size: number): Promise<LogState> {
    const head = await this.#logs.head(this.#name);
    if (head !== undefined && head.size >= size) return head;
    throw new UnsoundLogError(
      `log ${this.#target.origin} has ${head?.size ?? 0} leaves, and witness ${this.witness.name} has seen ${size}: ` +
        "the store is an older copy",
    );
  }

  #keep(log: LogState, lines: string): void {
    const line = findCosignature(lines, checkpointText(log), this.witness, this.#clock.now());
    this.note(log);
    if (log.size >= (this.#newest?.size ?? 0)) this.#newest = { size: log.size, root: log.root, line };
  }

  #refused({ kind }: WitnessAnswer, { origin }: LogState, oldSize: number): Error {
    if (kind === "unknown_log") return new Error(`it does not know the log ${origin}`);
    if (kind === "untrusted_key") return new Error(`it does not trust the key that signs the log ${origin}`);
    if (oldSize === 0) return new Error("it refuses a proof from the empty tree");
    return new UnsoundLogError(
      `log ${origin} was rewritten before leaf ${oldSize}: witness ${this.witness.name} has seen another tree`,
    );
  }
}

export function isTree(cosigned: CosignedTree | undefined, { size, root }: TreeHead): cosigned is CosignedTree {
  return cosigned !== undefined && cosigned.size === size && sameHash(cosigned.root, root);
}

// Texts of C2SP tlog-witness `add-checkpoint`, and the interface to its transport.

/** The size in the body of a 409: a decimal number and a newline. Undefined for any other text. */
export function parseWitnessSize(body: string): number | undefined {
  return body.endsWith("\n") ? parseDecimal(body.slice(0, -1)) : undefined;
}

export type WitnessAnswer =
  /** Signature lines, not verified. */
  | { readonly kind: "cosigned"; readonly lines: string }
  /** The witness's newest cosigned size, which differs from the request's; or undefined or the same if its root does. */
  | { readonly kind: "conflict"; readonly size: number | undefined }
  /** The proof does not lead from the witness's cosigned tree to the request's. */
  | { readonly kind: "inconsistent" }
  /** The witness does not know this log, or its signing key. */
  | { readonly kind: "unknown_log" }
  | { readonly kind: "untrusted_key" };

export interface WitnessClient {
  /**
   * Sends the body of an `add-checkpoint`: the size that the witness knows, a consistency proof from there, and the signed
   * checkpoint. Resolves in bounded time; rejects with an Error, with a message for the operator, if the witness cannot be
   * reached or violates the protocol.
   */
  addCheckpoint(body: string): Promise<WitnessAnswer>;
}
