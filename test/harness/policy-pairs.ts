/**
 * Policies and requests made at random, so that every operator meets every value, of the wrong type too: nothing of this
 * keeps to a schema. Much of it fails, by overflow, by `decimal` and `ip`, or for want of a member.
 */
import type { CedarValueJson, EntityJson } from "@cedar-policy/cedar-wasm/nodejs";
import type { CedarRequest } from "../../src/policy/evaluate/cedar-request.ts";
import type { Random } from "./fuzz/random.ts";

type Type = "bool" | "long" | "text" | "texts" | "longs" | "entity" | "entities" | "record";
const types: readonly Type[] = ["bool", "long", "text", "texts", "longs", "entity", "entities", "record"];

const texts = [
  "",
  "a",
  "b",
  "aa",
  "ab",
  "aba",
  "a*a",
  "abab",
  "é",
  "😀",
  "a😀b",
  "__proto__",
  "constructor",
  '"',
  "\\",
];
/** Texts that match a pattern but for one character that it needs twice, and such patterns. */
const overlapping = ["a", "aa", "aba", "ab", "abab", "aab", "é"];
const overlaps = ["a*a", "aa*a", "ab*ba", "*a*a*", "*ab*ab*", "a*b*b", "aba*a", "*b*a*b", "é*é", "*aa*a*"];
const longs = [-1, 0, 1, 2, 3, 2 ** 31, 2 ** 53 - 1, 1 - 2 ** 53];
const hugeLongs = ["9223372036854775807", "-9223372036854775808", "9007199254740993", "9007199254740992"];
/** Each is true where it is calculated exactly and types are not mistaken; or it fails. */
const exact = [
  "((!(1)) == false)",
  '("a" < "b")',
  '(!("a" is User))',
  "(1 <= 1)",
  '(User::"ann" in [User::"ann", 1])',
  "(9007199254740991 * 600 > 0)",
  "(-(1 + 1) == -2)",
  "((9007199254740991 + 2) - 9007199254740991 == 2)",
  "((-9007199254740991 - 2) + 9007199254740991 == -2)",
  "(9007199254740991 * 3 - 9007199254740991 * 2 == 9007199254740991)",
  "(9007199254740991 * 9 - 9007199254740990 * 9 == 9)",
  "(9007199254740993 != 9007199254740992)",
  '(1 != "1")',
  '(["1"] != [1])',
  "([true] != [1])",
  "([1, 2, 2] == [2, 1])",
  "([[1], [2, 1]] == [[1, 2], [1]])",
  '({ "s": "a" } != { "s": "b" })',
  '({ "s": "a" } == { "s": "a" })',
  '([User::"ann"] != [Group::"ann"])',
];
const uids = [
  ...["User::ann", "User::bob", "Group::all", "Group::a", "Group::b", "Ns::Team::a", "Ns::Team::none", "Tags::t"],
  ...["Action::protect", "Action::access", "Action::dataOperation"],
].map((name) => {
  const at = name.lastIndexOf("::");
  return { type: name.slice(0, at), id: name.slice(at + 2) };
});
/** Members of the context, and of the entities that have any. Each may be absent. */
const members: readonly (readonly [string, Type])[] = [
  ["yes", "bool"],
  ["no", "bool"],
  ["n", "long"],
  ["m", "long"],
  ["s", "text"],
  ["o", "text"],
  ["words", "texts"],
  ["numbers", "longs"],
  ["who", "entity"],
  ["them", "entities"],
  ["__proto__", "text"],
  ["constructor", "long"],
  ["r", "record"],
];
const tagNames = ["a", "__proto__", "constructor", "region"];

