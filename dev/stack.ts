/**
 * A whole deployment on loopback: a real token issuer, and the gateway with the embedded store and the sample policies.
 */
import { join } from "node:path";
import { build, type Overrides } from "../src/app/app.ts";
import type { readFirstPolicy } from "../src/app/first-policy.ts";
import type { App } from "../src/app/gateway.ts";
import { readConfig } from "../src/config/config.ts";
import { systemFiles } from "../src/config/load.ts";
import { type Issuer, type IssuerOptions, startIssuer } from "./issuer.ts";

export interface StackOptions {
  /** Folder of the store. */
  readonly dataDir: string;
  /** Ports on 127.0.0.1; free ones if absent. */
  readonly port?: number;
  readonly opsPort?: number;
  readonly issuer?: IssuerOptions;
  /** Settings in addition to, or instead of, those that the stack chooses; undefined removes one. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly overrides?: Overrides;
  /** Reads and checks the policies that it starts with, instead of the service itself. */
  readonly policy?: typeof readFirstPolicy;
}

export interface Stack {
  readonly issuer: Issuer;
  readonly app: App;
  /** Base URL of the service, and of its operator listener. */
  readonly url: string;
  readonly opsUrl: string;
  /** An access token of the first client, or of the named one, for all of its scopes or the named ones. */
  token(options?: { readonly clientId?: string; readonly scope?: string }): Promise<string>;
  /** Stops gateway and issuer. */
  stop(): Promise<void>;
}

/** Starts the stack. If a part cannot start, stops the others and rejects. */
export async function startStack(options: StackOptions): Promise<Stack> {
  const issuer = await startIssuer(options.issuer);
  try {
    const config = configOf(options, issuer);
    const app = await build(config, {
      ...options.overrides,
      ...(options.policy && { policy: options.policy(config) }),
    });
    const { url, opsUrl } = await app.listen().catch(async (error: unknown) => {
      await app.close();
      throw error;
    });
    return {
      issuer,
      app,
      url,
      opsUrl,
      token: (request) => fetchToken(issuer, request),
      stop: async () => {
        await app.close();
        await issuer.stop();
      },
    };
  } catch (error) {
    await issuer.stop();
    throw error;
  }
}

function configOf({ dataDir, port = 0, opsPort = 0, env }: StackOptions, issuer: Issuer) {
  const settings = {
    SVC_LISTEN: `127.0.0.1:${port}`,
    SVC_OPS_LISTEN: `127.0.0.1:${opsPort}`,
    SVC_OIDC_ISSUER: issuer.url,
    SVC_OIDC_AUDIENCE: issuer.audience,
    // Tokens of a plain-http issuer on loopback are not bound to a key.
    SVC_PROOF_OF_POSSESSION: "none",
    SVC_STORE: `sqlite:${join(dataDir, "platform.db")}`,
    SVC_LEDGER_KEY: join(dataDir, "ledger.key"),
    SVC_POLICY_DIR: join(import.meta.dirname, "../policies"),
    SVC_LEDGER_ORIGIN: "localhost/dev",
    ...env,
  };
  const result = readConfig(settings, undefined, { uses: "serve", files: systemFiles });
  if ("problems" in result) throw new Error(result.problems.join("\n"));
  return result.config;
}

/** An access token of the first client, or of the named one, for all of its scopes or the named ones. */
export async function fetchToken(
  issuer: Issuer,
  { clientId, scope }: { readonly clientId?: string; readonly scope?: string } = {},
): Promise<string> {
  const client = issuer.clients.find((candidate) => clientId === undefined || candidate.clientId === clientId);
  if (client === undefined) throw new Error(`no client ${clientId}`);
  const response = await fetch(issuer.tokenEndpoint, {
    method: "POST",
    headers: { authorization: `Basic ${btoa(`${client.clientId}:${client.clientSecret}`)}` },
    body: new URLSearchParams({ grant_type: "client_credentials", scope: scope ?? client.scopes.join(" ") }),
  });
  const answer = (await response.json()) as { access_token?: string; error?: string };
  if (answer.access_token === undefined) throw new Error(`the issuer refused: ${answer.error}`);
  return answer.access_token;
}
