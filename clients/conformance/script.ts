/** What a case has the service and the issuer do, and what it is then told of what they saw. */
import type { DescMessage, JsonObject, MessageShape } from "@bufbuild/protobuf";
import type { LogKey } from "./log.ts";
import type { Route } from "./protocol.ts";

/** What happens to one call. */
export type Act =
  | {
      readonly does: "answer";
      /** Members of the answer that are not the sample's: merged into its protobuf JSON. */
      readonly change?: Readonly<Record<string, unknown>>;
      /** Adds fields and values that no client of this version knows. */
      readonly newer?: boolean;
      readonly headers?: Readonly<Record<string, string>>;
      readonly afterMs?: number;
      /**
       * What happens when the answer is out: to the connection, to the whole server, or to the files of the client's
       * certificate and key, which are replaced.
       */
      readonly afterwards?: "goaway" | "restart" | "new-certificate";
    }
  | {
      readonly does: "refuse";
      /** gRPC code in snake_case. */
      readonly code: string;
      readonly reason: string;
      readonly missingScopes?: readonly string[];
      readonly violations?: readonly { readonly field: string; readonly rule: string; readonly message: string }[];
      readonly retryAfterSeconds?: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly afterMs?: number;
    }
  /** An answer that is not the service's: a page of a proxy. */
  | { readonly does: "page"; readonly status: number }
  /** The connection is reset before anything of the request is read. */
  | { readonly does: "reset" }
  /** The call is carried out, and the connection reset before its answer. */
  | { readonly does: "commit-and-reset" };

export interface ServerScript {
  /** What happens to the calls, in the order in which they arrive; those after the last are answered. */
  readonly acts?: readonly Act[];
  /** Whether a call must present a client certificate. Default true. */
  readonly demandsCertificate?: boolean;
  /** Nonces that DPoP proofs must carry: the n-th call that is let in must carry the n-th, then the last for ever. */
  readonly nonces?: readonly string[];
  /** Tells the next nonce in the answer before, not by a challenge. */
  readonly announcesNonces?: boolean;
  /** Demands a nonce that nobody knows yet, every time. */
  readonly challengesForEver?: boolean;
  /** What receipts the answers carry, as briefly as they are asked for. Default: none. */
  readonly receipts?: ReceiptScript;
}

export interface ReceiptScript {
  /** Signs the log. */
  readonly key: LogKey;
  /** Members of the record that say otherwise than the answer: merged into it. */
  readonly record?: object;
  /** What becomes of the receipt on its way: protobuf JSON. */
  readonly change?: (receipt: JsonObject) => JsonObject;
}

/** What happens to one token request. */
export type TokenAct =
  | { readonly does: "grant"; readonly lifetimeSeconds?: number; readonly afterMs?: number }
  | { readonly does: "refuse"; readonly status: number; readonly error: string }
  | { readonly does: "page"; readonly status: number }
  | { readonly does: "reset" };

export interface IssuerScript {
  readonly acts?: readonly TokenAct[];
  /** Identifier that the discovery document claims, where it is not the issuer's own. */
  readonly claims?: string;
  /** Nonce that DPoP proofs of token requests must carry. */
  readonly nonce?: string;
}

/** A call as it arrived. */
export interface SeenCall {
  readonly route: Route | undefined;
  readonly protocol: "grpc" | "grpc-web" | "connect" | "json";
  /** Milliseconds since an arbitrary moment. */
  readonly atMs: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly token: string | undefined;
  readonly idempotencyKey: string | undefined;
  /** Base64url SHA-256 of the client's certificate. */
  readonly certificate: string | undefined;
  /** Claims of its DPoP proof, which has been verified. */
  proof?: { readonly jti: string; readonly nonce?: string; readonly thumbprint: string };
  /** What the client was refused for by the server's own rules, not by the script. */
  fault?: string;
  message?: MessageShape<DescMessage>;
  /** When its answer went out. */
  answeredAtMs?: number;
}

export interface SeenTokenRequest {
  readonly atMs: number;
  readonly method: "client_secret_basic" | "client_secret_post" | "tls_client_auth";
  readonly form: URLSearchParams;
  readonly certificate: string | undefined;
  readonly nonce: string | undefined;
  granted?: string;
}

export interface Seen {
  readonly calls: readonly SeenCall[];
  readonly tokenRequests: readonly SeenTokenRequest[];
  readonly discoveries: number;
  /** What was recorded: route and idempotency key, to the id of the record. */
  readonly records: ReadonlyMap<string, string>;
}