export class Pairs {
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  /** Text of one policy. */
  policy(): string {
    const effect = this.#one(["permit", "forbid"]);
    const principal = this.#often(0.6)
      ? "principal"
      : this.#one([
          `principal == ${this.#uid()}`,
          `principal in ${this.#uid()}`,
          "principal is User",
          `principal is User in ${this.#uid()}`,
        ]);
    const action = this.#one([
      ...["action", "action", 'action == Action::"protect"', 'action in Action::"dataOperation"'],
      'action in [Action::"access", Action::"protect"]',
    ]);
    const resource = this.#often(0.8) ? "resource" : `resource == ${this.#uid()}`;
    const clauses = Array.from({ length: this.#below(3) }, () => {
      const parts = Array.from({ length: 1 + this.#below(3) }, () => this.#conjunct());
      return `${this.#often(0.8) ? "when" : "unless"} { ${parts.join(" && ")} }`;
    });
    return `${effect} (${principal}, ${action}, ${resource}) ${clauses.join(" ")};`;
  }

  request(): CedarRequest {
    const attributes = () => this.#attributes(this.#below(2));
    const entities: EntityJson[] = [];
    for (const uid of uids) {
      if (this.#often(0.5) && uid.type !== "Action") continue;
      const isAction = uid.type === "Action";
      const parents = isAction
        ? uid.id === "dataOperation"
          ? []
          : [{ type: "Action", id: "dataOperation" }]
        : uids.filter(({ type, id }) => type === "Group" && id > uid.id && this.#often(0.4));
      const tags = this.#often(0.5) ? { tags: this.#tags() } : {};
      entities.push({ uid, attrs: isAction ? {} : attributes(), parents, ...(isAction ? {} : tags) });
    }
    return {
      principal: this.#one(uids.filter(({ type }) => type !== "Action")),
      action: { type: "Action", id: this.#one(["protect", "access"]) },
      resource: this.#one(uids.filter(({ type }) => type !== "Action")),
      context: this.#attributes(2),
      entities,
    };
  }

  #attributes(depth: number): Record<string, CedarValueJson> {
    const given = members.filter(() => this.#often(0.85));
    return ownMembers(
      given.map(([name, type]) => [name, this.#json(this.#often(0.97) ? type : this.#one(types), depth)]),
    );
  }

  #tags(): Record<string, CedarValueJson> {
    return ownMembers(tagNames.filter(() => this.#often(0.6)).map((name) => [name, this.#json("text", 0)]));
  }

  #json(type: Type, depth: number): CedarValueJson {
    const several = <T>(make: () => T) => Array.from({ length: this.#below(4) }, make);
    switch (type) {
      case "bool":
        return this.#often(0.5);
      case "long":
        return this.#one(longs);
      case "text":
        return this.#one(texts);
      case "texts":
        return several(() => this.#one(texts));
      case "longs":
        return several(() => this.#one(longs));
      case "entity":
        return { __entity: this.#one(uids) };
      case "entities":
        return several(() => ({ __entity: this.#one(uids) }));
      case "record":
        return depth === 0 ? {} : this.#attributes(depth - 1);
    }
  }

  /** What policies have at their top level: often of a kind that can be looked up. */
  #conjunct(): string {
    const path = this.#path("text");
    const guarded = members.map(([name]) => `context has ${quoted(name)} && `);
    const tagged = `context.who.hasTag(${quoted(this.#one(tagNames))})`;
    return this.#one([
      () => this.#expression("bool", 3),
      () => this.#expression("bool", 2),
      () => `${this.#often(0.5) ? this.#one(guarded) : ""}${path} == ${quoted(this.#one(texts))}`,
      () => `${path} like ${this.#pattern()}`,
      () => `${this.#path("texts")}.contains(${quoted(this.#one(texts))})`,
      () => `${this.#path("entity")} in ${this.#uid()}`,
      () => `principal in [${this.#uid()}, ${this.#uid()}]`,
      () => `${tagged} && context.who.getTag(${quoted(this.#one(tagNames))}) == ${quoted(this.#one(texts))}`,
      () => `[${quoted(this.#one(texts))}, ${quoted(this.#one(texts))}].contains(${path})`,
      () => `(${path} == ${quoted(this.#one(texts))} || ${path} == ${quoted(this.#one(texts))})`,
      () => `(${path} == ${quoted(this.#one(texts))} || ${this.#path("text")} == ${quoted(this.#one(texts))})`,
      () => `${this.#path("long")} != (${this.#one(longs)} * 9007199254740991 * ${this.#path("long")})`,
      () => this.#one(exact),
      () => `${path} like "*${this.#one(["a", "b", "ab"])}"`,
      () => `!(context has ${this.#one(["s.o", "n.o", "r.s", "r.s.o"])})`,
      () => `${path} like "${this.#one(["*", ""])}${this.#one(["a", "b", "ab", "a*b"])}${this.#one(["*", ""])}"`,
    ])();
  }

  #expression(type: Type, depth: number): string {
    if (this.#often(0.03)) return this.#plain(this.#one(types), depth);
    return this.#plain(type, depth);
  }

  #plain(type: Type, depth: number): string {
    const of = (wanted: Type) => this.#expression(wanted, depth - 1);
    if (depth <= 0 || this.#often(0.15)) return this.#leaf(type);
    const chosen = `(if ${of("bool")} then ${of(type)} else ${of(type)})`;
    if (this.#often(0.08)) return chosen;
    switch (type) {
      case "bool":
        return this.#condition(depth);
      case "long":
        return this.#one([
          () => `(${of("long")} + ${of("long")})`,
          () => `(${of("long")} - ${of("long")})`,
          () => `(${of("long")} * ${of("long")})`,
          () => `(-(${of("long")}))`,
          () => this.#path("long"),
        ])();
      case "text":
        return this.#often(0.3) ? `${of("entity")}.getTag(${of("text")})` : this.#leaf("text");
      case "texts":
        return this.#often(0.5) ? `[${of("text")}, ${of("text")}]` : this.#leaf("texts");
      case "longs":
        return this.#often(0.5) ? `[${of("long")}, ${of("long")}]` : this.#leaf("longs");
      case "entities":
        return this.#often(0.5) ? `[${of("entity")}, ${of("entity")}]` : this.#leaf("entities");
      case "record":
        return this.#often(0.5) ? `{ "s": ${of("text")}, "__proto__": ${of("text")} }` : this.#leaf("record");
      default:
        return this.#leaf(type);
    }
  }

  #condition(depth: number): string {
    const of = (wanted: Type) => this.#expression(wanted, depth - 1);
    const type = this.#one(types);
    const [name] = this.#one(members);
    return this.#one([
      () => `(${of("bool")} && ${of("bool")})`,
      () => `(${of("bool")} || ${of("bool")})`,
      () => `(!(${of("bool")}))`,
      () => `(${of(type)} ${this.#one(["==", "!="])} ${of(this.#often(0.9) ? type : this.#one(types))})`,
      () => `(${of("long")} ${this.#one(["<", "<=", ">", ">="])} ${of("long")})`,
      () => `(${of(type)} ${this.#one(["<", "<=", ">", ">="])} ${of(type)})`,
      // Of what type the right operand is, is seen where nothing else asks.
      () => `((${of("bool")} ${this.#one(["&&", "||"])} ${of(type)}) ${this.#one(["==", "!="])} ${of(type)})`,
      () => `(${quoted(this.#one(overlapping))} like "${this.#one(overlaps)}")`,
      () => `(${this.#path("text")} like "${this.#one(overlaps)}")`,
      () => `(${of("text")} like ${this.#pattern()})`,
      () => `(${of("entity")} in ${of(this.#often(0.5) ? "entity" : "entities")})`,
      () => `(${of("entity")} is ${this.#one(["User", "Group", "Ns::Team"])})`,
      () => `(${of("entity")} is Group in ${of("entity")})`,
      () => `(${of(this.#often(0.5) ? "record" : "entity")} has ${quoted(name)})`,
      () => "(context has r.r.s)",
      () => `(context.r has ${this.#one(["r.yes", "who.who.s", "s.s"])})`,
      () => `(context has ${quoted(name)} && ${of("bool")})`,
      () => `${of("texts")}.contains(${of("text")})`,
      () => `${of("longs")}.${this.#one(["containsAll", "containsAny"])}(${of("longs")})`,
      () => `${of("texts")}.${this.#one(["containsAll", "containsAny"])}(${of("texts")})`,
      () => `${of("entities")}.contains(${of("entity")})`,
      () => `${of(this.#one(["texts", "longs", "entities"]))}.isEmpty()`,
      () => `${of("entity")}.hasTag(${of("text")})`,
      () => `${of("entity")}.hasTag(${of(type)})`,
      () => `(context.r.getTag(${quoted(this.#one(["s", "a"]))}) != "-")`,
      () => this.#one(exact),
      () => (this.#often(0.2) ? `(decimal(${quoted(this.#one(["1.0", "x"]))}) == decimal("1.0"))` : of("bool")),
      () => (this.#often(0.2) ? `ip(${quoted(this.#one(["127.0.0.1", "x"]))}).isLoopback()` : of("bool")),
    ])();
  }

  #leaf(type: Type): string {
    if (this.#often(0.5) && type !== "record") return this.#path(type);
    return this.#literal(type);
  }

  #literal(type: Type): string {
    switch (type) {
      case "bool":
        return this.#one(["true", "false"]);
      case "long":
        return this.#often(0.03) ? `(${this.#one(hugeLongs)})` : `(${this.#one(longs)})`;
      case "text":
        return quoted(this.#one(texts));
      case "texts":
        return `[${this.#one(texts.map(quoted))}, ${this.#one(texts.map(quoted))}]`;
      case "longs":
        return this.#one(["[]", "[1]", "[1, 2, 2]", '[0, "a"]']);
      case "entity":
        return this.#uid();
      case "entities":
        return `[${this.#uid()}, ${this.#uid()}]`;
      case "record":
        return this.#one(["context", "context.r", "{}", '{ "s": "a" }']);
    }
  }

  #path(type: Type): string {
    const named = members.filter(([, of]) => of === type).map(([name]) => name);
    if (type === "entity" && this.#often(0.3)) return this.#one(["principal", "resource", "action"]);
    const from = this.#one(["context", "context", "context", "context.r", "context.who", "principal"]);
    return `${from}[${quoted(this.#one(named.length === 0 ? ["s"] : named))}]`;
  }

  #pattern(): string {
    const parts = Array.from({ length: this.#below(5) }, () => this.#one(["a", "b", "*", "*", "\\*", "é", "😀", "ab"]));
    return `"${parts.join("")}"`;
  }

  #uid(): string {
    const { type, id } = this.#one(uids);
    return `${type}::${quoted(id)}`;
  }

  #below(limit: number): number {
    return this.#random.below(limit);
  }

  #often(share: number): boolean {
    return this.#random.chance(share);
  }

  #one<T>(items: readonly T[]): T {
    return this.#random.pick(items);
  }
}

/** No name is special, `__proto__` neither. */
function ownMembers(entries: readonly (readonly [string, CedarValueJson])[]): Record<string, CedarValueJson> {
  return JSON.parse(`{${entries.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join()}}`);
}

/** As Cedar writes text. */
function quoted(text: string): string {
  return `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}
