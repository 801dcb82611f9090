/** The question for `policy explain`: a file, or options. */

import { readFile } from "node:fs/promises";
import { Option } from "commander";
import { type AttributeDeclarations, attributeProblems } from "../../base/caller.ts";
import { isObject, type JsonObject, orUndefined, parseJson } from "../../base/json.ts";
import type { StoredRecord } from "../../ledger/ports/record.ts";
import { placed } from "../../policy/check/question.ts";
import { parsePolicyTests } from "../../policy/load/policy-test-file.ts";
import type { PolicyQuery } from "../../policy/model/decision.ts";
import { type InputKind, inputCatalogue } from "../../policy/model/inputs.ts";
import { describeProblem } from "../../policy/model/problem.ts";
import { parseQuery, parseQueryText } from "../../policy/model/query.ts";
import { policyActions } from "../../policy/model/schema.ts";
import type { Values } from "../frame/command.ts";

/** Inputs that have an option. */
const inputOptions = inputCatalogue({}).inputs.flatMap(({ option, ...input }) =>
  option === undefined
    ? []
    : [{ ...input, flag: option[0], says: option[1], option: new Option(option[0]).attributeName() }],
);

/** Options that describe the question. */
export const queryFlags = {
  "--request <file>":
    "the question as in tests/*.yaml, or a record or receipt of a decision, instead of the options below",
  "--test <name>": "the question of this test, if --request names a file of tests; a part of its name is enough",
  "--action <action>": { says: "what is asked for", choices: policyActions },
  ...(Object.fromEntries(
    inputOptions.map(({ flag, says, words }) => [flag, words === undefined ? says : { says, choices: words }]),
  ) as object),
  "--principal-attribute <name=value...>": "declared attributes of the caller; members of a set with commas",
  "--on-behalf-of <type/id>": "the subject of the question, if it is not the caller",
  "--property <name=value...>": "properties of whom it asks for",
  "--understood <id...>": "obligations that the request lists as understood",
} as const;

type QueryOptions = Values<typeof queryFlags> & { readonly tenant?: string };

/** A question, and the record of its decision, if it was read from one. */
export interface Question {
  readonly query: PolicyQuery;
  readonly record?: StoredRecord;
  /** False if policies may read registrations that the recorded decision did not look up. Default: true. */
  readonly isComplete?: boolean;
}

/**
 * The question. Rejects with a RangeError that describes a problem.
 *
 * @param declared attributes that the caller can have
 */
export async function readQuestion(options: QueryOptions, declared: AttributeDeclarations): Promise<Question> {
  const question = await readAnyQuestion(options, declared);
  const [problem] = attributeProblems(declared, question.query.caller.attributes);
  if (problem !== undefined) throw new RangeError(problem);
  return question;
}

async function readAnyQuestion(options: QueryOptions, declared: AttributeDeclarations): Promise<Question> {
  const { request, test } = options;
  if (request === undefined && test !== undefined) throw new RangeError("--test: is about --request");
  if (request === undefined) return { query: parseQuery(fromOptions(options, declared)) };
  if (options.tenant !== undefined || options.action !== undefined) {
    throw new RangeError("--request takes the place of --tenant, --action and what describes the request");
  }
  const text = await readFile(request, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new RangeError(`--request: the file cannot be read (${error.code})`);
  });
  if (test !== undefined) return { query: testNamed(test, request, text) };
  return (await recordedQuestion(text)) ?? { query: parseQueryText(text) };
}

function testNamed(name: string, file: string, text: string): PolicyQuery {
  const { tests, problems } = parsePolicyTests(file, text);
  const found = tests.filter((test) => test.name === name);
  const [only, ...more] = found.length > 0 ? found : tests.filter((test) => test.name.includes(name));
  if (only !== undefined && more.length === 0) return only.query;
  if (only !== undefined) throw new RangeError(`--test: ${1 + more.length} tests have this in their name`);
  const [problem] = problems;
  throw new RangeError(problem === undefined ? `--test: ${file} has no test of this name` : describeProblem(problem));
}

