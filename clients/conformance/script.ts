/** Script of the service and the issuer in a case, and their report of the requests. */
import type { DescMessage, JsonObject, MessageShape } from "@bufbuild/protobuf";
import type { LogKey } from "./log.ts";
import type { BulkRoute, Route, StreamKind } from "./protocol.ts";

/** What happens to one call. */
export type Act =
  | {
      readonly does: "answer";
      /** Members of the answer that are not the sample's: merged into its protobuf JSON. */
      readonly change?: Readonly<Record<string, unknown>>;
      /** Of a bulk call: members of items, by their place. One with another outcome than `answered` has no others. */
      readonly items?: Readonly<Record<number, JsonObject>>;
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
  | Refusal
  /** An answer that is not the service's: a page of a proxy. */
  | { readonly does: "page"; readonly status: number }
  /** The connection is reset before anything of the request is read. */
  | { readonly does: "reset" }
  /** The call is carried out, and the connection reset before its answer. */
  | { readonly does: "commit-and-reset" }
  | StreamAct;

export interface Refusal {
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

/** What happens on a stream. Each item is recorded as it arrives, and acknowledged at once unless this says otherwise. */
export interface StreamAct {
  readonly does: "stream";
  /** Nothing is acknowledged before so many items have arrived, and so many milliseconds more have passed. */
  readonly holdsBack?: { readonly items: number; readonly ms: number };
  /** Whether an acknowledgement of no item comes first. */
  readonly startsEmpty?: boolean;
  /** How many of its items are acknowledged at most. */
  readonly acknowledges?: number;
  /** Members of results, by the place of the item on the stream, as `items` of an answer. */
  readonly results?: Readonly<Record<number, JsonObject>>;
  /** What is wrong with the first message that has any acknowledgement. */
  readonly lies?: "unknown-sequence" | "acknowledged-before" | "out-of-order" | "another-key" | "another-items-record";
  /** When so many items have arrived, and those that are to be are acknowledged, the stream ends so. */
  readonly ends?: {
    readonly after: number;
    readonly by: "ok" | "reset" | "goaway" | "restart" | Omit<Refusal, "does">;
  };
  /** When no item has arrived for so long the stream ends with `deadline_exceeded`. */
  readonly idleMs?: number;
}

export interface ServerScript {
  /** What happens to the calls, in the order in which they arrive; those after the last are answered. */
  readonly acts?: readonly Act[];
  /** Whether a call must present a client certificate. Default true. */
  readonly demandsCertificate?: boolean;
  /** Nonces that DPoP proofs must carry: the n-th call that is let in must carry the n-th, later ones the last. */
  readonly nonces?: readonly string[];
  /** Tells the next nonce in the answer before, not by a challenge. */
  readonly announcesNonces?: boolean;
  /** Demands a new nonce every time. */
  readonly challengesForEver?: boolean;
  /** What receipts the answers carry, as briefly as they are asked for. Default: none. */
  readonly receipts?: ReceiptScript;
}

export interface ReceiptScript {
  /** Signs the log. */
  readonly key: LogKey;
  /** Members of the record that say otherwise than the answer: merged into it. */
  readonly record?: object;
  /** The same of each record, by its number, over `record`. */
  readonly records?: readonly object[];
  /** What becomes of the receipt on its way: protobuf JSON. */
  readonly change?: (receipt: JsonObject) => JsonObject;
  /** Both are of the receipt with this number alone, counted from 0. Default: of all. */
  readonly only?: number;
  /** Whether one record answers all items of a call. Default: those with one idempotency key only. */
  readonly isShared?: boolean;
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

export type SeenRoute = Route | BulkRoute | `stream/${StreamKind}`;

/** A call as it arrived. */
export interface SeenCall {
  readonly route: SeenRoute | undefined;
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
  /** Of a stream: its items as they arrived. */
  readonly items: SeenItem[];
  /** How many items had arrived when the first was acknowledged. */
  arrivedBefore?: number;
  /** When its answer went out. */
  answeredAtMs?: number;
}

export interface SeenItem {
  readonly sequence: bigint;
  readonly key: string;
  /** The event or the registration. */
  readonly message: MessageShape<DescMessage>;
  /** Whether its acknowledgement went out. */
  isAcknowledged: boolean;
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
