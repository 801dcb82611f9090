/**
 * Bodies that cost a careless reader more than they cost their sender, by family, of any size. They are made
 * from the descriptor of a request, so a member that is added to the contract is attacked as well.
 */
import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { isFree } from "../../src/transport/codec/contract.ts";

export interface HostileBody {
  readonly family: string;
  /** A body of about so many bytes; never more. */
  readonly bytes: (sizeBytes: number) => Buffer;
}

/** How member names are spelled: as on the JSON routes, or as in canonical JSON. */
type NameOf = (field: DescField) => string;

const restName: NameOf = ({ name }) => name;
const canonicalName: NameOf = ({ jsonName }) => jsonName;

/** JSON bodies, each a way of its own to be much. */
export function hostileJson(desc: DescMessage, spelling: "rest" | "canonical"): HostileBody[] {
  const nameOf = spelling === "rest" ? restName : canonicalName;
  const inner = desc.fields.flatMap((field) => {
    if (field.fieldKind !== "message") return [];
    const prefix = `{"${nameOf(field)}":`;
    return familiesOf(field.message, nameOf).map(
      ([family, text]): Family => [`${field.name}: ${family}`, (size) => `${prefix}${text(size - prefix.length - 1)}}`],
    );
  });
  return [...familiesOf(desc, nameOf), ...inner].map(([family, text]) => ({
    family,
    bytes: (sizeBytes) => Buffer.from(text(sizeBytes)).subarray(0, sizeBytes),
  }));
}

type Family = readonly [family: string, text: (size: number) => string];

function familiesOf(desc: DescMessage, nameOf: NameOf): Family[] {
  return [...anywhere(desc, nameOf), ...desc.fields.flatMap((field) => memberFamilies(field, nameOf))];
}

/** What can be said in any object. */
function anywhere({ fields }: DescMessage, nameOf: NameOf): Family[] {
  const names = fields.map(nameOf);
  const object = (unit: (position: number) => string) => (size: number) => `{${fill(size - 2, unit)}}`;
  const unknown = (value: (size: number) => string) => (size: number) => `{"x":${value(size - 8)}}`;
  return [
    ["unknown members", object((i) => `"x${i}":0`)],
    ["one unknown member again and again", object(() => '"x":0')],
    ["two unknown members in turn", object((i) => `"${i % 2 === 0 ? "x" : "y"}":0`)],
    ["every unknown member twice", object((i) => `"x${i >> 1}":0`)],
    ["members named in escapes", object(() => '"\\u0070urpose":0')],
    ["members that are no names", object((i) => `"-${i}":0`)],
    ["members that are positions", object((i) => `"${i}":0`)],
    ["members named __proto__", object(() => '"__proto__":0')],
    ["every member again and again", object((i) => `"${names[i % names.length]}":0`)],
    ["every member again and again, absent", object((i) => `"${names[i % names.length]}":null`)],
    ["arrays in a member", (size) => `{"${names[0]}":[${fill(size - 60, () => "[]")}]}`],
    ["deep arrays", (size) => deep("[", "]", size)],
    ["deep objects", (size) => deep('{"x":', "}", size, "0")],
    // As deep as what a message of free objects may hold: not so much that it is refused for its size.
    ["arrays of some depth", (size) => deep("[", "]", Math.min(size, 14_000))],
    ["objects of some depth", (size) => deep('{"x":', "}", Math.min(size, 30_000), "0")],
    ["white space", (size) => `{${" ".repeat(size - 2)}}`],
    ["a long number", unknown((size) => "9".repeat(size))],
    ["long fractions", unknown((size) => `[${fill(size - 2, (i) => `0.${"1234567890".repeat(80)}${i}e-300`)}]`)],
    ["small fractions", unknown((size) => `[${fill(size - 2, () => "1e-9")}]`)],
    ["quotes", (size) => '"'.repeat(size)],
    ["closing brackets", (size) => "]".repeat(size)],
    ["colons", (size) => ":".repeat(size)],
    ["a long name", (size) => `{"${"n".repeat(size - 6)}":0}`],
    ["a long name of escapes", (size) => `{"${"\\u006e".repeat(Math.floor((size - 6) / 6))}":0}`],
    ["an end that is missing", (size) => `{"x":[${fill(size - 8, () => "0")}`],
  ];
}

