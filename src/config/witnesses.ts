/** `SVC_WITNESSES`: who cosigns checkpoints, and where they are asked. */
import { isLoopbackHost } from "../base/network.ts";
import { httpUrl } from "./parsers.ts";
import { map, ValueProblem } from "./raw.ts";

export interface WitnessSetting {
  /** Verifier key of its cosignatures (C2SP vkey, type 4). */
  readonly key: string;
  /** Submission prefix (C2SP tlog-witness). */
  readonly url: string;
}

/** Sixteen cosignatures of any kind that C2SP knows fit a note several times. */
const maxWitnesses = 16;

/** A map from verifier key to URL. Whether a key is one, is seen where it is used. */
export const witnesses = map((entries): readonly WitnessSetting[] => {
  const settings = Object.entries(entries).map(([key, url]) => {
    if (!/^[^+\s]+\+[0-9a-f]{8}\+[A-Za-z0-9+/]+={0,2}$/.test(key))
      throw new ValueProblem("must be a map from verifier keys (name+id+key) to URLs");
    if (typeof url !== "string") throw new ValueProblem("must be a map from verifier keys to URLs");
    const { protocol, hostname, href } = httpUrl(url);
    if (protocol === "http:" && !isLoopbackHost(hostname))
      throw new ValueProblem("must use https: plain http is accepted on loopback only");
    return { key, url: href };
  });
  if (settings.length === 0 || settings.length > maxWitnesses)
    throw new ValueProblem(`must name 1 to ${maxWitnesses} witnesses`);
  return settings;
});
