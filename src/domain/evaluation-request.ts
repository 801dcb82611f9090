/**
 * Converts a question of an enforcement point (AuthZEN Authorization API 1.0, §5) to the request that is evaluated and
 * recorded. Pure. Fixed rules convert free JSON members to policy inputs; a member without a rule stays a claim:
 * docs/authzen.md lists them. A subject of type `principal` with the caller's own principal id is the caller, which
 * asks about itself.
 *
 * An attribute is a text: a number, a boolean, a list or an object becomes its canonical JSON, because protobuf sends the
 * members of an object in any order. Null is absent.
 */
import type { Caller } from "../base/caller.ts";
import { maxViolations, type Violation } from "../base/errors.ts";
import { isCleanText } from "../base/ids.ts";
import { defined, isObject, type JsonObject, type JsonValue } from "../base/json.ts";
import { isLongerThan } from "../base/text-forms.ts";
import { artifactProfiles } from "../base/vocabulary.ts";
import { canonicalText } from "../ledger/record/canonical.ts";
import type { OnBehalfOf, PolicyAction } from "../policy/model/decision.ts";
import type { EvaluationRequest } from "./requests.ts";

/**
 * A subject, resource or action as it was asked about, its required members there and not empty. A resource whose id is
 * unknown has an empty one, which AuthZEN does not allow: see `opentdf.ts`.
 */
export interface AskedEntity {
  readonly type: string;
  readonly id: string;
  readonly properties: JsonObject;
}

export interface Question {
  readonly subject: AskedEntity;
  readonly action: { readonly name: string; readonly properties: JsonObject };
  readonly resource: AskedEntity;
  readonly context: JsonObject;
}

/** Type of a subject that may be the caller itself. */
export const ownSubjectType = "principal";

const maxEntries = 64;
const maxKey = 128;
const maxValue = 1024;
const maxLabel = 256;
/** Bound of all property values of a subject; each member of a list counts. */
const maxPropertyValues = 256;

/**
 * Returns the request, or the violations of the question. Paths name members of the standard and of this table, never
 * names that a caller chose: `resource.properties[3].value`.
 *
 * @param actionOf returns the operation of a name; undefined if there is none
 */
export function evaluationRequest(
  question: Question,
  caller: Caller,
  actionOf: (name: string) => PolicyAction | undefined,
): EvaluationRequest | readonly Violation[] {
  const reader = new Reader();
  const { subject, action, resource, context } = question;
  const operation = actionOf(action.name);
  if (operation === undefined) {
    reader.fault(
      "action.name",
      "action.known",
      "is neither an action of this service nor mapped to one by its policies",
    );
  }
  // Compared byte for byte.
  const isCaller = subject.type === ownSubjectType && subject.id === caller.principalId;
  const onBehalfOf = isCaller ? undefined : reader.subject(subject);
  const { properties } = resource;
  const claimed = reader.known(properties, "resource.properties");
  const requested = operation === undefined || operation === action.name ? undefined : action.name;
  const attributes = {
    ...reader.attributes(
      Object.fromEntries(Object.entries(properties).filter(([name]) => !resourceMembers.has(name))),
      "resource.properties",
    ),
    ...reader.attributes(action.properties, "action.properties", "action."),
    ...(requested !== undefined && { "action.name": requested }),
  };
  if (Object.keys(attributes).length > maxEntries) {
    reader.fault("resource.properties", "map.max_pairs", `must be at most ${maxEntries} with those of the action`);
  }
  const workload = reader.workload(context.workload, caller);
  const purpose = reader.text(context.purpose, "context.purpose", maxValue);
  const understood = reader.texts(context.understood_obligations, "context.understood_obligations", maxKey);
  if (reader.violations.length > 0) return reader.violations.slice(0, maxViolations);
  return {
    operation: operation as PolicyAction,
    ...(requested !== undefined && { requested_action: requested }),
    workload,
    resource: {
      kind: resource.type,
      ...(resource.id !== "" && { id: resource.id }),
      ...(claimed.mime_type !== undefined && { mime_type: claimed.mime_type }),
    },
    ...(purpose !== undefined && { purpose }),
    ...claimed.others,
    labels: claimed.labels,
    attributes,
    ...(onBehalfOf !== undefined && { on_behalf_of: onBehalfOf }),
    ...(understood.length > 0 && { understood_obligations: understood }),
  };
}

const resourceMembers: ReadonlySet<string> = new Set([
  ...["labels", "mime_type", "artifact_digest", "artifact_cid", "artifact_profile", "key_reference"],
  ...["content_digest", "content_size_bytes"],
]);

/** `algorithm:value`, as on the other routes. */
const digestPattern = /^[a-z0-9][a-z0-9+._-]*:[^\0]+$/;

/** Returns the text of a property; undefined if it has none. The depth is checked before. */
function textOf(value: JsonValue | undefined): string | undefined {
  if (value === null || value === undefined) return undefined;
  return typeof value === "string" ? value : canonicalText(value);
}

class Reader {
  readonly violations: Violation[] = [];

  fault(field: string, rule: string, message: string): void {
    this.violations.push({ field, rule, message });
  }

