/** Puts simulated modules in the place of Node's, and changed texts in the place of the product's. */
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { fileURLToPath } from "node:url";

/** A mistake: a part of a file's text that is replaced. */
export interface Mutation {
  readonly name: string;
  readonly area: "append" | "outcomes" | "anchor and witnesses" | "keys" | "erasure and caches";
  /** Below `src`. */
  readonly file: string;
  readonly text: string;
  readonly mistake: string;
  /** The store that shows it, if the file is not one driver's. */
  readonly store?: "sqlite" | "postgres" | undefined;
}

const source = new URL("../../src/", import.meta.url);
const replaced: Readonly<Record<string, string>> = {
  "node:sqlite": new URL("./node-sqlite.ts", import.meta.url).href,
  pg: new URL("./node-pg.ts", import.meta.url).href,
  "node:worker_threads": new URL("./node-threads.ts", import.meta.url).href,
};

let mutation: Mutation | undefined;

/** The text of a module that is mutated; undefined for every other. Throws where the mistake has no place any more. */
export function sourceOf(url: string): string | undefined {
  if (mutation === undefined || url !== new URL(mutation.file, source).href) return undefined;
  const text = readFileSync(fileURLToPath(url), "utf8");
  if (text.split(mutation.text).length !== 2)
    throw new Error(`mutation ${mutation.name}: ${mutation.file} does not have its text exactly once`);
  return text.replace(mutation.text, () => (mutation as Mutation).mistake);
}

/** To be called before anything of the product is imported. */
export function installModules(mistake: Mutation | undefined): void {
  mutation = mistake;
  registerHooks({
    resolve(specifier, context, next) {
      const url = replaced[specifier];
      return url === undefined || context.parentURL === url ? next(specifier, context) : next(url, context);
    },
    load(url, context, next) {
      const text = sourceOf(url);
      return text === undefined
        ? next(url, context)
        : { format: "module-typescript", source: text, shortCircuit: true };
    },
  });
}
