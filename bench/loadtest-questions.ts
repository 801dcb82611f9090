/**
 * Questions of the peer's load-test requests in the form of each side: the caller is a token here and a part of the
 * body there. An answer is a sequence of allow and deny, so that both sides can be compared.
 */

import { numbered, type Turn } from "./load.ts";
import type { LoadtestSet, PeerPrincipal, PeerRequest, PeerResource } from "./loadtest-templates.ts";
import { startMinter } from "./tenants.ts";

/** A claimed attribute that policies of the set read: a new value in each request makes its facts new. */
const readAttribute: Readonly<Record<LoadtestSet, string>> = { classic: "owner", multitenant: "department" };

/** Route for many questions at once. */
export const bulkPath = "/v1/bulk/protection-plans";
/** Route for one question. */
export const planPath = "/v1/sdk/protection-plan";

/** The same request for both sides. */
export interface Asked {
  readonly request: PeerRequest;
  readonly gateway: Turn;
  readonly peer: Turn;
}

export type Principals = Awaited<ReturnType<typeof startPrincipals>>;

/** Tokens of principals, from their own issuer: the claim `peer` describes the principal. */
export async function startPrincipals() {
  const { issuer, mint } = await startMinter();
  const tokens = new Map<string, string>();
  return {
    issuer,
    tokenOf({ id, roles, attr }: PeerPrincipal): string {
      const name = JSON.stringify({ id, roles, attr });
      const token =
        tokens.get(name) ?? mint({ principal_id: id, sub: `client-${tokens.size}`, peer: { ...attr, roles } });
      tokens.set(name, token);
      return token;
    },
    stop: () => issuer.stop(),
  };
}

/** Each action of each resource by itself. */
export function questionsOf(requests: readonly PeerRequest[]): readonly PeerRequest[] {
  return requests.flatMap((request) =>
    request.resources.flatMap(({ actions, resource }) =>
      actions.map((action) => ({ ...request, resources: [{ actions: [action], resource }] })),
    ),
  );
}

/** The same with `numbered` in facts that policies read. */
export function withNewFacts(set: LoadtestSet, request: PeerRequest): PeerRequest {
  const name = readAttribute[set];
  const resources = request.resources.map(({ actions, resource }) => {
    const attr = { ...resource.attr, [name]: `${resource.attr[name]}-${numbered}` };
    return { actions, resource: { ...resource, attr } };
  });
  return { ...request, resources };
}

/** One question: a call of protection-plan, and a request with one action. */
export function askedOnce(request: PeerRequest, principals: Principals): Asked {
  return { request, gateway: gatewayTurn(request, principals, plansOf(request)[0]), peer: peerTurn(request) };
}

/** All questions of a request at once: a bulk call, and the original request. */
export function askedWhole(request: PeerRequest, principals: Principals): Asked {
  const body = { items: plansOf(request) };
  return { request, gateway: gatewayTurn(request, principals, body), peer: peerTurn(request) };
}

function gatewayTurn(request: PeerRequest, principals: Principals, body: unknown): Turn {
  const authorization = `Bearer ${principals.tokenOf(request.principal)}`;
  return { headers: { authorization, "content-type": "application/json" }, body: JSON.stringify(body) };
}

function peerTurn(request: PeerRequest): Turn {
  return { headers: { "content-type": "application/json" }, body: JSON.stringify(request) };
}

/** The peer's resource and action as claims of protection-plan: the action is an attribute. */
function plansOf({ resources }: PeerRequest) {
  return resources.flatMap(({ actions, resource }) => actions.map((action) => planOf(resource, action)));
}

function planOf({ kind, id, policyVersion = "default", scope: within = "", attr }: PeerResource, action: string) {
  const said = Object.entries(attr).map(([name, value]) => [name, String(value)]);
  return {
    operation: "protect",
    workload: { application: "loadtest" },
    resource: { kind, id },
    attributes: { action, version: policyVersion, scope: within, ...Object.fromEntries(said) },
  };
}

/** Asks both sides, and makes each question unique if it is `numbered`. Rejects if answers differ. */
export async function requireAgreement(
  gateway: string,
  peer: string,
  questions: readonly Asked[],
): Promise<{ readonly allowed: number; readonly denied: number }> {
  const counts = { allowed: 0, denied: 0 };
  let next = 0;
  const ask = async () => {
    for (let at = next++; at < questions.length; at = next++) {
      const asked = questions[at] as Asked;
      const [ours, theirs] = await Promise.all([
        post(gateway, asked.gateway, at).then(gatewayAnswers),
        post(peer, asked.peer, at).then((answer) => peerAnswers(answer, asked.request)),
      ]);
      if (ours.length === 0 || ours.join() !== theirs.join()) {
        throw new Error(`the gateway answers ${ours}, and the peer ${theirs}, to ${asked.peer.body}`);
      }
      counts.allowed += ours.filter((allow) => allow).length;
      counts.denied += ours.filter((allow) => !allow).length;
    }
  };
  await Promise.all(Array.from({ length: askers }, ask));
  return counts;
}

const askers = 16;

async function post(url: string, { headers, body }: Turn, at: number): Promise<unknown> {
  const response = await fetch(url, { method: "POST", headers, body: body.replaceAll(numbered, `first-${at}`) });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${url} answered ${response.status}: ${text}`);
  return JSON.parse(text);
}

interface GatewayAnswer {
  readonly decision?: { readonly allow: boolean };
  readonly items?: readonly GatewayAnswer[];
}

function gatewayAnswers(answer: unknown): readonly boolean[] {
  const { decision, items } = answer as GatewayAnswer;
  if (items !== undefined) return items.flatMap(gatewayAnswers);
  if (decision === undefined) throw new Error(`the gateway decided nothing: ${JSON.stringify(answer)}`);
  return [decision.allow];
}

interface PeerAnswer {
  readonly results: readonly { readonly actions: Readonly<Record<string, string>> }[];
}

/** In the order of the question's actions, because the answer's order is unspecified. */
function peerAnswers(answer: unknown, { resources }: PeerRequest): readonly boolean[] {
  const { results } = answer as PeerAnswer;
  return resources.flatMap(({ actions }, at) => {
    return actions.map((action) => {
      const effect = results[at]?.actions[action];
      if (effect === undefined) throw new Error(`the peer decided nothing: ${JSON.stringify(answer)}`);
      return effect === "EFFECT_ALLOW";
    });
  });
}
