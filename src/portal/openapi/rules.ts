/**
 * `buf.validate` rules as JSON Schema keywords. A rule without a counterpart here is an error, and is never omitted.
 */
import { type DescField, type DescMessage, getOption, type MessageShape } from "@bufbuild/protobuf";
import { reflect } from "@bufbuild/protobuf/reflect";
import {
  type FieldRules,
  FieldRulesSchema,
  field as fieldRules,
  type MapRules,
  MapRulesSchema,
  type RepeatedRules,
  RepeatedRulesSchema,
} from "../../../gen/buf/validate/validate_pb.ts";

/** Keywords of a JSON Schema. */
export type Keywords = Readonly<Record<string, string | number>>;

/** Rules of one field, translated. */
export interface TranslatedRules {
  /** Whether the JSON routes refuse a request without the member. */
  readonly required: boolean;
  /** Keywords of the value itself; for a list or map, of the list or map. */
  readonly own: Keywords;
  /** Keywords of each item of a list, or each value of a map. */
  readonly items: Keywords;
  /** Keywords of each key of a map. */
  readonly keys: Keywords;
}

/** Keyword for each rule of a scalar, by its name in `validate.proto`. */
const scalarKeywords: Readonly<Record<string, string>> = {
  "string.min_len": "minLength",
  "string.max_len": "maxLength",
  "string.pattern": "pattern",
  "int64.gte": "minimum",
  "int64.lte": "maximum",
};

const none: Keywords = {};

/** Translates the rules of a field. Throws if a rule has no counterpart. */
export function translateRules(field: DescField): TranslatedRules {
  const rules = getOption(field, fieldRules);
  const own = rules.type.case === "repeated" || rules.type.case === "map" ? none : scalarRules(field, rules);
  const translated = { own, items: none, keys: none, ...containerRules(field, rules) };
  return { ...translated, required: rules.required || Number(own.minLength ?? 0) > 0 };
}

function containerRules(field: DescField, rules: FieldRules): Partial<Omit<TranslatedRules, "required">> {
  switch (rules.type.case) {
    case "repeated":
      return repeated(field, rules.type.value);
    case "map":
      return map(field, rules.type.value);
    default:
      return {};
  }
}

function repeated(field: DescField, rules: RepeatedRules) {
  allow(field, rules, RepeatedRulesSchema, ["max_items", "items"]);
  return { own: { maxItems: Number(rules.maxItems) }, items: rules.items ? scalarRules(field, rules.items) : none };
}

function map(field: DescField, rules: MapRules) {
  allow(field, rules, MapRulesSchema, ["max_pairs", "keys", "values"]);
  return {
    own: { maxProperties: Number(rules.maxPairs) },
    keys: rules.keys ? scalarRules(field, rules.keys) : none,
    items: rules.values ? scalarRules(field, rules.values) : none,
  };
}

function scalarRules(field: DescField, rules: FieldRules): Keywords {
  const kind = rules.type.case;
  allow(field, rules, FieldRulesSchema, ["required", ...(kind === undefined ? [] : [kind])]);
  if (kind === undefined) return none;
  const keywords: Record<string, string | number> = {};
  const reader = reflect(FieldRulesSchema, rules);
  const kindField = FieldRulesSchema.fields.find(({ name }) => name === kind);
  if (kindField?.fieldKind !== "message") throw new Error(`${field}: rules of kind ${kind} are not supported`);
  const values = reader.get(kindField);
  for (const rule of kindField.message.fields) {
    if (!values.isSet(rule)) continue;
    // The document's enumerations list the declared values, which is what this rule requires.
    if (kind === "enum" && rule.name === "defined_only") continue;
    const keyword = scalarKeywords[`${kind}.${rule.name}`];
    if (keyword === undefined) throw new Error(`${field}: rule ${kind}.${rule.name} has no keyword`);
    const value: unknown = values.get(rule);
    keywords[keyword] = typeof value === "string" ? value : Number(value);
  }
  return keywords;
}

/** Throws if a rule other than the named ones is set. */
function allow<Desc extends DescMessage>(
  field: DescField,
  rules: MessageShape<Desc>,
  schema: Desc,
  names: readonly string[],
): void {
  const reader = reflect(schema, rules);
  const stray = schema.fields.find((rule) => reader.isSet(rule) && !names.includes(rule.name));
  if (stray !== undefined) throw new Error(`${field}: rule ${stray.name} has no keyword`);
}
