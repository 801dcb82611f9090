/**
 * One value in place of many that are alike. Most policies of a bundle have the same actions, guidance and readings: a
 * hundred thousand copies of them would be most of what the collector has to look at.
 */
import { serialize } from "node:v8";
import type { PolicyContent } from "./check-policy.ts";

export class Alike {
  readonly #known = new Map<string, unknown>();

  /** The same policy, with members that others have too. Policies do not change. */
  policy(policy: PolicyContent): PolicyContent {
    return {
      ...policy,
      actions: this.#of(policy.actions),
      guidance: this.#of(policy.guidance),
      reads: this.#of(policy.reads),
      namedActions: this.#of(policy.namedActions),
      entities: this.#of(policy.entities),
    };
  }

  #of<T>(value: T): T {
    const key = serialize(value).toString("latin1");
    if (!this.#known.has(key)) this.#known.set(key, value);
    return this.#known.get(key) as T;
  }
}
