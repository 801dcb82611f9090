/** Sealed objects in a bucket, with the caller's client of AWS's SDK (v3): ciphertext is all that the bucket gets. */
import type { Enforcer, OpenOptions, Outcome, ProtectOptions, RandomAccess, RangeOptions } from "./index.ts";
import { EnforcementError } from "./index.ts";

interface Place {
  readonly Bucket: string;
  readonly Key: string;
}

/** The calls of the SDK's `S3` that are used. */
export interface ObjectStore {
  headObject(place: Place): Promise<{ readonly ContentLength?: number; readonly ETag?: string }>;
  getObject(
    place: Place & { readonly Range?: string; readonly IfMatch?: string },
  ): Promise<{ readonly Body?: unknown }>;
}

export interface SealedBucketOptions {
  readonly enforcer: Pick<Enforcer, "protectStream" | "open" | "openRange">;
  /** An `S3` of `@aws-sdk/client-s3`. */
  readonly store: ObjectStore;
  readonly bucket: string;
  /**
   * Uploads a stream whose size is not known, and rejects if the stream breaks:
   * `(params) => new Upload({ client: store, params }).done()` of `@aws-sdk/lib-storage`.
   */
  upload(params: Place & { readonly Body: NodeJS.ReadableStream }): Promise<unknown>;
}

/** Each call rejects with an `EnforcementError`, or with the error of the store. */
export interface SealedBucket {
  /** Uploads while it protects. The object is there only if all is recorded; its locator is that of `locatorOf`. */
  put(key: string, options: Omit<ProtectOptions, "output" | "replace" | "artifactLocator">): Promise<Outcome>;
  get(key: string, options: Omit<OpenOptions, "input">): Promise<Outcome>;
  /** Reads the segments of a range, all of one version of the object. */
  getRange(key: string, options: Omit<RangeOptions, "input">): Promise<Outcome>;
}

/** Characters that the service may read as credentials, a query or the end of a host, and remove; and `%`. */
const reserved = /[\p{Cc}\s%?#\\]|:(?=\/)|(?<=^|\/)\//gu;

/** `s3://bucket/key`, percent-encoded as far as needed for no two objects to share a locator. */
function locatorOf(bucket: string, key: string): string {
  return `s3://${encodeURIComponent(bucket)}/${key.replace(reserved, encodeURIComponent)}`;
}

export function sealedBucket({ enforcer, store, bucket, upload }: SealedBucketOptions): SealedBucket {
  const bodyOf = async (place: Place & { readonly Range?: string; readonly IfMatch?: string }) => {
    const { Body } = await store.getObject(place);
    if (Body === undefined) throw new EnforcementError("io_failed", "the object has no body");
    return Body as AsyncIterable<Uint8Array>;
  };
  return {
    async put(Key, options) {
      const { readable, outcome } = enforcer.protectStream({ ...options, artifactLocator: locatorOf(bucket, Key) });
      try {
        await upload({ Bucket: bucket, Key, Body: readable });
      } catch (error) {
        readable.destroy();
        // The stream's own failure is the reason, if it broke first.
        await outcome.catch((reason: EnforcementError) => {
          if (readable.errored === reason) throw reason;
        });
        throw error;
      }
      return outcome;
    },
    get: async (Key, options) => enforcer.open({ ...options, input: await bodyOf({ Bucket: bucket, Key }) }),
    async getRange(Key, options) {
      const place = { Bucket: bucket, Key };
      const { ContentLength = 0, ETag } = await store.headObject(place);
      const input: RandomAccess = {
        sizeBytes: ContentLength,
        async read(offset, length) {
          const Range = `bytes=${offset}-${offset + length - 1}`;
          const pieces: Uint8Array[] = [];
          let missing = length;
          for await (const piece of await bodyOf({ ...place, Range, ...(ETag !== undefined && { IfMatch: ETag }) })) {
            missing -= piece.length;
            // A store that ignores the range would send all of it.
            if (missing < 0) throw new EnforcementError("io_failed", "the store sent another range");
            pieces.push(piece);
          }
          return Buffer.concat(pieces);
        },
      };
      return enforcer.openRange({ ...options, input });
    },
  };
}
