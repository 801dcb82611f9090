/**
 * Reads the JSON of requests, in one pass compiled from the protobuf definition. It refuses more than protobuf JSON
 * does: unknown members, members given twice (RFC 8259 §4), text that stores cannot hold, and on the JSON routes
 * camelCase twins, canonical enumeration values and numbers sent as text. Reading ends early at what no request may
 * hold, so that its cost is bounded. A request with faults is read once more to name all of them, with their paths.
 */

import { type DescEnum, type DescField, type DescMessage, type Message, ScalarType } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { invalidRequests, maxViolations, type ServiceError, type Violation } from "../../base/errors.ts";
import { isCleanText } from "../../base/ids.ts";
import { orUndefined, parseJson } from "../../base/json.ts";
import { rememberedBy } from "../../base/remembered.ts";
import { checkFree, isFree, isOpen, itemLimit, uncleanText, wrongType } from "./contract.ts";
import { restWords } from "./normal-form.ts";
import { rulesOf } from "./rules.ts";

/**
 * `canonical`: protobuf's own spelling; `rest`: that of the JSON routes, with snake_case names, and lowercase words of
 * enumerations without their prefix.
 */
export type Spelling = "rest" | "canonical";

/** Texts, commas and brackets in a body. The largest valid request has about 600. */
const maxTokens = 2048;
/** The same for messages that may have unknown members. */
const maxOpenTokens = 16_384;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Reads a request. Throws `invalid_request` with every fault of the JSON and the broken rules of its readable members,
 * in the order of the body; those of absent members come last in their object. A member with a fault is reported for
 * that alone. Does not check the rules of a message without faults.
 */
export function readJson(desc: DescMessage, body: Uint8Array | string, spelling: Spelling): Message {
  const text = typeof body === "string" ? body : decodeText(body);
  const reading = new Reading(desc, text);
  const message = reading.run(spelling);
  if (message !== undefined && reading.faults.length === 0) return message;
  const order: Order = new Map();
  const again = new Reading(desc, text, order);
  throw invalidRequests(explain(desc, again.run(spelling), again, order));
}

/** Returns the text of a body. Throws `invalid_request` if it is not UTF-8. */
export function decodeText(body: Uint8Array): string {
  try {
    return utf8.decode(body);
  } catch (cause) {
    throw refusal("json.utf8", "body is not UTF-8", cause);
  }
}

export function notJson(cause?: unknown): ServiceError {
  return refusal("json.syntax", "body is not JSON", cause);
}

function refusal(rule: string, message: string, cause?: unknown): ServiceError {
  return invalidRequests([{ field: "", rule, message }], cause);
}

const tooManyItems: Violation = { field: "", rule: "json.max_items", message: "body has too many members and items" };
/** Rules whose violations explain why a body is too large. */
const structuralRules = new Set(["json.unknown_field", "json.duplicate_member", "repeated.max_items", "map.max_pairs"]);

/** A text that is being read, from its start to `at`. Methods throw `invalid_request` for what is not JSON. */
class Reading {
  readonly faults: (Violation | undefined)[] = [];
  /** Whether an item could not be read, so that the rules of the others prove nothing. */
  isPartial = false;
  /** Whether the last text may hold what stores cannot. */
  hasEscapes = false;
  readonly #text: string;
  readonly #desc: DescMessage;
  readonly #order: Order | undefined;
  readonly #maxTokens: number;
  /** Names and positions of what is being read, from the outside in. */
  readonly #path: (string | number)[] = [];
  #at = 0;
  #tokens = 0;

  /** @param order collects the paths of members in the order of the body */
  constructor(desc: DescMessage, text: string, order?: Order) {
    this.#text = text;
    this.#desc = desc;
    this.#order = order;
    this.#maxTokens = isOpen(desc) ? maxOpenTokens : maxTokens;
  }

