/** Lists the methods that a server serves, from descriptors and their `google.api.http` annotations. */
import { type DescMethod, type DescMethodUnary, type DescService, getOption } from "@bufbuild/protobuf";
import type { MethodImpl, MethodImplSpec, ServiceImpl } from "@connectrpc/connect";
import { http } from "../../../gen/google/api/annotations_pb.ts";
import { DiscoveryService } from "../../../gen/platform/sdk/v1/discovery_pb.ts";
import { EvidenceService } from "../../../gen/platform/sdk/v1/evidence_pb.ts";
import { ProtectionService } from "../../../gen/platform/sdk/v1/protection_pb.ts";
import { RegistrationService } from "../../../gen/platform/sdk/v1/registration_pb.ts";
import { rulesOf } from "../codec/rules.ts";

export interface ServiceBinding {
  readonly desc: DescService;
  readonly impl: Record<string, unknown>;
}

/** Pairs a descriptor with its implementation, which the compiler checks. */
export function bind<Desc extends DescService>(desc: Desc, impl: ServiceImpl<Desc>): ServiceBinding {
  return { desc, impl: impl as Record<string, unknown> };
}

/** A unary method and its implementation. */
export type UnarySpec = Extract<MethodImplSpec, { kind: "unary" }>;

/** A method, without its JSON route. */
export interface UnaryMethod {
  /** `ProtectionService/PlanProtection`. */
  readonly rpc: string;
  readonly spec: UnarySpec;
  /** Path of the method on gRPC, gRPC-Web and Connect. */
  readonly rpcPath: string;
}

export interface ServedMethod extends UnaryMethod {
  readonly verb: "GET" | "POST";
  readonly restPath: string;
}

/**
 * Lists the methods of the services. Throws if a method is not unary, its annotation is neither GET nor POST, or its
 * request has rules that cannot be checked.
 */
export function servedMethods(services: readonly ServiceBinding[]): ServedMethod[] {
  return services.flatMap((service) => {
    const other = service.desc.methods.find((method) => !isUnary(method));
    if (other !== undefined) throw new Error(`${other} is not unary`);
    return unaryMethods(service).map((method) => ({ ...method, ...annotation(method.spec.method) }));
  });
}

/** Lists the unary methods of a service, with or without JSON routes. Throws if rules of a request cannot be checked. */
export function unaryMethods({ desc, impl }: ServiceBinding): UnaryMethod[] {
  return desc.methods.filter(isUnary).map((method) => {
    rulesOf(method.input);
    return {
      rpc: `${desc.name}/${method.name}`,
      rpcPath: `/${desc.typeName}/${method.name}`,
      spec: { kind: "unary", method, impl: implementation(method, impl) },
    };
  });
}

/** Paths of all methods of the services on gRPC, gRPC-Web and Connect. */
export function pathsOfServices(services: readonly ServiceBinding[]): string[] {
  return services.flatMap(({ desc }) => desc.methods.map(({ name }) => `/${desc.typeName}/${name}`));
}

function isUnary(method: DescMethod): method is DescMethodUnary {
  return method.methodKind === "unary";
}

/** Returns the implementation of a method. Throws an Error if there is none. */
export function implementation<M extends DescMethod>(method: M, impl: Record<string, unknown>): MethodImpl<M> {
  const found = impl[method.localName];
  if (typeof found !== "function") throw new Error(`${method} is not implemented`);
  return found.bind(impl) as MethodImpl<M>;
}

function annotation(method: DescMethod): { verb: "GET" | "POST"; restPath: string } {
  const { pattern, body } = getOption(method, http);
  if (pattern.case === "get" && body === "") return { verb: "GET", restPath: pattern.value };
  if (pattern.case === "post" && body === "*") return { verb: "POST", restPath: pattern.value };
  throw new Error(`${method} has no google.api.http annotation of the form that the JSON routes serve`);
}

export const publicServices: readonly DescService[] = [
  DiscoveryService,
  ProtectionService,
  RegistrationService,
  EvidenceService,
];
