/** The methods with JSON routes, and their messages in the spelling of these. */
import {
  type DescMessage,
  type DescMethodUnary,
  type DescService,
  fromJsonString,
  getOption,
  type Message,
  toJson,
} from "@bufbuild/protobuf";
import { createRestRegistry, messageEncoder } from "../../dev/rest-json.ts";
import { http } from "../../gen/google/api/annotations_pb.ts";
import { furtherTable } from "../../src/app/further-apis.ts";
import { settings } from "../../src/config/settings.ts";
import { type FurtherName, furtherNames } from "../../src/domain/routes.ts";
import { publicServices } from "../../src/transport/calls/methods.ts";

/** The services of the SDK's API and of further APIs that have JSON routes, streaming ones among them. */
export const contractServices: readonly DescService[] = [...publicServices, ...furtherNames.flatMap(servicesOf)];
export const registry = createRestRegistry(contractServices.flatMap(({ file }) => [file, ...file.dependencies]));

/** Settings that enable every API with JSON routes. */
export const everyApi: Readonly<Record<string, string>> = Object.fromEntries(
  furtherNames.map((name) => [settings[name].name, "on"]),
);

/** One method as callers see it. */
export interface WireMethod {
  /** `/platform.sdk.v1.ProtectionService/PlanProtection` */
  readonly rpcPath: string;
  readonly restPath: string;
  readonly verb: "GET" | "POST";
  readonly desc: DescMethodUnary;
}

export const wireMethods: readonly WireMethod[] = publicServices.flatMap(methodsOf);
/** Those of further APIs that are no streams. */
export const furtherMethods: readonly WireMethod[] = furtherNames.flatMap(servicesOf).flatMap(methodsOf);

function servicesOf(name: FurtherName): DescService[] {
  return [...furtherTable[name].services.keys()];
}

function methodsOf({ typeName, methods }: DescService): WireMethod[] {
  return methods
    .filter(({ methodKind }) => methodKind === "unary")
    .map((method) => {
      const { pattern } = getOption(method, http);
      return {
        rpcPath: `/${typeName}/${method.name}`,
        restPath: String(pattern.value),
        verb: pattern.case === "get" ? "GET" : "POST",
        desc: method as DescMethodUnary,
      };
    });
}

/** The method on a JSON route such as `/v1/sdk/whoami`. */
export function methodOn(restPath: string): WireMethod {
  const found = [...wireMethods, ...furtherMethods].find((method) => method.restPath === restPath);
  if (found === undefined) throw new Error(`no method on ${restPath}`);
  return found;
}

/** Reads a request as the JSON route spells it. */
export function requestFromRest(method: WireMethod, body: unknown): Message {
  // Not by the service's own reader, which refuses what other protocols can still carry.
  return fromJsonString(registry.message(method.desc.input), JSON.stringify(body ?? {}));
}

/** Writes a message as the JSON routes spell it; what they have no spelling for (an undeclared enum) as a number. */
export function restTextOf(desc: DescMessage, message: Message): string {
  const text = JSON.stringify(toJson(registry.message(desc), message));
  // 64-bit integers are numbers on the JSON routes, beyond 2^53 too.
  return text.replace(/("content_size_bytes":)"(-?\d+)"/g, "$1$2");
}

/** An answer as the JSON routes spell it. */
// biome-ignore lint/suspicious/noExplicitAny: tests read members of eight shapes, and fail where they are not there.
export function restAnswerOf(method: WireMethod, message: Message): any {
  return JSON.parse(messageEncoder(registry.message(method.desc.output))(message));
}
