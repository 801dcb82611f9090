/**
 * Checked policies of a set, outside the JavaScript heap: as objects, a hundred thousand of them would be most of what its
 * collector has to look at while callers wait. They lie as bytes in memory that threads share, and each is read where it is
 * wanted; objects that stay are what policies have alike, and the guidance of those that have decided something.
 */
import { createHash } from "node:crypto";
import { deserialize, serialize } from "node:v8";
import { type SetIndex, setIndexOf } from "../evaluate/compiled-set.ts";
import type { CheckedPolicy } from "./check-policy.ts";

/** What policies often have alike. */
const traitNames = [
  ...(["effect", "actions", "unconditional", "countsOnBehalfOf"] as const),
  ...(["reads", "namedActions", "entities"] as const),
] as const satisfies (keyof CheckedPolicy)[];
/** With what of its guidance is wanted of all policies: each may have guidance of its own. */
const combinedNames = [...traitNames, "requiresScopes"] as const;
export interface PolicyTraits extends Pick<CheckedPolicy, (typeof traitNames)[number]> {
  /** Whether its guidance names scopes. */
  readonly requiresScopes: boolean;
}

/** Values one behind the other, and where in the bytes each ends. */
interface Column {
  readonly bytes: Uint8Array;
  readonly ends: Uint32Array;
}

/** A table as threads hand it over. */
export interface PolicyColumns {
  /** The same for the same texts of policies in the same order, and for no others. */
  readonly digest: string;
  /** Texts. */
  readonly ids: Column;
  readonly programs: Column;
  /** Serialized: what else is each policy's own. */
  readonly others: Column;
  /** Serialized: values of traits, each once. */
  readonly values: Column;
  /** What its policies are found by. */
  readonly index: SetIndex;
  /** Numbers of the values in each combination of traits that there is, by `combinedNames`; and each policy's combination. */
  readonly combinations: Uint32Array;
  readonly combinationOf: Uint32Array;
  /** Number of each policy's guidance among the values. */
  readonly guidanceOf: Uint32Array;
}

type Others = Pick<CheckedPolicy, "file" | "line" | "text" | "description">;

export class PolicyTable implements Iterable<CheckedPolicy> {
  readonly columns: PolicyColumns;
  readonly #ids: Buffer;
  /** By number; read when they are first asked for. */
  readonly #values: unknown[] = [];
  readonly #traits: PolicyTraits[] = [];

  constructor(columns: PolicyColumns) {
    this.columns = columns;
    this.#ids = Buffer.from(columns.ids.bytes.buffer);
  }

  static of(policies: readonly CheckedPolicy[]): PolicyTable {
    const digest = createHash("sha256");
    const values = new Map<string, number>();
    const combinations = new Map<string, number>();
    const known = new Map<unknown, number>();
    const numbered = (value: unknown): number => {
      // Most are the very same object as in other policies (`alike.ts`).
      const number = known.get(value) ?? numberOf(serialize(value).toString("latin1"), values);
      known.set(value, number);
      return number;
    };
    const combinationOf = policies.map((policy) => {
      // Also where a text is no good Unicode.
      digest.update(`${policy.text.length}:`).update(policy.text, "utf16le");
      const requiresScopes = policy.guidance.lists.required_scopes !== undefined;
      const numbers = [...traitNames.map((name) => policy[name]), requiresScopes].map(numbered);
      return numberOf(numbers.join(), combinations);
    });
    const guidanceOf = policies.map(({ guidance }) => numbered(guidance));
    return new PolicyTable({
      digest: digest.digest("base64"),
      ids: columnOf(policies.map(({ id }) => Buffer.from(id))),
      programs: columnOf(policies.map(({ program }) => Buffer.from(program))),
      others: columnOf(policies.map((policy) => serialize(othersOf(policy)))),
      values: columnOf(Array.from(values.keys(), (value) => Buffer.from(value, "latin1"))),
      index: setIndexOf(policies),
      combinations: shared([...combinations.keys()].flatMap((numbers) => numbers.split(",").map(Number))),
      combinationOf: shared(combinationOf),
      guidanceOf: shared(guidanceOf),
    });
  }

  get length(): number {
    return this.columns.combinationOf.length;
  }

  /** Traits that policies have, each combination of them once. */
  get traits(): readonly PolicyTraits[] {
    const { combinations } = this.columns;
    return Array.from({ length: combinations.length / combinedNames.length }, (_, number) => this.#combination(number));
  }

  /** Made anew each time, but for its traits. */
  at(position: number): CheckedPolicy {
    const { programs, others } = this.columns;
    const { requiresScopes: _, ...traits } = this.traitsOf(position);
    return {
      id: this.idOf(position),
      program: bytesAt(programs, position).toString("utf8"),
      ...(deserialize(bytesAt(others, position)) as Others),
      ...traits,
      guidance: this.guidanceOf(position),
    };
  }

  guidanceOf(position: number): CheckedPolicy["guidance"] {
    return this.#value(this.columns.guidanceOf[position] as number) as CheckedPolicy["guidance"];
  }

  idOf(position: number): string {
    const { ends } = this.columns.ids;
    return this.#ids.toString("latin1", ends[position - 1] ?? 0, ends[position]);
  }

  traitsOf(position: number): PolicyTraits {
    return this.#combination(this.columns.combinationOf[position] as number);
  }

  *[Symbol.iterator](): Generator<CheckedPolicy, undefined> {
    for (let position = 0; position < this.length; position++) yield this.at(position);
  }

  #combination(number: number): PolicyTraits {
    const known = this.#traits[number];
    if (known !== undefined) return known;
    const first = number * combinedNames.length;
    const numbers = this.columns.combinations.subarray(first, first + combinedNames.length);
    const traits = Object.fromEntries(
      combinedNames.map((name, index) => [name, this.#value(numbers[index] as number)]),
    );
    this.#traits[number] = traits as unknown as PolicyTraits;
    return this.#traits[number];
  }

  #value(number: number): unknown {
    this.#values[number] ??= deserialize(bytesAt(this.columns.values, number));
    return this.#values[number];
  }
}

function othersOf({ file, line, text, description }: CheckedPolicy): Others {
  return { file, line, text, ...(description !== undefined && { description }) };
}

function numberOf(key: string, numbers: Map<string, number>): number {
  const number = numbers.get(key) ?? numbers.size;
  numbers.set(key, number);
  return number;
}

function columnOf(pieces: readonly Uint8Array[]): Column {
  const whole = Buffer.concat(pieces);
  const bytes = new Uint8Array(new SharedArrayBuffer(whole.length));
  bytes.set(whole);
  let end = 0;
  const ends = pieces.map(({ length }) => {
    end += length;
    return end;
  });
  return { bytes, ends: shared(ends) };
}

function bytesAt({ bytes, ends }: Column, index: number): Buffer {
  const start = ends[index - 1] ?? 0;
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, (ends[index] as number) - start);
}

function shared(numbers: readonly number[]): Uint32Array {
  const array = new Uint32Array(new SharedArrayBuffer(4 * numbers.length));
  array.set(numbers);
  return array;
}
