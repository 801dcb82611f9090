/** Local enforcement by language: one operation over a platform that allows everything, and programs to be watched. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import {
  createEnforcer,
  EnforcementError,
  type LocalProfile,
  localKey,
  localSigningKey,
  localTdfKey,
  type Platform,
  type StreamingAead,
  transitKey,
} from "../../clients/typescript/src/enforce/index.ts";
import {
  clientCredentials,
  createPlatformClient,
  createRestTransport,
  type PlatformClient,
  workloadInterceptors,
} from "../../clients/typescript/src/index.ts";
import { createHttpClient } from "../../clients/typescript/src/node.ts";
import { permissivePlatform } from "../harness/permissive-platform.ts";
import { archiveOf } from "./clients-builds.ts";

const root = join(import.meta.dirname, "../..");
const python = join(root, "clients/python/.venv/bin/python");
const table = join(root, "clients/python/src/svc_platform_client/receipts/record-relations.json");
const harness = (name: string) => [process.execPath, join(root, "test/harness", name)] as const;
const inPython = (name: string) => [python, join(root, "clients/python/tests", name)] as const;

/** Environment of programs: Python takes the package from the checkout, and Node compiles a module once for many starts. */
export const programEnv = {
  ...process.env,
  PYTHONPATH: join(root, "clients/python/src"),
  NODE_COMPILE_CACHE: join(root, "node_modules/.cache/programs"),
};

/** Makes what the programs of other languages need, where it is not there. */
export function buildLanguages(): void {
  if (!existsSync(python) || !existsSync(table)) archiveOf("python");
}

export type LanguageName = "TypeScript" | "Python";
export const languageNames: readonly LanguageName[] = ["TypeScript", "Python"];

/** Programs that speak as `test/harness/enforcement-child.ts` says, and as `enforcement-memory.ts` does. */
export const programs = {
  TypeScript: { child: harness("enforcement-child.ts"), memory: harness("enforcement-memory.ts") },
  Python: { child: inPython("enforcement_child.py"), memory: inPython("enforcement_memory.py") },
} as const satisfies Record<LanguageName, Readonly<Record<"child" | "memory", readonly [string, ...string[]]>>>;

/** Keys of every kind, as programs are given them. */
export interface Keys {
  /** Wrapping keys of the process by reference, in hex. */
  readonly local?: Readonly<Record<string, string>>;
  readonly signers?: readonly (Readonly<Record<string, unknown>> & { readonly kid: string })[];
  readonly tdf?: readonly (Readonly<Record<string, unknown>> & { readonly kid: string; readonly kas_url: string })[];
  readonly transit?: readonly {
    readonly address: string;
    readonly token: string;
    readonly key: string;
    readonly reference: string;
  }[];
}

export interface Work {
  readonly operation: "protect" | "open" | "rewrap";
  readonly source: string;
  readonly target: string;
  readonly spool: string;
  readonly keys: Keys;
  readonly profile?: LocalProfile;
  /** To open what is signed. */
  readonly signature?: string;
  readonly new_key_reference?: string;
  readonly aead?: StreamingAead;
  /** Of a TDF: references of the keys of each share. */
  readonly tdf_keys?: readonly (readonly string[])[];
  readonly segment_hash?: "HS256" | "GMAC";
  /** Whether a TDF of another program may be opened. */
  readonly allow_foreign?: boolean;
  /** Whether the platform plans the keys as ones that it manages. */
  readonly is_managed?: boolean;
  /** Default: a platform that allows everything. */
  readonly service?: Service;
  readonly log_keys?: readonly string[];
}

/** A real one, and who calls it. */
export interface Service {
  readonly url: string;
  readonly issuer: string;
  readonly client_id: string;
  readonly client_secret: string;
  readonly scopes: readonly string[];
}

/** What the operation came to: the artifact's digest, or what failed. */
export interface Ended {
  readonly artifact_digest?: string;
  readonly failure?: string;
}

export const languages: Record<LanguageName, (work: Work) => Promise<Ended>> = {
  TypeScript: inTypeScript,
  Python: (work) => pythonProgram<Ended>("permissive_platform.py", work),
};

/** What a program in Python prints for this on standard input, both JSON. */
export function pythonProgram<Answer>(name: string, input: object): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const [command, ...args] = inPython(name);
    const child = execFile(command, args, { env: programEnv }, (error, stdout) =>
      error === null ? resolve(JSON.parse(stdout) as Answer) : reject(error),
    );
    child.stdin?.end(JSON.stringify(input));
  });
}

async function inTypeScript(work: Work): Promise<Ended> {
  const { operation, source: input, target: output, profile = "envelope", new_key_reference = "" } = work;
  const { signature, aead = "AES256_GCM_HKDF_1MB" } = work;
  const { tdf_keys, segment_hash, allow_foreign = false } = work;
  const { local = {}, signers = [], tdf = [], transit = [] } = work.keys;
  const enforcer = createEnforcer({
    client: platformFor(work),
    workload: { application: "test" },
    keys: [
      ...Object.entries(local).map(([reference, key]) => localKey(reference, Buffer.from(key, "hex"))),
      ...signers.map((jwk) => localSigningKey(jwk.kid, jwk)),
      ...tdf.map((jwk) => localTdfKey(jwk.kid, jwk, { url: jwk.kas_url })),
      ...transit.map(({ token, ...options }) => transitKey({ ...options, token: () => token })),
    ],
    spoolDirectory: work.spool,
    attributeNamespace: "example.com",
    ...(work.log_keys !== undefined && { logKeys: work.log_keys }),
  });
  const resource = { kind: "test", id: "Ünï\u2028 \u{1f512}" };
  const named = { input, output, purpose: "audit" };
  const operations = {
    protect: () =>
      enforcer.protect({
        ...{ ...named, profile, resource, labels: ["b", "a"], aead },
        tdf: { ...(tdf_keys && { keys: tdf_keys }), ...(segment_hash && { segmentHash: segment_hash }) },
      }),
    open: () =>
      enforcer.open({
        ...{ ...named, profile, ...(signature !== undefined && { signature }) },
        ...(allow_foreign && { allowForeign: true, resource: { kind: "test" } }),
      }),
    rewrap: () => enforcer.rewrap({ ...named, profile, newKeyReference: new_key_reference }),
  };
  try {
    return { artifact_digest: (await operations[operation]()).artifactDigest };
  } catch (error) {
    if (error instanceof EnforcementError) return { failure: error.failure };
    throw error;
  }
}

function platformFor({ service, is_managed = false }: Work): Platform | PlatformClient {
  if (service === undefined) return is_managed ? managedPlatform() : permissivePlatform();
  const { url: baseUrl, issuer, client_id: clientId, client_secret: clientSecret, scopes } = service;
  const http = createHttpClient();
  const tokens = clientCredentials({ issuer, clientId, clientSecret, scopes, http });
  return createPlatformClient(createRestTransport({ baseUrl, http, interceptors: workloadInterceptors({ tokens }) }));
}

/** The keys are managed ones, as `kms://*` is out of the box. */
function managedPlatform(): Platform {
  const platform = permissivePlatform();
  const managed = async (answer: ReturnType<Platform["planKeyAccess"]>) => {
    const decision = await answer;
    return { ...decision, plan: { ...decision.plan, keyTransport: "wrapped_key_reference" } };
  };
  return { ...platform, planKeyAccess: (question) => managed(platform.planKeyAccess(question)) };
}
