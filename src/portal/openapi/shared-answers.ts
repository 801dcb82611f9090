/** Identical error answers of several routes, stored once under `components`. */
import { STATUS_CODES } from "node:http";
import { isDeepStrictEqual } from "node:util";
import type { JsonObject } from "../../base/json.ts";

/** Answers of one route by status. */
type Answers = ReadonlyMap<number, JsonObject>;

export class SharedAnswers {
  /** The shared answers by name, such as `Unauthorized`. */
  readonly components: JsonObject;
  readonly #shared = new Map<number, JsonObject>();

  /** Picks, for each status, the most frequent answer, if more than one route gives it. */
  constructor(routes: readonly Answers[]) {
    for (const status of new Set(routes.flatMap((answers) => [...answers.keys()]))) {
      const [most, times] = mostFrequent(routes.flatMap((answers) => withStatus(answers, status)));
      if (times > 1) this.#shared.set(status, most);
    }
    const named = [...this.#shared].sort(([a], [b]) => a - b).map(([status, answer]) => [nameOf(status), answer]);
    this.components = Object.fromEntries(named) as JsonObject;
  }

  /** The answers of a route, with references in place of the shared ones. */
  share(answers: Answers): JsonObject {
    const entries = [...answers].map(([status, answer]) => [
      status,
      isDeepStrictEqual(this.#shared.get(status), answer)
        ? { $ref: `#/components/responses/${nameOf(status)}` }
        : answer,
    ]);
    return Object.fromEntries(entries) as JsonObject;
  }
}

function withStatus(answers: Answers, status: number): JsonObject[] {
  const answer = answers.get(status);
  return answer === undefined ? [] : [answer];
}

function mostFrequent(answers: readonly JsonObject[]): [JsonObject, number] {
  const counts = answers.map((answer) => answers.filter((other) => isDeepStrictEqual(answer, other)).length);
  const most = Math.max(...counts);
  return [answers[counts.indexOf(most)] as JsonObject, most];
}

function nameOf(status: number): string {
  return (STATUS_CODES[status] ?? String(status)).replaceAll(/[^A-Za-z]/g, "");
}
