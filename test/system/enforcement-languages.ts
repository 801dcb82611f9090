/** Local enforcement by language: one operation over a platform that allows everything, and programs to be watched. */
import { execFile, execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import {
  createEnforcer,
  EnforcementError,
  type LocalProfile,
  localKey,
  localSigningKey,
  type Platform,
  type StreamingAead,
  transitKey,
} from "../../clients/typescript/src/enforce/index.ts";
import { permissivePlatform } from "../harness/permissive-platform.ts";

const root = join(import.meta.dirname, "../..");
const python = join(root, "clients/python/.venv/bin/python");
const harness = (name: string) => [process.execPath, join(root, "test/harness", name)] as const;
const inPython = (name: string) => [python, join(root, "clients/python/tests", name)] as const;

/** What a program is started with: Python takes the package from the checkout. */
export const programEnv = { ...process.env, PYTHONPATH: join(root, "clients/python/src") };

/** Makes what the programs of other languages need, where it is not there. */
export function buildLanguages(): void {
  if (existsSync(python)) return;
  execFileSync(process.execPath, ["scripts/proto-deps.ts"], { cwd: root, stdio: "ignore" });
  execFileSync("bash", [join(root, "clients/python/build.sh")], { stdio: "ignore" });
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
  /** Whether the platform plans the keys as ones that it manages. */
  readonly is_managed?: boolean;
}

/** What the operation came to: the artifact's digest, or what failed. */
export interface Ended {
  readonly artifact_digest?: string;
  readonly failure?: string;
}

export const languages: Record<LanguageName, (work: Work) => Promise<Ended>> = {
  TypeScript: inTypeScript,
  Python(work) {
    return new Promise((resolve, reject) => {
      const [command, ...args] = inPython("permissive_platform.py");
      const child = execFile(command, args, { env: programEnv }, (error, stdout) =>
        error === null ? resolve(JSON.parse(stdout) as Ended) : reject(error),
      );
      child.stdin?.end(JSON.stringify(work));
    });
  },
};

async function inTypeScript(work: Work): Promise<Ended> {
  const { operation, source: input, target: output, profile = "envelope", new_key_reference = "" } = work;
  const { signature, aead = "AES256_GCM_HKDF_1MB" } = work;
  const { local = {}, signers = [], transit = [] } = work.keys;
  const enforcer = createEnforcer({
    client: work.is_managed ? managedPlatform() : permissivePlatform(),
    workload: { application: "test" },
    keys: [
      ...Object.entries(local).map(([reference, key]) => localKey(reference, Buffer.from(key, "hex"))),
      ...signers.map((jwk) => localSigningKey(jwk.kid, jwk)),
      ...transit.map(({ token, ...options }) => transitKey({ ...options, token: () => token })),
    ],
    spoolDirectory: work.spool,
  });
  const resource = { kind: "test", id: "Ünï\u2028 \u{1f512}" };
  const operations = {
    protect: () => enforcer.protect({ input, output, profile, resource, labels: ["b", "a"], aead }),
    open: () => enforcer.open({ input, output, ...(signature !== undefined && { signature }) }),
    rewrap: () => enforcer.rewrap({ input, output, profile, newKeyReference: new_key_reference }),
  };
  try {
    return { artifact_digest: (await operations[operation]()).artifactDigest };
  } catch (error) {
    if (error instanceof EnforcementError) return { failure: error.failure };
    throw error;
  }
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
