/** Saves cosignatures in batches, not at every commit: losing the newest costs one request to the witness. */
import type { TenantId } from "../../base/ids.ts";
import type { Timers } from "../../base/timers.ts";
import type { CosignatureStore } from "../ports/store.ts";
import type { WitnessLog } from "./witness-log.ts";

/** Pause between two writes. Milliseconds. */
const keepIntervalMs = 1_000;

export class CosignatureSaver {
  readonly #store: Pick<CosignatureStore, "storeCosignatures">;
  readonly #timers: Timers;
  readonly #unsaved = new Map<WitnessLog, TenantId>();
  #saver: Promise<void> | undefined;
  #cancel: (() => void) | undefined;
  #closed = false;

  constructor(store: Pick<CosignatureStore, "storeCosignatures">, timers: Timers) {
    this.#store = store;
    this.#timers = timers;
  }

  /** Saves the witness's cosignature of the log soon. */
  note(atWitness: WitnessLog, tenantId: TenantId): void {
    this.#unsaved.set(atWitness, tenantId);
    this.#keepSoon();
  }

  /** Saves what is pending. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancel?.();
    await this.#saver;
    await this.#keep();
  }

  #keepSoon(): void {
    if (this.#closed) return;
    this.#cancel ??= this.#timers.after(keepIntervalMs, () => {
      this.#saver = this.#keep().finally(() => {
        this.#cancel = undefined;
        if (this.#unsaved.size > 0) this.#keepSoon();
      });
    });
  }

  /** A failed save is retried later: nothing depends on it. */
  async #keep(): Promise<void> {
    const entries = [...this.#unsaved];
    this.#unsaved.clear();
    const cosignatures = entries.flatMap(([{ witness, newest }, tenantId]) =>
      newest === undefined ? [] : [{ tenantId, witness: witness.name, keyId: witness.keyId, ...newest }],
    );
    if (cosignatures.length === 0) return;
    await this.#store.storeCosignatures(cosignatures).catch(() => {
      for (const [atWitness, tenantId] of entries) this.#unsaved.set(atWitness, tenantId);
    });
  }
}
