/**
 * The policies and requests that the peer publishes for its own load tests, from a checkout of its repository:
 * templates below `hack/loadtest`, each rendered once for each set, as `generate.go` beside them does.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, extname, join } from "node:path";
import { parse } from "yaml";
import type { Files } from "./policy-rules.ts";

/** The sets of templates that are translated here. */
export const loadtestSets = ["classic", "multitenant"] as const;
export type LoadtestSet = (typeof loadtestSets)[number];

/** One request to the peer. */
export interface PeerRequest {
  readonly requestId: string;
  readonly principal: PeerPrincipal;
  readonly resources: readonly { readonly actions: readonly string[]; readonly resource: PeerResource }[];
}

export type Attributes = Readonly<Record<string, string | number | boolean>>;

export interface PeerPrincipal {
  readonly id: string;
  readonly roles: readonly string[];
  readonly policyVersion?: string;
  readonly scope?: string;
  readonly attr: Attributes;
}

export interface PeerResource {
  readonly kind: string;
  readonly id: string;
  readonly policyVersion?: string;
  readonly scope?: string;
  readonly attr: Attributes;
}

export interface Loadtest {
  /** Text by path below the peer's policy folder, including schemas. */
  readonly files: Files;
  /** The parsed policies. */
  readonly policies: readonly unknown[];
  readonly requests: readonly PeerRequest[];
}

/** Output folder of each template folder, below the policy folder; null for requests, which the peer does not read. */
const outputs = { policies: "", schemas: "_schemas", requests: null } as const;

/** Reads the templates below the checkout. Throws if there are none, or if they contain an unknown action. */
export function readLoadtest(checkout: string, set: LoadtestSet, sets: number): Loadtest {
  const root = join(checkout, "hack/loadtest/templates", set);
  if (!existsSync(root)) throw new Error(`${checkout} is no checkout of the peer's repository: there is no ${root}`);
  const files: Record<string, string> = {};
  const requests: PeerRequest[] = [];
  const fixed = join(root, "files/policies");
  for (const name of existsSync(fixed) ? readdirSync(fixed) : []) files[name] = readFileSync(join(fixed, name), "utf8");
  for (const [folder, output] of Object.entries(outputs)) {
    const from = join(root, folder);
    for (const name of existsSync(from) ? readdirSync(from).filter((file) => file.endsWith(".tpl")) : []) {
      const template = readFileSync(join(from, name), "utf8");
      const file = basename(name, ".tpl");
      for (let number = 0; number < sets; number++) {
        const text = render(template, number);
        if (output === null) requests.push(JSON.parse(text));
        else files[join(output, `${basename(file, extname(file))}_${digits(number)}${extname(file)}`)] = text;
      }
    }
  }
  const policies = Object.entries(files).flatMap(([path, text]) => (path.endsWith(".yaml") ? [parse(text)] : []));
  if (policies.length === 0 || requests.length === 0) throw new Error(`there are no templates below ${root}`);
  return { files, policies, requests };
}

/** The two Go template actions that are used: a name with the number of the set, and a request id. */
function render(template: string, number: number): string {
  return template.replaceAll(/\{\{\s*(.*?)\s*\}\}/g, (action, said: string) => {
    const [, quoted, raw] = /^\.NameMod (?:"([^"]*)"|`([^`]*)`)$/.exec(said) ?? [];
    const name = quoted ?? raw;
    if (name !== undefined) return `${name}_${digits(number)}`;
    if (said === ".RequestID") return `REQ_${digits(number)}`;
    throw new Error(`a template says ${action}, which is not understood here`);
  });
}

function digits(number: number): string {
  return String(number).padStart(5, "0");
}
