/**
 * A policy set that Cedar has parsed once. Cedar keeps such sets by name for the life of the thread and can replace
 * but not remove one, so names are used again: memory follows the number of sets in use, not of reloads. A prepared
 * set belongs to the thread that made it.
 */
import { preparsePolicySet, preparseSchema, statefulIsAuthorized } from "@cedar-policy/cedar-wasm/nodejs";
import type { Facts } from "./facts.ts";

/** What one layer says. `error` where anything at all could not be evaluated, whatever Cedar decided besides. */
export interface Evaluation {
  readonly outcome: "allow" | "deny" | "error";
  /** Ids of the policies that decided, or that failed; in no particular order. */
  readonly policyIds: readonly string[];
}

const freeNames: string[] = [];
let namesMade = 0;
/** Schemas that this thread has parsed. They differ between versions of the service only, so they stay. */
const schemas = new Map<string, string>();

export class PreparedSet {
  readonly #name: string;
  readonly #schemaName: string;
  #released = false;

  /** Policies by id. Throws a TypeError where policies or schema do not parse: both were checked before. */
  constructor(policies: Readonly<Record<string, string>>, schema: string) {
    this.#schemaName = prepareSchema(schema);
    this.#name = freeNames.pop() ?? `set-${namesMade++}`;
    const answer = preparsePolicySet(this.#name, { staticPolicies: policies });
    if (answer.type === "success") return;
    freeNames.push(this.#name);
    throw new TypeError(`policies do not parse: ${answer.errors.map(({ message }) => message).join("; ")}`);
  }

  /**
   * Evaluates one layer. Cedar skips a policy that fails, a forbid too, and says so beside an answer that may be
   * allow: here that is an error. Does not throw.
   */
  evaluate(facts: Facts): Evaluation {
    const failed: Evaluation = { outcome: "error", policyIds: [] };
    if (this.#released) return failed;
    try {
      const answer = statefulIsAuthorized({
        ...facts,
        preparsedPolicySetId: this.#name,
        preparsedSchemaName: this.#schemaName,
        validateRequest: true,
      });
      if (answer.type === "failure") return failed;
      const { decision, diagnostics } = answer.response;
      if (diagnostics.errors.length > 0) {
        return { outcome: "error", policyIds: diagnostics.errors.map(({ policyId }) => policyId) };
      }
      return { outcome: decision === "allow" ? "allow" : "deny", policyIds: diagnostics.reason };
    } catch {
      return failed; // facts that have no form in Cedar, such as text that is not well-formed
    }
  }

  /** Gives the name and the memory back. Every later evaluation is an error. Idempotent. */
  release(): void {
    if (this.#released) return;
    this.#released = true;
    preparsePolicySet(this.#name, { staticPolicies: {} });
    freeNames.push(this.#name);
  }
}

function prepareSchema(schema: string): string {
  const known = schemas.get(schema);
  if (known !== undefined) return known;
  const name = `schema-${schemas.size}`;
  const answer = preparseSchema(name, schema);
  if (answer.type === "failure") throw new TypeError("the schema does not parse");
  schemas.set(schema, name);
  return name;
}
