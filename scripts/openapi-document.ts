/** The committed OpenAPI documents: those of a deployment with default settings. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { furtherTable } from "../src/app/further-apis.ts";
import { maxBodyBytesOf } from "../src/app/gateway.ts";
import type { JsonObject } from "../src/base/json.ts";
import { read } from "../src/config/schema.ts";
import { type Config, settings } from "../src/config/settings.ts";
import { createScopeTable, furtherNames } from "../src/domain/routes.ts";
import { withValues } from "../src/portal/documents.ts";
import { publicServices, servedMethods } from "../src/transport/calls/methods.ts";
import { type Api, createDocument, sdkApi } from "./openapi/document.ts";
import { furtherDocuments } from "./openapi/further-documents.ts";
import type { Comments } from "./openapi/schemas.ts";

/** Makes every document from the settings' defaults and the given comments. Returns them by the name of the file. */
export function defaultDocuments(comments: Comments): Readonly<Record<string, JsonObject>> {
  const further = furtherNames.map((name) => [`openapi-${name}`, published(furtherDocuments[name], comments)]);
  return { openapi: published(sdkApi, comments), ...Object.fromEntries(further) };
}

const furtherServices = furtherNames.flatMap((name) => [...furtherTable[name].services.keys()]);
const methods = servedMethods(
  [...publicServices, ...furtherServices]
    .filter(({ methods }) => methods.every(({ methodKind }) => methodKind === "unary"))
    .map((desc) => ({ desc, impl: unserved(desc.methods) })),
);

function published(api: Api, comments: Comments): JsonObject {
  return withValues(JSON.stringify(createDocument(api, methods, comments)), {
    service: defaultOf("serviceName"),
    version: packageVersion(),
    headerPrefix: defaultOf("headerPrefix"),
    scopes: createScopeTable(defaultOf("defaultRequiredScopes"), defaultOf("routeScopes")),
    authMode: defaultOf("authMode"),
    proofOfPossession: defaultOf("proofOfPossession"),
    maxBodyBytes: maxBodyBytesOf({
      maxBodyBytes: defaultOf("maxBodyBytes"),
      maxArtifactBodyBytes: defaultOf("maxArtifactBodyBytes"),
      maxBulkBodyBytes: defaultOf("maxBulkBodyBytes"),
    }),
  });
}

type WithDefault =
  | "serviceName"
  | "headerPrefix"
  | "defaultRequiredScopes"
  | "routeScopes"
  | "authMode"
  | "proofOfPossession"
  | "maxArtifactBodyBytes"
  | "maxBulkBodyBytes"
  | "maxBodyBytes";

function defaultOf<K extends WithDefault>(key: K): Config[K] {
  const result = read<unknown>(settings[key].schema, settings[key].default);
  if ("problem" in result) throw new Error(result.problem);
  return result.value as Config[K];
}

/** Implementations that are never called: the document reads descriptors only. */
function unserved(methods: readonly { readonly localName: string }[]): Record<string, unknown> {
  return Object.fromEntries(methods.map(({ localName }) => [localName, () => Promise.reject(new Error("unserved"))]));
}

function packageVersion(): string {
  const text = readFileSync(join(import.meta.dirname, "../package.json"), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}