  /** Ids are compared byte for byte, so an id that is not in NFC is refused. */
  subject({ type, id, properties }: AskedEntity): OnBehalfOf {
    for (const [name, value] of Object.entries({ type, id }))
      if (value.normalize("NFC") !== value)
        this.fault(`subject.${name}`, "string.nfc", "must be in Unicode form C (NFC)");
    for (const [position, name] of Object.keys(properties).entries())
      if (name.includes("=")) this.fault(`subject.properties[${position}].key`, "string.pattern", "must not contain =");
    // The length of the whole property is checked below.
    const values = Object.entries(properties).flatMap(([name, value]) =>
      (Array.isArray(value) ? value : [value]).flatMap((item: JsonValue) => {
        const text = textOf(item);
        return text === undefined ? [] : [`${name}=${text}`];
      }),
    );
    if (values.length > maxPropertyValues)
      this.fault("subject.properties", "map.max_pairs", `must have at most ${maxPropertyValues} values`);
    return {
      type,
      id,
      properties: this.attributes(properties, "subject.properties"),
      property_values: [...new Set(values)],
    };
  }

  attributes(properties: JsonObject, path: string, prefix = ""): Readonly<Record<string, string>> {
    const entries = Object.entries(properties);
    if (entries.length > maxEntries) {
      this.fault(path, "map.max_pairs", `must be at most ${maxEntries}`);
      return {};
    }
    const texts = entries.flatMap(([name, value], position) => {
      const key = `${prefix}${name}`;
      const isReserved =
        prefix === "" ? name.startsWith("action.") && path === "resource.properties" : key === "action.name";
      if (isReserved) this.fault(`${path}[${position}].key`, "string.reserved", "is the name of something else");
      if (!isCleanText(key)) this.fault(`${path}[${position}].key`, "string.clean", "must not contain U+0000");
      if (key === "" || isLongerThan(key, maxKey))
        this.fault(`${path}[${position}].key`, "string.max_len", `must be 1 to ${maxKey} characters`);
      const text = textOf(value);
      if (text === undefined) return [];
      this.#fits(text, `${path}[${position}].value`, maxValue);
      return [[key, text] as const];
    });
    return Object.fromEntries(texts);
  }

  #fits(text: string, path: string, maximum: number): boolean {
    if (isLongerThan(text, maximum)) this.fault(path, "string.max_len", `must be at most ${maximum} characters`);
    else if (!isCleanText(text)) this.fault(path, "string.clean", "must not contain U+0000 or a lone surrogate");
    else return true;
    return false;
  }

  /** Reads the members of a resource that are not attributes. */
  known(properties: JsonObject, path: string) {
    const at = (name: string) => `${path}.${name}`;
    const text = (name: string, maximum: number) => this.text(properties[name], at(name), maximum);
    const digest = (name: string) => {
      const value = text(name, 256);
      if (value !== undefined && !digestPattern.test(value))
        this.fault(at(name), "string.pattern", "must be algorithm:value");
      return value;
    };
    const profile = text("artifact_profile", 256);
    const known = artifactProfiles.find((name) => name === profile);
    if (profile !== undefined && known === undefined)
      this.fault(at("artifact_profile"), "enum.defined_only", `must be one of ${artifactProfiles.join(", ")}`);
    const size = properties.content_size_bytes ?? undefined;
    if (size !== undefined && !(Number.isSafeInteger(size) && Number(size) >= 0))
      this.fault(at("content_size_bytes"), "int64.gte", "must be a whole number from 0 to 2^53-1");
    const others = {
      artifact_digest: digest("artifact_digest"),
      artifact_cid: text("artifact_cid", 256),
      artifact_profile: known,
      key_reference: text("key_reference", 256),
      content_digest: digest("content_digest"),
      content_size_bytes: size as number | undefined,
    };
    return {
      labels: this.texts(properties.labels, at("labels"), maxLabel),
      mime_type: text("mime_type", 255),
      others: defined(others),
    };
  }

  /** Without a workload the caller asks, by its principal id. */
  workload(value: JsonValue | undefined, caller: Caller): EvaluationRequest["workload"] {
    if (value === null || value === undefined) return { application: caller.principalId };
    if (!isObject(value)) {
      this.fault("context.workload", "json.type", "must be an object");
      return { application: "" };
    }
    const member = (name: string) => this.text(value[name], `context.workload.${name}`, 256);
    const [environment, component] = [member("environment"), member("component")];
    return {
      application: member("application") ?? caller.principalId,
      ...(environment !== undefined && { environment }),
      ...(component !== undefined && { component }),
    };
  }

  /** Reads a text; absent if it is empty. */
  text(value: JsonValue | undefined, path: string, maximum: number): string | undefined {
    if (value === null || value === undefined || value === "") return undefined;
    if (typeof value === "string") return this.#fits(value, path, maximum) ? value : undefined;
    this.fault(path, "json.type", "must be a string");
    return undefined;
  }

  texts(value: JsonValue | undefined, path: string, maximum: number): readonly string[] {
    if (value === null || value === undefined) return [];
    if (!Array.isArray(value)) {
      this.fault(path, "json.type", "must be an array");
      return [];
    }
    if (value.length > maxEntries) {
      this.fault(path, "repeated.max_items", `must be at most ${maxEntries}`);
      return [];
    }
    return value.map((item: JsonValue, at) => {
      if (typeof item !== "string") this.fault(`${path}[${at}]`, "json.type", "must be a string");
      else if (isLongerThan(item, maximum))
        this.fault(`${path}[${at}]`, "string.max_len", `must be at most ${maximum} characters`);
      return String(item);
    });
  }
}
