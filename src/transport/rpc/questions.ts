/** Converts AuthZEN messages to questions. */
import type { JsonObject as StructObject } from "@bufbuild/protobuf";
import type { Action, Resource, Subject } from "../../../gen/platform/authzen/v1/authorization_pb.ts";
import { invalidRequest, invalidRequests, type Violation } from "../../base/errors.ts";
import type { JsonObject } from "../../base/json.ts";
import type { PathedQuestion } from "../../domain/evaluation.ts";
import type { AskedEntity, Question } from "../../domain/evaluation-request.ts";

/** A question whose members may be missing. */
export interface Asked {
  readonly subject?: Pick<Subject, "type" | "id" | "properties"> | undefined;
  readonly action?: Pick<Action, "name" | "properties"> | undefined;
  readonly resource?: Pick<Resource, "type" | "id" | "properties"> | undefined;
  readonly context?: StructObject | undefined;
}

/**
 * Checks the question after defaults were applied, because the request's defaults may be empty.
 *
 * @param path of the question in the request: empty, or ending with a dot
 * @param optional the member whose name or id may be missing
 * @throws ServiceError `invalid_request`
 */
export function requiredQuestion(asked: Asked, path: string, optional?: keyof Question): PathedQuestion {
  const { subject, action, resource, context } = asked;
  const needed = {
    ...(subject === undefined ? { subject } : { "subject.type": subject.type, "subject.id": subject.id }),
    ...(action === undefined ? { action } : { "action.name": action.name }),
    ...(resource === undefined ? { resource } : { "resource.type": resource.type, "resource.id": resource.id }),
  };
  const missing = Object.entries(needed).filter(
    ([name, value]) =>
      (value === undefined || value === "") && name !== `${optional}.id` && name !== `${optional}.name`,
  );
  if (subject === undefined || action === undefined || resource === undefined || missing.length > 0) {
    throw invalidRequests(
      missing.map(([name]): Violation => ({ field: `${path}${name}`, rule: "required", message: "value is required" })),
    );
  }
  return {
    question: {
      subject: entityOf(subject),
      action: { name: action.name, properties: (action.properties ?? {}) as JsonObject },
      resource: entityOf(resource),
      context: (context ?? {}) as JsonObject,
    },
    at: (field) => `${path}${field}`,
  };
}

/**
 * Limits the total size of a call's questions as JSON. Shared parts count for every question, because each is recorded
 * and answered in full.
 *
 * @throws ServiceError `invalid_request`
 */
export function requireBytes(asked: readonly Asked[], maxBytes: number): void {
  const known = new Map<unknown, number>();
  const bytesOf = (part: unknown) => {
    const bytes = known.get(part) ?? (part === undefined ? 0 : Buffer.byteLength(JSON.stringify(part)));
    known.set(part, bytes);
    return bytes;
  };
  let bytes = 0;
  for (const { subject, action, resource, context } of asked)
    bytes += bytesOf(subject) + bytesOf(action) + bytesOf(resource) + bytesOf(context);
  if (bytes > maxBytes)
    throw invalidRequest(
      "evaluations",
      "repeated.max_bytes",
      `must make questions of at most ${maxBytes} bytes in all`,
    );
}

function entityOf({ type, id, properties = {} }: Pick<Subject, "type" | "id" | "properties">): AskedEntity {
  return { type, id, properties: properties as JsonObject };
}
