import type { ServiceImpl } from "@connectrpc/connect";
import type { SessionService } from "../../../gen/platform/sdk/v1/session_pb.ts";
import { invalidRequest, ServiceError } from "../../base/errors.ts";
import { parseTenantId } from "../../base/ids.ts";
import type { Sessions } from "../../domain/session.ts";
import { callOf } from "../calls/call.ts";

/** The session service over its domain. Its answer has only the members of specification 4.5. */
export function createSessionService(sessions: Sessions): ServiceImpl<typeof SessionService> {
  return {
    async createSession({ tenantId, clientId, clientSecret, requestedScopes }, context) {
      const { sessionPeer } = callOf(context);
      if (sessionPeer === undefined) throw new ServiceError("internal", "handler invoked before the gate");
      const tenant = parseTenantId(tenantId);
      if (tenant === undefined) throw invalidRequest("tenant_id", "string.pattern", "must be a tenant id");
      const request = { tenantId: tenant, clientId, clientSecret, requestedScopes };
      const { accessToken, expiresInSeconds, scopes, subject } = await sessions.create(
        request,
        sessionPeer,
        context.signal,
      );
      return {
        accessToken,
        tokenType: "Bearer",
        expiresIn: expiresInSeconds,
        scope: scopes.join(" "),
        tenantId,
        clientId,
        subject,
      };
    },
  };
}