/** What can be said in one member. */
function memberFamilies(field: DescField, nameOf: NameOf): Family[] {
  const name = nameOf(field);
  const label = (what: string, text: Family[1]): Family => [`${field.name}: ${what}`, text];
  const member = (value: (room: number) => string) => (size: number) => `{"${name}":${value(size - name.length - 8)}}`;
  const again = (value: string) =>
    label("again and again", (size) => `{${fill(size - 2, () => `"${name}":${value}`)}}`);
  const several = (open: string, close: string) => (what: string, unit: (position: number) => string) => {
    const value = member((room) => open + fill(room, unit) + close);
    return label(what, value);
  };
  const [list, map] = [several("[", "]"), several("{", "}")];
  const text = (what: string, unit: string) => {
    const value = member((room) => `"${unit.repeat(Math.floor(room / Buffer.byteLength(unit)))}"`);
    return label(what, value);
  };
  switch (field.fieldKind) {
    case "list":
      return [
        list("items", () => '""'),
        list("items of text", (i) => `"${i}"`),
        list("items of another type", () => "0"),
        list("objects", () => "{}"),
        list("items as large as may be", () => `"${"😀".repeat(200)}\\u0000"`),
        again("[]"),
      ];
    case "map":
      return [
        map("pairs", (i) => `"${i}x":""`),
        map("pairs named by position", (i) => `"${i}":""`),
        map("every pair twice", (i) => `"k${i >> 1}":""`),
        map("64 pairs again and again", (i) => `"k${i % 64}":""`),
        map("one pair again and again", () => '"k":""'),
        map("pairs of another type", (i) => `"k${i}":0`),
        again("{}"),
      ];
    case "message":
      return [again("{}")];
    case "enum":
      return [text("a long word", "w")];
    case "scalar":
      if (field.scalar !== ScalarType.STRING) return [text("long", "9")];
      return [
        text("long", "A"),
        text("of escapes", "\\u0041"),
        text("of line feeds", "\\n"),
        text("of zeros", "\\u0000"),
        text("of lone surrogates", "\\ud800"),
        text("of pairs", "😀"),
        text("of two bytes each", "é"),
        text("of quotes", '\\"'),
        text("of backslashes", "\\\\"),
        text("of colons", "a:"),
        again('"a"'),
      ];
  }
}

/** Units with commas between them, as many as fit. */
function fill(sizeBytes: number, unit: (position: number) => string): string {
  const units: string[] = [];
  let left = sizeBytes;
  for (let i = 0; ; i++) {
    const next = unit(i);
    // Units of more bytes than characters are few.
    left -= (next.length > 100 ? Buffer.byteLength(next) : next.length) + 1;
    if (left < 0) return units.join(",");
    units.push(next);
  }
}

function deep(open: string, close: string, sizeBytes: number, core = ""): string {
  const depth = Math.floor((sizeBytes - core.length) / (open.length + close.length));
  return open.repeat(depth) + core + close.repeat(depth);
}

/** Protobuf bodies, each a way of its own to be much. */
export function hostileBinary(desc: DescMessage): HostileBody[] {
  const inner = desc.fields.flatMap((field) => {
    if (field.fieldKind !== "message") return [];
    return [...unknownRecords, ...field.message.fields.flatMap(records)].map(({ family, bytes }) => ({
      family: `${field.name}: ${family}`,
      bytes: (sizeBytes: number) => text(field.number, bytes(sizeBytes - 8)),
    }));
  });
  return [...unknownRecords, ...desc.fields.flatMap(records), ...inner];
}

/** Field numbers 100 and up are no request's. */
const stranger = 100;
const unauthenticatedGroup = Buffer.from(new BinaryWriter().tag(stranger, WireType.StartGroup).finish());
const closeGroup = Buffer.from(new BinaryWriter().tag(stranger, WireType.EndGroup).finish());

const unknownRecords: HostileBody[] = [
  many("unknown numbers", number(stranger)),
  many("unknown long numbers", number(stranger, [...Array(9).fill(255), 1])),
  many("unknown texts", text(stranger, Buffer.alloc(0))),
  many("unknown groups", Buffer.concat([unauthenticatedGroup, closeGroup])),
  {
    family: "deep groups",
    bytes: (size) => {
      const depth = Math.floor(size / 4);
      return Buffer.concat([Buffer.alloc(depth * 2, unauthenticatedGroup), Buffer.alloc(depth * 2, closeGroup)]);
    },
  },
  { family: "one long unknown text", bytes: (size) => text(stranger, Buffer.alloc(size - 12)) },
  { family: "zeros", bytes: (size) => Buffer.alloc(size) },
  { family: "ones", bytes: (size) => Buffer.alloc(size, 255) },
];

