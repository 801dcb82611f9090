/**
 * APIs beside the SDK's. Each has its own package or paths, document and setting. If it is off, it has no route and no
 * page, and reflection and health do not mention it.
 */
import type { DescService } from "@bufbuild/protobuf";
import { AuthorizationService as OpentdfAuthorization } from "../../gen/opentdf/authorization_pb.ts";
import { WellKnownService } from "../../gen/opentdf/wellknownconfiguration_pb.ts";
import { AuthorizationService } from "../../gen/platform/authzen/v1/authorization_pb.ts";
import { BulkDecisionService } from "../../gen/platform/bulk/v1/decisions_pb.ts";
import { BulkRecordService } from "../../gen/platform/bulk/v1/records_pb.ts";
import { BulkStreamService } from "../../gen/platform/bulk/v1/streams_pb.ts";
import type { Authenticator } from "../auth/authenticator.ts";
import type { ConfigFor } from "../config/config.ts";
import type { FixedLimits } from "../config/settings.ts";
import { createEvaluations, delegationScope } from "../domain/evaluation.ts";
import { authzenRoutes, type FurtherName, type ScopeTable, union } from "../domain/routes.ts";
import type { FurtherDocument } from "../portal/pages.ts";
import type { Gate } from "../transport/calls/exchange.ts";
import { bind, type ServedMethod, type ServiceBinding, servedMethods } from "../transport/calls/methods.ts";
import { fixed, type Page } from "../transport/rest/page.ts";
import { createAuthorizationService } from "../transport/rpc/authorization.ts";
import { createBulkStreamService } from "../transport/rpc/bulk-streams.ts";
import { createOpentdfService, createWellKnownService } from "../transport/rpc/opentdf.ts";
import { type BulkDecisionDependencies, createBulkDecisionService } from "../transport/rpc/protection.ts";
import { type BulkRecordDependencies, createBulkRecordService } from "../transport/rpc/records.ts";
import type { HealthOptions } from "../transport/unauthenticated/health.ts";

type BulkDependencies = BulkDecisionDependencies & BulkRecordDependencies;

/** One enabled API. */
export interface EnabledApi {
  /** Absent if it has no JSON routes. */
  readonly document?: FurtherDocument | undefined;
  /** Its methods, served like those of the SDK on all protocols. */
  readonly methods: readonly ServedMethod[];
  /** Its services without JSON routes, streaming ones among them. */
  readonly rpcServices?: readonly ServiceBinding[];
  /** Its services that need no credentials. */
  readonly openServices?: readonly ServiceBinding[];
  /** Scopes that its methods need, including default ones, by `Service/Method`, if the table of routes has none. */
  readonly requiredScopes?: ReadonlyMap<string, readonly string[]>;
  /** Its services, with the readiness checks that each needs. */
  readonly services: ReadonlyMap<DescService, readonly string[] | "all">;
  /** Gates of its methods that need no credentials, by `Service/Method`. */
  readonly gates?: ReadonlyMap<string, Gate>;
  /** Pages that need no credentials, besides its document. */
  readonly pages: readonly Page[];
}

type Config = ConfigFor<"serve"> & FixedLimits;
type OpentdfAuthenticator = Pick<Authenticator, "holderOf" | "tokenEndpointOf">;

type Served = Omit<EnabledApi, "services" | "document">;

/** An API in the table: what no setting changes, and what serves it. */
interface Row extends Pick<EnabledApi, "services"> {
  readonly serve: (config: Config, dependencies: BulkDependencies, authenticator: OpentdfAuthenticator) => Served;
  /** Its document. */
  readonly file?: URL;
}

/** Every API by the name of its setting. */
export const furtherTable: Readonly<Record<FurtherName, Row & { readonly file: URL }> & Record<"opentdf", Row>> = {
  bulk: {
    services: new Map<DescService, readonly string[] | "all">([
      [BulkDecisionService, "all"],
      [BulkRecordService, ["issuer_keys", "store"]],
      [BulkStreamService, ["issuer_keys", "store"]],
    ]),
    file: new URL("../../gen/openapi-bulk.json", import.meta.url),
    serve: serveBulk,
  },
  authzen: {
    services: new Map([[AuthorizationService, "all"]]),
    file: new URL("../../gen/openapi-authzen.json", import.meta.url),
    serve: serveAuthzen,
  },
  opentdf: {
    services: new Map<DescService, readonly string[] | "all">([
      [OpentdfAuthorization, "all"],
      [WellKnownService, []],
    ]),
    serve: serveOpentdf,
  },
};

