/** Comments of the protobuf definitions, which are the API documentation, in the form for the OpenAPI document. */
import type { JsonValue } from "../../base/json.ts";

/** Comment by full protobuf name, such as `platform.sdk.v1.Caller.tenant_id`. Generated code does not carry them. */
export type Comments = Readonly<Record<string, string>>;

/** Our own headers as the definitions write them, with the default prefix. */
const writtenPrefix = /\bx-svc-/g;

/** The comments with the deployment's own prefix in the names of headers. */
export function withHeaderPrefix(comments: Comments, prefix: string): Comments {
  const entries = Object.entries(comments).map(([name, text]) => [name, text.replace(writtenPrefix, prefix)]);
  return Object.fromEntries(entries);
}

/** A parsed comment. */
export interface Description {
  readonly description: string;
  /** Values after `Example:`, in the type of the member. */
  readonly examples: readonly JsonValue[];
  /** Whether the member was added after the first version of the contract. */
  readonly additive: boolean;
}

/**
 * Parses the comment of a member, message, enumeration or value. Throws if there is none: everything must be
 * documented.
 */
export function describe(comments: Comments, fullName: string, type: "text" | "number" = "text"): Description {
  const comment = comments[fullName];
  if (comment === undefined) throw new Error(`${fullName} has no comment`);
  const examples: JsonValue[] = [];
  const description = comment
    // An example of a map entry, `key` = `value`, stays in the sentence, because it is not a value of the member.
    .replace(/\s*Example: `([^`]+)`\.(?=\s|$)/g, (_all, text: string) => {
      examples.push(type === "number" ? Number(text) : text);
      return "";
    })
    .trim();
  return { description, examples, additive: description.startsWith("Additive.") };
}

/**
 * The comment of an RPC or message without its name: `WhoAmI returns the caller.` becomes `Returns the caller.`,
 * because the JSON routes do not show the name.
 */
export function describeWithoutName(comments: Comments, fullName: string): string {
  const { description } = describe(comments, fullName);
  const name = fullName.slice(fullName.lastIndexOf(".") + 1);
  if (!description.startsWith(`${name} `)) return description;
  const rest = description.slice(name.length + 1);
  return rest.charAt(0).toUpperCase() + rest.slice(1);
}
