/**
 * Cedar's own implementation, loaded when it is first asked: it takes 40 MiB of each thread that has used it, and a
 * service whose policies are all evaluated here never does outside of the thread that checks them.
 */
import { createRequire } from "node:module";
import type { PolicyJson } from "@cedar-policy/cedar-wasm/nodejs";

type Cedar = typeof import("@cedar-policy/cedar-wasm/nodejs");

/** Version of the language that policies are written for. */
export const cedarVersion = "4.13.0";

const require = createRequire(import.meta.url);
let loaded: Cedar | undefined;

/** Throws if the installed package has another version. */
export function cedar(): Cedar {
  loaded ??= load();
  return loaded;
}

function load(): Cedar {
  const found = require("@cedar-policy/cedar-wasm/nodejs") as Cedar;
  const version = found.getCedarVersion();
  if (version !== cedarVersion) throw new Error(`Cedar ${cedarVersion} is needed; installed is ${version}`);
  return found;
}

/**
 * Whether the engine broke: WebAssembly ran over its stack or out of memory. In this thread it says nothing any more. (The
 * types of Node know no `WebAssembly.RuntimeError`.)
 */
export function isBrokenEngine(error: unknown): boolean {
  return error instanceof Error && error.name === "RuntimeError";
}

/** Syntax tree of a policy that parses. */
export function parsedPolicy(text: string): PolicyJson {
  const parsed = cedar().policyToJson(text);
  if (parsed.type === "failure") throw new TypeError("a checked policy parses");
  return parsed.json;
}
