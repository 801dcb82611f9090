/**
 * Scans a JSON text before it is parsed: counts what it holds, and finds members that are given more than once (RFC
 * 8259 §4), of which a parsed value shows only the last. The scan ends early at what no request may hold, so that its
 * cost is bounded. Parsers for editors read every character of a text or number, and recurse as deep as the input
 * (`bench/parts.ts`).
 */
import type { DescField, DescMessage } from "@bufbuild/protobuf";
import { maxViolations, type Violation } from "../../base/errors.ts";
import { givenTwice, isFree, isOpen, printable, unknownMember } from "./check.ts";
import { itemLimit } from "./size-limits.ts";

/** Texts, commas and brackets in a body. The largest valid request has about 600. */
const maxTokens = 2048;
/** The same for messages that may have unknown members. */
const maxOpenTokens = 16_384;
const structural = /[{}[\],"]/g;

export interface Structure {
  /** Duplicate members, such as `workload.application` or `attributes[3].key`, at most `maxViolations`. */
  readonly duplicates: readonly string[];
  /** Violations of a text with more than `maxTokens`, which need not be parsed; undefined for any other. */
  readonly excess: readonly Violation[] | undefined;
}

interface Open {
  /** Type of the object, or of an array's items; `free` for arbitrary members, undefined for unknown members. */
  readonly is: DescMessage | (DescField & { readonly fieldKind: "map" }) | "free" | undefined;
  readonly path: string;
  /** Position of each member by name; undefined in an array. */
  readonly positions: Map<string, number> | undefined;
  readonly limit: ((items: number, path: string) => Violation | undefined) | undefined;
  member: string;
  items: number;
  expectsName: boolean;
}

/** Scans a text, which need not be JSON, in linear time. */
export function scanJson(desc: DescMessage, text: string): Structure {
  const scan = new Scan(desc);
  return { excess: scan.run(text), duplicates: [...scan.duplicates] };
}

class Scan {
  readonly duplicates = new Set<string>();
  readonly #desc: DescMessage;
  /** Faults found so far, by field, at most `maxViolations`. */
  readonly #found = new Map<string, Violation>();

  constructor(desc: DescMessage) {
    this.#desc = desc;
  }

  /** Returns the faults of a text with too many tokens; undefined for any other. */
  run(text: string): readonly Violation[] | undefined {
    const open: Open[] = [];
    let tokens = 0;
    structural.lastIndex = 0;
    while (structural.test(text)) {
      const at = structural.lastIndex - 1;
      const inner = open.at(-1);
      switch (text[at]) {
        case "{":
          open.push(this.#object(inner));
          break;
        case "[":
          open.push(this.#array(inner));
          break;
        case ",":
          if (inner !== undefined) this.#next(inner);
          break;
        case '"': {
          const end = endOfString(text, at);
          if (inner?.expectsName === true) this.#name(inner, nameIn(text.slice(at, end + 1)));
          structural.lastIndex = end + 1;
          break;
        }
        default:
          open.pop();
      }
      tokens += 1;
      if (tokens > (isOpen(this.#desc) ? maxOpenTokens : maxTokens))
        return this.#found.size > 0 ? [...this.#found.values()] : [tooManyItems];
    }
    return undefined;
  }

  #object(outer: Open | undefined): Open {
    const { field, limit } = memberIn(outer) ?? {};
    const isMap = field?.fieldKind === "map";
    return {
      is: outer === undefined ? this.#desc : isMap ? field : contentOf(outer, field),
      path: placeIn(outer, field),
      positions: new Map(),
      limit: isMap ? limit : undefined,
      member: "",
      items: 0,
      expectsName: true,
    };
  }

  #array(outer: Open | undefined): Open {
    const { field, limit } = memberIn(outer) ?? {};
    return {
      is: field?.fieldKind === "list" ? field.message : outer?.is === "free" ? "free" : undefined,
      path: placeIn(outer, field),
      positions: undefined,
      limit: field?.fieldKind === "list" ? limit : undefined,
      member: "",
      // Commas plus one.
      items: 1,
      expectsName: false,
    };
  }

  #next(inner: Open): void {
    if (inner.positions !== undefined) inner.expectsName = true;
    else this.#count(inner, inner.items + 1);
  }

  #count(inner: Open, items: number): void {
    inner.items = items;
    const violation = inner.limit?.(items, inner.path);
    if (violation !== undefined) this.#note(violation);
  }

  #name(inner: Open, name: string): void {
    inner.expectsName = false;
    inner.member = name;
    const positions = inner.positions as Map<string, number>;
    const known = positions.get(name);
    if (known === undefined) {
      positions.set(name, positions.size);
      this.#count(inner, positions.size);
    }
    const { is } = inner;
    if (is === undefined) return;
    if (is === "free") {
      if (known !== undefined) this.#repeated(`${inner.path}[${known}].key`);
      return;
    }
    const field = is.kind === "message" ? membersOf(is).get(name)?.field : undefined;
    if (is.kind === "message" && field === undefined) {
      if (!isOpen(is)) this.#note(unknownMember(pathOf(inner, printable(name))));
    } else if (known !== undefined)
      this.#repeated(field === undefined ? `${inner.path}[${known}].key` : pathOf(inner, field.name));
  }

  #repeated(path: string): void {
    if (this.duplicates.size < maxViolations) this.duplicates.add(path);
    this.#note(givenTwice(path));
  }

  #note(violation: Violation): void {
    if (this.#found.size < maxViolations && !this.#found.has(violation.field))
      this.#found.set(violation.field, violation);
  }
}

