/**
 * Expected decisions, as operators write them in `tests/*.yaml`: a list of named questions (`query.ts`), each with
 * `expect`: `allow`, and, if they matter, all `reasons`, members of `guidance` (`guidance.ts`), all `obligations` and
 * all `alerts`, in any order. api/schemas/policy-tests.schema.json describes every member.
 */
import { isNode, isSeq, LineCounter, parseDocument } from "yaml";
import { guidanceNames } from "../guidance/guidance.ts";
import type { Obligation, PolicyQuery } from "../model/decision.ts";
import type { PolicyProblem } from "../model/problem.ts";
import { members, optional, parseQuery, queryMembers, string, strings, type WrittenQuestion } from "../model/query.ts";

export interface PolicyTest {
  readonly name: string;
  readonly file: string;
  readonly line: number;
  readonly query: PolicyQuery;
  readonly question: WrittenQuestion;
  readonly expect: {
    readonly allow: boolean;
    readonly reasons?: readonly string[];
    readonly guidance: Readonly<Record<string, unknown>>;
    readonly obligations?: readonly Obligation[];
    readonly alerts?: readonly string[];
  };
}

/** Parses a file of expected decisions; tests with problems are left out. */
export function parsePolicyTests(
  file: string,
  text: string,
): { readonly tests: readonly PolicyTest[]; readonly problems: readonly PolicyProblem[] } {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const problems: PolicyProblem[] = document.errors.map(({ message, pos }) => {
    const { line, col: column } = lines.linePos(pos[0]);
    return { file, line, column, message };
  });
  if (problems.length > 0) return { tests: [], problems };
  if (!isSeq(document.contents))
    return { tests: [], problems: [{ file, line: 1, message: "must be a list of tests" }] };
  const tests: PolicyTest[] = [];
  for (const item of document.contents.items) {
    const line = lines.linePos((isNode(item) ? item.range?.[0] : undefined) ?? 0).line;
    try {
      tests.push({ file, line, ...parseTest(isNode(item) ? item.toJS(document) : item) });
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      problems.push({ file, line, message: error.message });
    }
  }
  return { tests, problems };
}

/** Throws a RangeError that describes the problem. */
function parseTest(value: unknown): Omit<PolicyTest, "file" | "line"> {
  const test = members(value, "a test", ["name", ...queryMembers, "expect"]);
  const expect = members(test.expect, "expect", ["allow", "reasons", "guidance", "obligations", "alerts"]);
  if (typeof expect.allow !== "boolean") throw new RangeError("expect.allow must be true or false");
  const reasons = optional(expect.reasons, (list) => strings(list, "expect.reasons"));
  const obligations = optional(expect.obligations, parseObligations);
  const alerts = optional(expect.alerts, (list) => strings(list, "expect.alerts"));
  return {
    name: string(test.name, "name"),
    query: parseQuery(test),
    question: writtenQuestion(test),
    expect: {
      allow: expect.allow,
      ...(reasons !== undefined && { reasons }),
      guidance: members(expect.guidance ?? {}, "expect.guidance", guidanceNames),
      ...(obligations !== undefined && { obligations }),
      ...(alerts !== undefined && { alerts }),
    },
  };
}

/** Its members are parsed already. */
function writtenQuestion(test: Readonly<Record<string, unknown>>): WrittenQuestion {
  const { tenant, principal = {}, ...given } = test;
  const question = Object.entries({ tenant, principal, ...given }).filter(([name]) => queryMembers.includes(name));
  return Object.fromEntries(question) as unknown as WrittenQuestion;
}

/** Values are compared in the form of answers, so that 24 is the text "24". */
function parseObligations(value: unknown): readonly Obligation[] {
  if (!Array.isArray(value)) throw new RangeError("expect.obligations must be a list");
  return value.map((item) => {
    const { id, parameters } = members(item, "an item of expect.obligations", ["id", "parameters"]);
    const values = Object.entries(members(parameters ?? {}, "parameters of an obligation"));
    return {
      id: string(id, "id of an obligation"),
      parameters: Object.fromEntries(values.map(([name, given]) => [name, String(given)])),
    };
  });
}