/** The APIs that the settings enable. */
export function furtherApis(...given: Parameters<Row["serve"]>): readonly EnabledApi[] {
  const [config] = given;
  const names = Object.keys(furtherTable) as (keyof typeof furtherTable)[];
  return names
    .filter((name) => config[name])
    .map((name) => {
      const { services, file, serve }: Row = furtherTable[name];
      return { services, document: file && { name, file }, ...serve(...given) };
    });
}

function serveOpentdf(
  { oidcIssuer }: Config,
  dependencies: BulkDependencies,
  { holderOf, tokenEndpointOf }: OpentdfAuthenticator,
): Served {
  const { deployment, ledger, takeItems } = dependencies;
  const service = createOpentdfService(createEvaluations(dependencies), { takeItems, ledger, holderOf });
  const scopes = union(deployment.scopes.required("key-access-plan"), [delegationScope]);
  /** With several issuers, a program must know its own. */
  const configuration = () => {
    const endpoint = oidcIssuer === undefined ? undefined : tokenEndpointOf(oidcIssuer);
    return {
      ...(oidcIssuer !== undefined && { platform_issuer: oidcIssuer }),
      idp: {
        ...(oidcIssuer !== undefined && { issuer: oidcIssuer }),
        ...(endpoint !== undefined && { token_endpoint: endpoint }),
      },
    };
  };
  return {
    methods: [],
    rpcServices: [bind(OpentdfAuthorization, service)],
    openServices: [bind(WellKnownService, createWellKnownService(configuration))],
    requiredScopes: new Map(OpentdfAuthorization.methods.map(({ name }) => [`AuthorizationService/${name}`, scopes])),
    pages: [],
  };
}

function serveAuthzen({ publicUrl, maxBodyBytes, maxBulkBodyBytes }: Config, dependencies: BulkDependencies): Served {
  const evaluations = createEvaluations(dependencies);
  const service = createAuthorizationService(evaluations, {
    takeItems: dependencies.takeItems,
    maxQuestionBytes: Math.max(maxBodyBytes, maxBulkBodyBytes),
  });
  const metadata = () => ({ type: "application/json", body: JSON.stringify(authzenMetadata(publicUrl ?? "")) });
  return {
    methods: servedMethods([bind(AuthorizationService, service)]),
    pages: publicUrl === undefined ? [] : [fixed(authzenMetadataPath, metadata)],
  };
}

const authzenMetadataPath = "/.well-known/authzen-configuration";

/** @param publicUrl of the service: never derived from a request */
export function authzenMetadata(publicUrl: string): Readonly<Record<string, string>> {
  const base = publicUrl.replace(/\/+$/, "");
  return {
    policy_decision_point: base,
    ...Object.fromEntries(authzenRoutes.map(({ endpoint, path }) => [endpoint, `${base}${path}`])),
  };
}

function serveBulk({ serviceName, bulkIdleTimeoutMs }: Config, dependencies: BulkDependencies): Served {
  return {
    methods: servedMethods([
      bind(BulkDecisionService, createBulkDecisionService(serviceName, dependencies)),
      bind(BulkRecordService, createBulkRecordService(serviceName, dependencies)),
    ]),
    rpcServices: [bind(BulkStreamService, createBulkStreamService(dependencies, bulkIdleTimeoutMs))],
    pages: [],
  };
}

/** Scopes of the SDK's methods and of those of further APIs. Throws for an unknown method. */
export function scopesByRpc(scopes: ScopeTable, apis: readonly EnabledApi[]): (rpc: string) => readonly string[] {
  const further = new Map(apis.flatMap(({ requiredScopes = [] }) => [...requiredScopes]));
  return (rpc) => further.get(rpc) ?? scopes.requiredByRpc(rpc);
}

/** Readiness checks that each service needs. */
export function healthNeedsOf(apis: readonly EnabledApi[]): HealthOptions["services"] {
  return new Map(
    apis.flatMap(({ services }) => [...services].map(([{ typeName }, needs]) => [typeName, needs] as const)),
  );
}