/** The question in a record, as `ledger search --records` prints it, or in the record of a receipt or an answer. */
async function recordedQuestion(text: string): Promise<Question | undefined> {
  const given = objectIn(text);
  // Loaded here, so that other questions start faster.
  const { findReceipt } = await import("../../ledger/record/receipt.ts");
  const receipt = findReceipt(given);
  if (receipt === undefined && given?.record_id === undefined) return undefined;
  const sealed = receipt === undefined ? given : objectIn(Buffer.from(receipt.record ?? "", "base64").toString("utf8"));
  if (sealed === undefined) throw new RangeError("the receipt has no record: it shows a position only");
  const { isComplete, recordedQuery } = await import("../../domain/replay.ts");
  const record = sealed as unknown as StoredRecord;
  const { reliedOnIds } = await import("../../ledger/search/summary.ts");
  try {
    const query = recordedQuery(record);
    const reliedOn = query === undefined ? [] : (reliedOnIds(record.outcome) ?? []);
    if (query !== undefined && reliedOn.length === 0) return { query, record, isComplete: isComplete(record) };
    if (query !== undefined)
      throw new RangeError(`the decision relied on registrations, which are records of their own: use --decision`);
  } catch (error) {
    // The file may claim to be a record without being one.
    if (error instanceof RangeError) throw error;
  }
  throw new RangeError("the record is not a decision");
}

function objectIn(text: string): JsonObject | undefined {
  const value = orUndefined(() => parseJson(text));
  return isObject(value) ? value : undefined;
}

function fromOptions(options: QueryOptions, declared: AttributeDeclarations) {
  const { action, understood, onBehalfOf, property } = options;
  const attributes = options.principalAttribute?.map((text) => attributeOf(text, declared));
  let question = {
    action,
    ...(understood !== undefined && { understood_obligations: understood }),
    ...(onBehalfOf !== undefined && { on_behalf_of: subjectOf(onBehalfOf, property) }),
    principal: { ...(attributes !== undefined && { attributes: Object.fromEntries(attributes) }) },
    claimed: { workload: {}, resource: {} },
  };
  for (const { name, kind, option } of inputOptions) {
    const given = (options as Readonly<Record<string, unknown>>)[option];
    if (given !== undefined) question = placed(question, name, givenValue(kind, given, option));
  }
  return question;
}

/** The value that an option's text stands for. */
function givenValue(kind: InputKind, given: unknown, option: string): unknown {
  if (kind === "tags")
    return Object.fromEntries((given as readonly string[]).map((text) => splitAt(`--${option}`, text)));
  return kind === "whole_number" && /^\d+$/.test(String(given)) ? Number(given) : given;
}

/** Repeated values of one property form a list. */
function subjectOf(text: string, property: readonly string[] = []) {
  const at = text.indexOf("/");
  if (at < 1) throw new RangeError("--on-behalf-of must be type/id");
  const given = property.map((each) => splitAt("--property", each));
  const isSingle = ([name]: readonly [string, string]) => given.filter(([other]) => other === name).length === 1;
  return {
    type: text.slice(0, at),
    id: text.slice(at + 1),
    properties: Object.fromEntries(given.filter(isSingle)),
    property_values: property,
  };
}

/** The value in the declared type; as text without a declaration. */
function attributeOf(given: string, declared: AttributeDeclarations): readonly [string, unknown] {
  const [name, text] = splitAt("--principal-attribute", given);
  const type = Object.hasOwn(declared, name) ? declared[name]?.type : undefined;
  if (type === "set_of_text") return [name, text === "" ? [] : text.split(",")];
  if (type === "yes_no") return [name, ({ true: true, false: false } as Record<string, unknown>)[text] ?? text];
  return [name, type === "whole_number" && /^-?\d+$/.test(text) ? Number(text) : text];
}

function splitAt(option: string, text: string): readonly [string, string] {
  const at = text.indexOf("=");
  if (at < 1) throw new RangeError(`${option} must be key=value`);
  return [text.slice(0, at), text.slice(at + 1)];
}
