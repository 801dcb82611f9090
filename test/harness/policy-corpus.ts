/**
 * Integration tests in the format of cedar-policy/cedar-integration-tests, as its README describes it, beside the evaluator:
 * a test says of requests what is decided, by which policies, and which of them fail.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type EntityJson, policyToJson, schemaToJson, type TypeAndId } from "@cedar-policy/cedar-wasm/nodejs";
import { tooDeepAt } from "../../src/policy/check/check-set.ts";
import type { CedarRequest } from "../../src/policy/evaluate/cedar-request.ts";
import {
  type CompilablePolicy,
  CompiledSet,
  type PartlyApplying,
  setIndexOf,
} from "../../src/policy/evaluate/compiled-set.ts";
import { type Program, programOf } from "../../src/policy/evaluate/program.ts";
import { Paths, Scene } from "../../src/policy/evaluate/scene.ts";
import { leftToCedar } from "../../src/policy/evaluate/values.ts";
import type { PolicyAction } from "../../src/policy/model/decision.ts";
import { splitPolicies } from "../../src/policy/model/problem.ts";

/** A test's file. What it names is relative to the corpus. */
interface CorpusTest {
  readonly policies: string;
  readonly entities: string;
  readonly schema: string;
  readonly requests: readonly CorpusRequest[];
}

interface CorpusRequest extends Partial<Pick<CedarRequest, "principal" | "action" | "resource">> {
  readonly description: string;
  readonly context: CedarRequest["context"];
  /** In lower or upper case. */
  readonly decision: string;
  /** Cedar's ids, `policy0` being the first of the file. */
  readonly reason: readonly string[];
  readonly errors: readonly string[];
}

export const noCorpusCounts = () => ({
  requests: 0,
  /** Requests of which everything was evaluated here. */
  covered: 0,
  /** Requests of which some policies were, and the others are Cedar's. */
  partly: 0,
  /** Policies and requests of which nothing was. */
  left: 0,
});

/**
 * Evaluates what a test asks. Gives everything that is not as the test says, in words.
 *
 * @param root folder of the corpus
 * @param file path of the test in it
 */
export function corpusDisagreements(
  root: string,
  file: string,
  counts: ReturnType<typeof noCorpusCounts>,
): readonly string[] {
  const read = (path: string) => readFileSync(join(root, path), "utf8");
  const test = JSON.parse(read(file)) as CorpusTest;
  const policies = splitPolicies(read(test.policies)).map(({ text }) => compilable(text));
  const known = policies.flatMap((policy, position) => (policy === undefined ? [] : [{ policy, position }]));
  const entities = withActions(JSON.parse(read(test.entities)) as readonly EntityJson[], read(test.schema));
  const paths = new Paths();
  const policiesKnown = known.map(({ policy }) => policy);
  const set = new CompiledSet(policiesKnown, setIndexOf(policiesKnown), paths);
  return test.requests.flatMap((request) => {
    counts.requests++;
    const applying = entities && applyingTo(set, paths, request, entities);
    if (applying === undefined || (known.length === 0 && policies.length > 0)) {
      counts.left++;
      return [];
    }
    if (known.length === policies.length && applying.unknown.length === 0) counts.covered++;
    else counts.partly++;
    const isComplete = known.length === policies.length;
    const positionsOf = (of: readonly number[]) => of.map((index) => known[index]?.position as number);
    const positions: PartlyApplying = {
      permits: positionsOf(applying.permits),
      forbids: positionsOf(applying.forbids),
      failed: positionsOf(applying.failed),
      unknown: [
        ...positionsOf(applying.unknown),
        ...(isComplete ? [] : [...policies.keys()].filter((position) => policies[position] === undefined)),
      ],
    };
    return differences(positions, request).map((difference) => `${file}, ${request.description}: ${difference}`);
  });
}

/** Any action will do: what a policy says of actions is among its conditions. */
const anyAction: ReadonlySet<PolicyAction> = new Set<PolicyAction>(["protect"]);

/** Undefined where it is not for this engine to read. */
function compilable(text: string): CompilablePolicy | undefined {
  if (tooDeepAt(text) !== undefined) return undefined;
  const parsed = policyToJson(text);
  if (parsed.type === "failure") return undefined;
  const program: Program = programOf(parsed.json);
  return { program: JSON.stringify(program), actions: anyAction };
}

/** Entities with the actions of the schema, which Cedar takes from there. Undefined where the schema cannot be read. */
function withActions(entities: readonly EntityJson[], schema: string): readonly EntityJson[] | undefined {
  const parsed = schemaToJson(schema);
  if (parsed.type === "failure") return undefined;
  const namespaces = parsed.json as Readonly<Record<string, { readonly actions?: Actions }>>;
  const actions = Object.entries(namespaces).flatMap(([namespace, { actions = {} }]) => {
    const own = namespace === "" ? "Action" : `${namespace}::Action`;
    return Object.entries(actions).map(
      ([id, { memberOf }]): EntityJson => ({
        uid: { type: own, id },
        attrs: {},
        parents: (memberOf ?? []).map(({ type, id: group }) => ({ type: type ?? own, id: group })),
      }),
    );
  });
  const nameOf = ({ uid }: EntityJson) => JSON.stringify(uid, ["type", "id"]);
  const there = new Set(entities.map(nameOf));
  return [...entities, ...actions.filter((action) => !there.has(nameOf(action)))];
}

type ActionId = Pick<TypeAndId, "id"> & Partial<TypeAndId>;
type Actions = Readonly<Record<string, { readonly memberOf?: readonly ActionId[] } & object>>;

function applyingTo(
  set: CompiledSet,
  paths: Paths,
  { principal, action, resource, context }: CorpusRequest,
  entities: readonly EntityJson[],
): PartlyApplying | undefined {
  if (principal === undefined || action === undefined || resource === undefined) return undefined;
  const scene = new Scene({ principal, action, resource, context, entities: [...entities] }, paths);
  try {
    return set.applying(scene, "protect");
  } catch (error) {
    if (error !== leftToCedar) throw error;
    return undefined;
  }
}

/** What a test says of policies that were evaluated. Of a permit where something forbids, it says nothing. */
function differences(
  { permits, forbids, failed, unknown }: PartlyApplying,
  { decision, reason, errors }: CorpusRequest,
): readonly string[] {
  const isLeft = (position: number) => unknown.includes(position);
  const allows = decision.toLowerCase() === "allow";
  const isKnown = (position: number) => !isLeft(position);
  const [reasons, expectedErrors] = [reason, errors].map((ids) => ids.map(positionOf).filter(isKnown));
  const found: (readonly [string, readonly number[], readonly number[]])[] = [
    ["fail", failed, expectedErrors as readonly number[]],
    ["decide", allows ? permits : forbids, reasons as readonly number[]],
    ...(allows ? [["forbid", forbids, []] as const] : []),
  ];
  const said = found.flatMap(([what, ours, theirs]) => {
    const [one, other] = [ours, theirs].map((positions) => positions.toSorted((a, b) => a - b).join(", "));
    return one === other
      ? []
      : [`of the policies that ${what}, Cedar has ${other || "none"}; compiled: ${one || "none"}`];
  });
  const isDecided = unknown.length === 0 && (permits.length > 0 && forbids.length === 0) !== allows;
  return isDecided ? [...said, `Cedar decides ${decision}`] : said;
}

function positionOf(id: string): number {
  return Number(id.slice("policy".length));
}