const tooManyItems: Violation = { field: "", rule: "json.max_items", message: "body has too many members and items" };

function memberIn(outer: Open | undefined): Member | undefined {
  const { is, member, positions } = outer ?? {};
  if (is === undefined || is === "free" || is.kind !== "message" || positions === undefined) return undefined;
  return membersOf(is).get(member ?? "");
}

/** Type of an object that is the member's value or an item of an array. */
function contentOf({ is, positions }: Open, field: DescField | undefined): Open["is"] {
  if (is === "free" || positions === undefined) return is;
  if (field?.fieldKind !== "message") return undefined;
  return isFree(field.message) ? "free" : field.message;
}

function placeIn(outer: Open | undefined, field: DescField | undefined): string {
  if (outer === undefined) return "";
  if (field !== undefined) return pathOf(outer, field.name);
  if (outer.positions === undefined) return `${outer.path}[${outer.items - 1}]`;
  return outer.is === "free" ? `${outer.path}[${outer.positions.get(outer.member) ?? 0}].value` : "";
}

function pathOf(outer: Open | undefined, name: string): string {
  return outer === undefined || outer.path === "" ? name : `${outer.path}.${name}`;
}

interface Member {
  readonly field: DescField;
  readonly limit: Open["limit"];
}

const members = new WeakMap<DescMessage, ReadonlyMap<string, Member>>();

/** Members of a message by both of their names. */
function membersOf(desc: DescMessage): ReadonlyMap<string, Member> {
  let known = members.get(desc);
  if (known === undefined) {
    known = new Map(
      desc.fields.flatMap((field) => {
        const isMany = field.fieldKind === "list" || field.fieldKind === "map";
        const member = { field, limit: isMany ? itemLimit(field) : undefined };
        return [[field.jsonName, member] as const, [field.name, member] as const];
      }),
    );
    members.set(desc, known);
  }
  return known;
}

/** Returns the name in quotes; unchanged if it is not JSON. */
function nameIn(quoted: string): string {
  if (!quoted.includes("\\")) return quoted.slice(1, -1);
  try {
    return JSON.parse(quoted) as string;
  } catch {
    return quoted;
  }
}

/** Characters to look at one by one before a search for the next quote. */
const nearby = 64;

/** Position of the closing quote, or the end of the text if there is none. */
function endOfString(text: string, start: number): number {
  let at = start + 1;
  for (;;) {
    // In text with many escapes, a search for each quote would cost more than it saves.
    for (const end = Math.min(text.length, at + nearby); at < end; at++) {
      const character = text.charCodeAt(at);
      if (character === 0x22) return at;
      if (character === 0x5c) at++;
    }
    const quote = text.indexOf('"', at);
    if (quote === -1) return text.length;
    let backslashes = 0;
    while (quote - backslashes > at && text.charCodeAt(quote - 1 - backslashes) === 0x5c) backslashes++;
    if (backslashes % 2 === 0) return quote;
    at = quote + 1;
  }
}
