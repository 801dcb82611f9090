/** The session route: client and key files become its methods, gate and pages. */
import { SessionService } from "../../gen/platform/sdk/v1/session_pb.ts";
import type { SessionPeer } from "../auth/confirmation.ts";
import { createSessionTokens, parseSessionKeys, type SessionTokenRule } from "../auth/session-tokens.ts";
import { type DeclaredAttributes, undeclaredNames } from "../base/caller.ts";
import { createFairSemaphore } from "../base/fair-queue.ts";
import type { InboundRequest } from "../base/inbound-request.ts";
import type { ConfigFor } from "../config/config.ts";
import { sessionIssuerOf } from "../config/data-files.ts";
import { FileSessionClients, parseClientFile } from "../credentials/session-clients.ts";
import type { PortionCounters } from "../domain/ports.ts";
import { createSessions } from "../domain/session.ts";
import { bind, servedMethods } from "../transport/calls/methods.ts";
import { noteSessionPeer } from "../transport/gate/chain.ts";
import type { Page } from "../transport/rest/page.ts";
import { createSessionService } from "../transport/rpc/session.ts";
import type { Machine } from "./followed-files.ts";
import type { EnabledApi } from "./further-apis.ts";

/** Concurrent secret checks, which use up to 64 MiB each, and waiting calls: of one party, and in total. */
const sessionSlots = { maximum: 2, maximumWaitingEach: 32, maximumWaiting: 256 };

/** Most names in one log line. */
const maximumLogged = 32;

/**
 * Watches the files; undefined without settings. Rejects, naming the setting, if one is invalid.
 *
 * @returns the route as an API, and the rule for its tokens
 */
export async function openSessionRoute(
  config: ConfigFor<"serve">,
  declared: DeclaredAttributes,
  counters: PortionCounters,
  { files, logger, clock, random }: Machine,
  peerOf: (inbound: InboundRequest) => SessionPeer,
): Promise<{ readonly api: EnabledApi; readonly token: SessionTokenRule } | undefined> {
  const parse = ([text = ""]: readonly string[]) => {
    const clients = parseClientFile(text, declared.current);
    const unread = undeclaredNames(
      declared.current,
      clients.map(({ attributes = {} }) => attributes),
    );
    const said = { attributes: unread.slice(0, maximumLogged) };
    if (unread.length > 0) logger.warn(said, "SVC_SESSION_CLIENTS has undeclared attributes");
    return clients;
  };
  const clients = await files.follow("session_clients", {
    parse,
    describe: ({ length }) => ({ clients: String(length) }),
  });
  const keys = await files.follow("session_key", {
    parse: ([text = ""]) => parseSessionKeys(text),
    describe: ({ signing }) => ({ signing_key: signing.kid }),
  });
  if (clients === undefined || keys === undefined) return undefined;
  const token = { issuer: sessionIssuerOf(config), audience: config.oidcAudience, keys };
  const sessions = createSessions({
    clients: new FileSessionClients(() => clients.current),
    counters,
    signer: createSessionTokens({ ...token, clock, random }),
    slots: createFairSemaphore(sessionSlots),
    clock,
  });
  const methods = servedMethods([bind(SessionService, createSessionService(sessions))]);
  const gate = noteSessionPeer(peerOf);
  const api = {
    methods,
    gates: new Map(methods.map(({ rpc }) => [rpc, gate])),
    services: new Map(),
    pages: [keySetPage(() => keys.current.published)],
  };
  return { api, token };
}

/** Path of the public keys of session tokens, for services that verify them. */
const keySetPath = "/.well-known/jwks.json";

/** The current public keys, as a JWK set (RFC 7517 §5, §8.5). */
function keySetPage(published: () => { readonly keys: readonly object[] }): Page {
  return {
    path: keySetPath,
    content: () => ({ type: "application/jwk-set+json", body: JSON.stringify(published()) }),
  };
}