function records(field: DescField): HostileBody[] {
  const { name } = field;
  const record = (bytes: Uint8Array | string) => text(field.number, Buffer.from(bytes));
  const long = (what: string, unit: string | Buffer): HostileBody => ({
    family: `${name}: ${what}`,
    bytes: (size) => text(field.number, Buffer.alloc(size - 12, unit)),
  });
  const again = (what: string, unit: Uint8Array) => many(`${name}: ${what}`, unit);
  switch (field.fieldKind) {
    case "list":
      return [
        again("empty items", record("")),
        again("items", record("a")),
        again("items that are no text", record(Buffer.from([255]))),
        long("one long item", "a"),
      ];
    case "map": {
      const pair = (key: string) => record(Buffer.concat([text(1, Buffer.from(key)), text(2, Buffer.alloc(0))]));
      return [
        again("empty pairs", record("")),
        again("one pair again and again", pair("k")),
        { family: `${name}: pairs`, bytes: (size) => filled(size, (i) => pair(`${i}x`)) },
        { family: `${name}: pairs named by position`, bytes: (size) => filled(size, (i) => pair(`${i}`)) },
        long("a pair of unknown numbers", number(stranger)),
        long("a pair of keys", text(1, Buffer.from("k"))),
      ];
    }
    case "message":
      return [again("again and again", record("")), ...(isFree(field.message) ? freeObjects(field) : [])];
    case "enum":
      return [again("again and again", number(field.number, [1]))];
    case "scalar":
      if (field.scalar !== ScalarType.STRING) return [again("again and again", number(field.number, [1]))];
      return [
        long("long", "A"),
        long("of pairs", "😀"),
        long("of zeros", "\0"),
        long("no text", Buffer.from([255])),
        long("of colons", "a:"),
        again("again and again", record("a")),
      ];
  }
}

/** Fields of `google.protobuf.Value`, of lists and of entries. */
const value = { null: 1, object: 5, list: 6 } as const;
const [first, second] = [1, 2];

/** Objects of whatever members. */
function freeObjects({ number: fieldNumber, name }: DescField): HostileBody[] {
  const entry = (content: Buffer) => text(first, Buffer.concat([text(first, Buffer.from("k")), text(second, content)]));
  const free = (what: string, content: (sizeBytes: number) => Buffer): HostileBody => ({
    family: `${name}: ${what}`,
    bytes: (size) => text(fieldNumber, content(size - 40)),
  });
  const list = (unit: Buffer) => (size: number) => entry(text(value.list, many("", text(first, unit)).bytes(size)));
  return [
    free("nulls in a list", list(number(value.null))),
    free("values that are none in a list", list(Buffer.alloc(0))),
    free("empty lists in a list", list(text(value.list, Buffer.alloc(0)))),
    free("one member again and again", (size) => many("", entry(number(value.null))).bytes(size)),
    free("members", (size) =>
      filled(size, (i) =>
        text(first, Buffer.concat([text(first, Buffer.from(`${i}`)), text(second, number(value.null))])),
      ),
    ),
    free("lists in lists", (size) => entry(nested([value.list, first], size))),
  ];
}

/** Fields of the numbers within each other, in turn, the first of them outside. */
function nested(numbers: readonly number[], sizeBytes: number): Buffer {
  const heads: Buffer[] = [];
  let length = 0;
  for (;;) {
    const level = numbers.toReversed().map((fieldNumber) => {
      const head = Buffer.from(new BinaryWriter().tag(fieldNumber, WireType.LengthDelimited).uint32(length).finish());
      length += head.length;
      return head;
    });
    if (length > sizeBytes) return Buffer.concat(heads.toReversed());
    heads.push(...level);
  }
}

function text(fieldNumber: number, bytes: Uint8Array): Buffer {
  return Buffer.from(new BinaryWriter().tag(fieldNumber, WireType.LengthDelimited).bytes(bytes).finish());
}

function number(fieldNumber: number, varint: readonly number[] = [0]): Buffer {
  const tag = new BinaryWriter().tag(fieldNumber, WireType.Varint).finish();
  return Buffer.concat([tag, Buffer.from(varint)]);
}

function many(family: string, unit: Uint8Array): HostileBody {
  return { family, bytes: (size) => Buffer.alloc(Math.floor(size / unit.length) * unit.length, unit) };
}

function filled(sizeBytes: number, unit: (position: number) => Buffer): Buffer {
  const units: Buffer[] = [];
  let left = sizeBytes;
  for (let i = 0; ; i++) {
    const next = unit(i);
    left -= next.length;
    if (left < 0) return Buffer.concat(units);
    units.push(next);
  }
}
