/** Names that are not settings: those that belong to others, and suggestions for misspelt ones. */
import { settings } from "./settings.ts";

const names: readonly string[] = Object.values(settings).map(({ name }) => name);

/** Variables that an orchestrator injects for a service whose own name starts with `svc-`. */
const serviceLink = /^SVC_.*_(SERVICE_HOST$|PORT)/;

/** Problems of names in the environment that start with `SVC_` and are neither settings nor service links. */
export function unknownVariables(env: Readonly<Record<string, string | undefined>>): readonly string[] {
  return Object.keys(env)
    .filter((name) => name.startsWith("SVC_") && !names.includes(name) && !serviceLink.test(name))
    .map(unknown);
}

/** Problems of keys in the file that are not settings. */
export function unknownKeys(keys: readonly string[]): readonly string[] {
  return keys.filter((key) => !names.includes(key)).map(unknown);
}

function unknown(name: string): string {
  const nearest = nearestName(name);
  return `${name}: is no setting${nearest === undefined ? "" : `; did you mean ${nearest}?`}`;
}

/** The setting whose name needs the fewest edits, if they are few for its length. */
function nearestName(name: string): string | undefined {
  const upper = name.toUpperCase();
  const candidates = names.map((known) => ({ known, distance: editDistance(upper, known) }));
  const best = candidates.reduce((a, b) => (b.distance < a.distance ? b : a));
  return best.distance <= Math.max(2, Math.floor(name.length / 4)) ? best.known : undefined;
}

/** Levenshtein distance: the minimum number of insertions, deletions and substitutions. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(substitution, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row[b.length] as number;
}