  /** Reads the whole text. Returns undefined if it is not an object. */
  run(spelling: Spelling): Message | undefined {
    if (this.#text === "") throw refusal("json.syntax", "body is empty; a JSON object is expected");
    const message = messageReaders[spelling](this.#desc)(this) as Message | undefined;
    this.peek();
    if (this.#at < this.#text.length) throw notJson();
    return message;
  }

  /** Code of the next character that is not white space; NaN at the end. */
  peek(): number {
    let code = this.#text.charCodeAt(this.#at);
    while (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) code = this.#text.charCodeAt(++this.#at);
    return code;
  }

  /** Consumes the bracket that opens an object or array, if it is next. */
  opens(bracket: number): boolean {
    if (this.peek() !== bracket) return false;
    this.#at++;
    this.#count();
    return true;
  }

  /** Whether a member or item follows. Consumes the comma before it, or else the closing bracket. */
  follows(closing: number, isFirst: boolean): boolean {
    const code = this.peek();
    if (isFirst && code !== closing) return true;
    if (code !== closing && code !== comma) throw notJson();
    this.#at++;
    this.#count();
    return code === comma;
  }

  /** Consumes a member's name and colon if they are next, as the text. */
  takes(quotedName: string): boolean {
    if (this.peek() !== quote || !this.#text.startsWith(quotedName, this.#at)) return false;
    this.#at += quotedName.length;
    this.#count();
    return true;
  }

  /** Consumes a member's name and colon. */
  name(): string {
    if (this.peek() !== quote) throw notJson();
    const name = this.string();
    if (this.peek() !== colon) throw notJson();
    this.#at++;
    return name;
  }

  /** Consumes a text whose quote is next. */
  string(): string {
    this.#count();
    const start = this.#at + 1;
    for (let at = start; at < start + nearby; at++) {
      const code = this.#text.charCodeAt(at);
      if (code === quote) {
        this.#at = at + 1;
        this.hasEscapes = false;
        return copied(this.#text.slice(start, at));
      }
      // NaN at the end, too.
      if (!(code >= 0x20) || code === backslash) break;
    }
    this.hasEscapes = true;
    return this.#parse(endOfString(this.#text, this.#at) + 1) as string;
  }

  /** Consumes any value. */
  value(): unknown {
    const code = this.peek();
    if (code === quote) return this.string();
    if (code === openBrace || code === openBracket) return this.nested();
    atom.lastIndex = this.#at;
    if (!atom.test(this.#text)) throw notJson();
    return this.#parse(atom.lastIndex);
  }

  /** Consumes an object or array of any depth. If `isFree`, duplicate members are faults. */
  nested(isFree = false): unknown {
    const open: Nested[] = [];
    const text = this.#text;
    structural.lastIndex = this.#at;
    while (structural.test(text)) {
      this.#count();
      const at = structural.lastIndex - 1;
      const inner = open.at(-1);
      switch (text.charCodeAt(at)) {
        case openBrace:
        case openBracket: {
          const place = inner === undefined ? (isFree ? this.place() : "") : placeIn(inner);
          const names = text.charCodeAt(at) === openBrace ? new Map<string, number>() : undefined;
          open.push({ place, names, position: 0, expectsName: names !== undefined });
          break;
        }
        case comma:
          if (inner?.names === undefined) (inner as Nested).position++;
          else inner.expectsName = true;
          break;
        case quote: {
          const end = endOfString(text, at);
          if (isFree && inner?.names !== undefined && inner.expectsName) this.#nameIn(inner, text.slice(at, end + 1));
          structural.lastIndex = end + 1;
          break;
        }
        default:
          open.pop();
          if (open.length === 0) return this.#parse(at + 1);
      }
    }
    throw notJson();
  }

  #nameIn(inner: Nested, quotedName: string): void {
    const names = inner.names as Map<string, number>;
    const name = nameOf(quotedName);
    const known = names.get(name);
    inner.expectsName = false;
    inner.position = known ?? names.size;
    if (known === undefined) names.set(name, names.size);
    else this.fault(givenTwice(`${inner.place}[${known}].key`));
  }

  /** Consumes a value of another type than expected, which is a fault. */
  other(expected: string): undefined {
    this.value();
    return this.fault(wrongType(this.place(), expected));
  }

  fault(violation: Violation): undefined {
    this.faults.push(violation);
  }

  /** Drops the faults of a value that is ignored, except duplicate members. */
  drop(from: number, to: number): void {
    for (let i = from; i < to; i++) if (this.faults[i]?.rule !== duplicateRule) this.faults[i] = undefined;
  }

  enter(segment: string | number, isAgain = false): void {
    this.#path.push(segment);
    if (this.#order === undefined) return;
    const place = this.place();
    const first = (isAgain ? this.#order.get(place)?.first : undefined) ?? this.#tokens;
    this.#order.set(place, { first, last: this.#tokens });
  }

  leave(): void {
    this.#path.pop();
  }

  /** Path of what is being read. */
  place(): string {
    let place = "";
    for (const segment of this.#path)
      place += typeof segment === "number" ? `[${segment}]` : place === "" ? segment : `.${segment}`;
    return place;
  }

  #parse(end: number): unknown {
    const text = this.#text.slice(this.#at, end);
    this.#at = end;
    try {
      return parseJson(text);
    } catch (cause) {
      throw notJson(cause);
    }
  }

  #count(): void {
    if (++this.#tokens <= this.#maxTokens) return;
    const found = new Map<string, Violation>();
    for (const fault of this.faults)
      if (fault !== undefined && structuralRules.has(fault.rule) && !found.has(fault.field))
        found.set(fault.field, fault);
    throw invalidRequests(found.size > 0 ? [...found.values()].slice(0, maxViolations) : [tooManyItems]);
  }
}

/** Where members begin, by path, in tokens: the first and the last time that they are given in their object. */
type Order = Map<string, { readonly first: number; readonly last: number }>;

/** An object or array whose members are arbitrary. */
interface Nested {
  readonly place: string;
  /** Positions of an object's members; undefined for an array. */
  readonly names: Map<string, number> | undefined;
  position: number;
  expectsName: boolean;
}

function placeIn({ place, names, position }: Nested): string {
  return names === undefined ? `${place}[${position}]` : `${place}[${position}].value`;
}

const [quote, comma, colon, backslash] = [0x22, 0x2c, 0x3a, 0x5c];
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d];
const structural = /[{}[\],"]/g;
const atom = /true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;

/** A slice keeps the whole text in memory, and requests are kept: their texts are copied. Shorter ones are copies. */
const shortestSlice = 13;

function copied(slice: string): string {
  return slice.length < shortestSlice ? slice : ` ${slice}`.slice(1);
}

/** Returns the name in quotes; unchanged if it is not JSON. */
function nameOf(quoted: string): string {
  if (!quoted.includes("\\")) return quoted.slice(1, -1);
  return (orUndefined(() => parseJson(quoted)) as string | undefined) ?? quoted;
}

/** Characters to look at one by one before a search for the next quote. */
const nearby = 64;

/** Position of the closing quote, or the end of the text if there is none. */
export function endOfString(text: string, start: number): number {
  let at = start + 1;
  for (;;) {
    // In text with many escapes, a search for each quote would cost more than it saves.
    for (const end = Math.min(text.length, at + nearby); at < end; at++) {
      const code = text.charCodeAt(at);
      if (code === quote) return at;
      if (code === backslash) at++;
    }
    const found = text.indexOf('"', at);
    if (found === -1) return text.length;
    let backslashes = 0;
    while (found - backslashes > at && text.charCodeAt(found - 1 - backslashes) === backslash) backslashes++;
    if (backslashes % 2 === 0) return found;
    at = found + 1;
  }
}

/** Consumes a value and returns what a message holds; undefined for a fault. */
type Read = (json: Reading) => unknown;

interface Member {
  readonly name: string;
  readonly localName: string;
  readonly position: number;
  /** The name as most callers write it. */
  readonly quoted: string;
  readonly read: Read;
  /** The member that followed this one last time. */
  next: Member | undefined;
}

const messageReaders = {
  rest: rememberedBy((desc: DescMessage) => compileMessage(desc, "rest")),
  canonical: rememberedBy((desc: DescMessage) => compileMessage(desc, "canonical")),
};

function compileMessage(desc: DescMessage, spelling: Spelling): Read {
  const members = new Map<string, Member>();
  let first: Member | undefined;
  for (const [position, field] of desc.fields.entries()) {
    const { name, localName } = field;
    const jsonName = spelling === "rest" ? name : field.jsonName;
    const read = compileField(field, spelling);
    const member = { name, localName, position, quoted: `"${jsonName}":`, read, next: undefined };
    members.set(jsonName, member).set(name, member);
    first ??= member;
  }
  // An object that starts with all members is several times cheaper than one that grows.
  const blank = Object.fromEntries([["$typeName", desc.typeName], ...desc.fields.map(unsetMember)]);
  // Canonical JSON is read as protobuf's own readers do.
  const mayHaveMore = isOpen(desc) && spelling === "rest";
  const unseen = desc.fields.map(() => false);
  const collections = desc.fields.filter(({ fieldKind }) => fieldKind === "list" || fieldKind === "map");
  return (json) => {
    if (!json.opens(openBrace)) return json.other("an object");
    const message: Record<string, unknown> = { ...blank };
    const seen = unseen.slice();
    let unknown: Set<string> | undefined;
    /** Where the faults of members begin and end. */
    let spans: Map<Member, readonly [number, number]> | undefined;
    let last: Member | undefined;
    for (let isFirst = true; json.follows(closeBrace, isFirst); isFirst = false) {
      let member = last === undefined ? first : last.next;
      if (member === undefined || !json.takes(member.quoted)) {
        const name = json.name();
        member = members.get(name);
        if (member === undefined) {
          const shown = printable(name);
          unknown ??= new Set();
          json.enter(shown, unknown.has(shown));
          if (!mayHaveMore && !unknown.has(name)) json.fault(unknownMember(json.place()));
          unknown.add(name).add(shown);
          json.leave();
          json.value();
          continue;
        }
        if (last === undefined) first = member;
        else last.next = member;
      }
      last = member;
      json.enter(member.name, seen[member.position]);
      if (seen[member.position]) {
        const span = spans?.get(member);
        if (span !== undefined) json.drop(...span);
        json.fault(givenTwice(json.place()));
      }
      seen[member.position] = true;
      const from = json.faults.length;
      const isNull = json.peek() === 0x6e && json.value() === null;
      message[member.localName] = (isNull ? undefined : member.read(json)) ?? blank[member.localName];
      if (json.faults.length > from) {
        spans ??= new Map();
        spans.set(member, [from, json.faults.length]);
      }
      json.leave();
    }
    for (const { localName, fieldKind } of collections) message[localName] ??= fieldKind === "list" ? [] : {};
    return message;
  };
}

function unsetMember(field: DescField): readonly [string, unknown] {
  if (field.presence !== FeatureSet_FieldPresence.IMPLICIT) return [field.localName, undefined];
  if (field.fieldKind === "enum") return [field.localName, 0];
  return [field.localName, field.fieldKind === "scalar" ? zeros.get(field.scalar) : undefined];
}

/** Scalar types of requests. */
const zeros: ReadonlyMap<ScalarType, unknown> = new Map<ScalarType, unknown>([
  [ScalarType.STRING, ""],
  [ScalarType.BOOL, false],
  [ScalarType.INT64, 0n],
]);

function compileField(field: DescField, spelling: Spelling): Read {
  switch (field.fieldKind) {
    case "message":
      return isFree(field.message) ? readFree : messageReaders[spelling](field.message);
    case "enum":
      return enumReader(field.enum, spelling);
    case "scalar":
      if (field.oneof !== undefined) break;
      if (field.scalar === ScalarType.STRING) return readText;
      if (field.scalar === ScalarType.BOOL) return readBoolean;
      if (field.scalar === ScalarType.INT64) return longReader(spelling);
      break;
    case "list":
      if (field.listKind === "message") return listReader(field, messageReaders[spelling](field.message));
      if (field.listKind === "scalar" && field.scalar === ScalarType.STRING) return listReader(field, readText);
      break;
    case "map":
      if (field.scalar === ScalarType.STRING && field.mapKey === ScalarType.STRING) return mapReader(field);
  }
  throw new Error(`${field} is not supported in requests`);
}

function readText(json: Reading): string | undefined {
  if (json.peek() !== quote) return json.other("a string");
  const text = json.string();
  return !json.hasEscapes || isCleanText(text) ? text : json.fault(uncleanText(json.place()));
}

function readBoolean(json: Reading): boolean | undefined {
  const value = json.value();
  return typeof value === "boolean" ? value : json.fault(wrongType(json.place(), "true or false"));
}

function longReader(spelling: Spelling): Read {
  return (json) => {
    const value = json.value();
    if (Number.isSafeInteger(value)) return BigInt(value as number);
    if (spelling === "canonical" && isLong(value)) return BigInt(value);
    return json.fault(wrongType(json.place(), "an integer of at most 2^53-1"));
  };
}

/** A 64-bit integer, or its decimal text. A rule refuses values that are too large. */
function isLong(value: unknown): value is string | number {
  const isInteger = typeof value === "string" ? /^-?[0-9]{1,19}$/.test(value) : Number.isInteger(value);
  return isInteger && BigInt.asIntN(64, BigInt(value as string)) === BigInt(value as string);
}

function enumReader(desc: DescEnum, spelling: Spelling): Read {
  // Includes the name of the value 0, which is the empty string on the JSON routes: in an optional member it means
  // absent, in a required one its rule refuses it. Canonical JSON accepts numbers too; a rule decides which.
  const words = spelling === "rest" ? restWords(desc) : new Map(desc.values.map(({ name, number }) => [number, name]));
  const numbers = new Map<unknown, number>([...words].map(([number, word]) => [word, number]));
  const declared = [...words].flatMap(([number, word]) => (number === 0 ? [] : [word]));
  const message = `must be one of ${declared.join(", ")}`;
  return (json) => {
    const value = json.value();
    const number = numbers.get(value) ?? (spelling === "canonical" && isInt32(value) ? value : undefined);
    if (number === undefined) json.fault({ field: json.place(), rule: "enum.defined_only", message });
    return number;
  };
}

function isInt32(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && Math.abs(value) < 2 ** 31;
}

function readFree(json: Reading): unknown {
  if (json.peek() !== openBrace) return json.other("an object");
  const value = json.nested(true);
  const violations: Violation[] = [];
  checkFree(value, json.place(), violations);
  json.faults.push(...violations);
  return violations.length === 0 ? value : undefined;
}

function listReader(field: DescField, readItem: Read): Read {
  const limit = itemLimit(field);
  return (json) => {
    if (!json.opens(openBracket)) return json.other("an array");
    const items: unknown[] = [];
    const from = json.faults.length;
    let count = 0;
    for (; json.follows(closeBracket, count === 0); count++) {
      if (limit(count, "") !== undefined) json.value();
      else if (limit(count + 1, "") !== undefined) {
        json.drop(from, json.faults.length);
        json.fault(limit(count + 1, json.place()) as Violation);
        json.value();
      } else {
        json.enter(count);
        const item = readItem(json);
        json.leave();
        // An empty text keeps the positions of the others.
        items.push(item ?? "");
      }
    }
    const isFaulty = json.faults.slice(from).some((fault) => fault?.rule !== duplicateRule);
    if (field.message !== undefined && isFaulty) json.isPartial = true;
    return limit(count, "") === undefined ? items : undefined;
  };
}

/** Members have positions instead of names, because the names are the caller's text. */
function mapReader(field: DescField): Read {
  const limit = itemLimit(field);
  return (json) => {
    if (!json.opens(openBrace)) return json.other("an object");
    const entries: Record<string, string> = {};
    /** Violations of values by name, of the last value if there are several. */
    let faults: Map<string, Violation> | undefined;
    let [count, mayBeUnclean] = [0, false];
    for (let isFirst = true; json.follows(closeBrace, isFirst); isFirst = false) {
      const name = json.name();
      mayBeUnclean ||= json.hasEscapes;
      if (Object.hasOwn(entries, name)) {
        json.fault(givenTwice(`${json.place()}[${Object.keys(entries).indexOf(name)}].key`));
        faults?.delete(name);
      } else if (limit(++count, "") !== undefined && limit(count - 1, "") === undefined)
        json.fault(limit(count, json.place()) as Violation);
      const isText = json.peek() === quote;
      const value = json.value();
      if (!isText || (json.hasEscapes && !isCleanText(value as string))) {
        faults ??= new Map();
        faults.set(name, isText ? uncleanText("") : wrongType("", "a string"));
      }
      put(entries, name, isText ? (value as string) : "");
    }
    if (limit(count, "") !== undefined) return undefined;
    if (faults === undefined && !mayBeUnclean) return entries;
    for (const [i, name] of Object.keys(entries).entries()) {
      const fault = faults?.get(name);
      if (!isCleanText(name)) json.fault(uncleanText(`${json.place()}[${i}].key`));
      if (fault !== undefined) json.fault({ ...fault, field: `${json.place()}[${i}].value` });
      // An empty text keeps the positions of the others.
      if (fault !== undefined || !isCleanText(name)) put(entries, name, "");
    }
    return entries;
  };
}

/** Assigning to `__proto__` would create no member. */
function put(entries: Record<string, string>, name: string, value: string): void {
  if (name !== "__proto__") entries[name] = value;
  else Object.defineProperty(entries, name, { value, configurable: true, enumerable: true, writable: true });
}

const duplicateRule = "json.duplicate_member";

function givenTwice(field: string): Violation {
  return { field, rule: duplicateRule, message: "member is given more than once" };
}

function unknownMember(field: string): Violation {
  return { field, rule: "json.unknown_field", message: "unknown member" };
}

/** Member names are the caller's text: only those that look like names are repeated. */
function printable(member: string): string {
  return /^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(member) ? member : "?";
}

/** Returns the violations of a body with faults. */
function explain(
  desc: DescMessage,
  message: Message | undefined,
  { faults, isPartial }: Reading,
  order: Order,
): readonly Violation[] {
  const counted = faults.filter((fault) => fault !== undefined);
  const [twice, others] = [true, false].map((isTwice) =>
    counted.filter(({ rule }) => (rule === duplicateRule) === isTwice),
  );
  const found = inOrder(others ?? [], order);
  if (message === undefined || found.length >= maxViolations) return found;
  const named = new Set(found.map(({ field }) => field));
  for (const fault of twice ?? []) {
    if (named.has(fault.field)) continue;
    named.add(fault.field);
    found.push(fault);
  }
  if (isPartial) return found;
  return inOrder([...found, ...rulesOf(desc)(message).filter(({ field }) => !named.has(field))], order);
}

function inOrder(violations: readonly Violation[], order: Order): Violation[] {
  return violations
    .map((violation) => ({ violation, place: positionsOf(violation.field, order) }))
    .sort((a, b) => compare(a.place, b.place))
    .map(({ violation }) => violation);
}

/** Positions in the body from the outside in; infinite for an absent member. */
function positionsOf(path: string, order: Order): readonly number[] {
  const positions: number[] = [];
  let outer = 0;
  for (const { 0: segment, index } of path.matchAll(/[^.[\]]+/g)) {
    if (path[index - 1] === "[") {
      positions.push(Number(segment));
      continue;
    }
    const known = order.get(path.slice(0, index + segment.length));
    // A member of an object that was given again is absent from the last.
    if (known === undefined || known.last < outer) return [...positions, Number.POSITIVE_INFINITY];
    positions.push(known.first);
    outer = known.last;
  }
  return positions;
}

function compare(a: readonly number[], b: readonly number[]): number {
  const differs = a.findIndex((position, depth) => position !== b[depth]);
  if (differs === -1) return 0;
  const other = b[differs];
  return other === undefined || (a[differs] as number) > other ? 1 : -1;
}
