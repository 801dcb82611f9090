/**
 * What settings can ask for and this build does not have. Such a value refuses to start: a deployment that believes
 * that it is protected must be. A feature that arrives takes its row away.
 */
import type { Config, Key } from "./settings.ts";

interface Unavailable<K extends Key> {
  readonly key: K;
  /** Whether the value asks for the feature. Called only where the setting is set. */
  readonly asks: (value: Config[K]) => boolean;
  /** Completes "NAME: this build has no …". */
  readonly feature: string;
}

function missing<K extends Key>(
  key: K,
  feature: string,
  asks: (value: Config[K]) => boolean = () => true,
): Unavailable<Key> {
  return { key, feature, asks: asks as Unavailable<Key>["asks"] };
}

export const unavailable: readonly Unavailable<Key>[] = [
  missing("store", "PostgreSQL store: use sqlite:<path>", (store) => store.kind === "postgres"),
  missing("witnesses", "witnesses"),
];
