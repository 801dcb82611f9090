/** Nonces that a DPoP proof must carry (RFC 9449 §9), so that a proof cannot be made long before it is used. */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { Clock } from "../../base/clock.ts";

/** How long one nonce is handed out. Each is taken for one period more, and from replicas whose clocks are ahead. */
const periodMs = 5 * 60_000;

export interface DpopNonces {
  /** The nonce to hand out now: 43 characters, the same for every caller and from every replica. */
  current(): string;
  /** Whether the nonce is one of the last, this, or the next period. */
  accepts(nonce: string): boolean;
}

/**
 * Makes nonces out of nothing but the time and a secret, so that nothing has to be stored or shared but that.
 * @param secret returns what is in force, the same for all replicas; at least 32 bytes nobody can guess. Nonces of
 * another one are not taken: whoever comes with one gets a new one (RFC 9449 §8)
 */
export function createDpopNonces(secret: () => string, clock: Clock): DpopNonces {
  const period = () => Math.floor(clock.now() / periodMs);
  const nonceOf = (number: number) => createHmac("sha256", secret()).update(`dpop-nonce ${number}`).digest("base64url");
  return {
    current: () => nonceOf(period()),
    accepts(nonce) {
      const given = Buffer.from(nonce);
      const current = period();
      return [current, current - 1, current + 1].some((number) => {
        const expected = Buffer.from(nonceOf(number));
        return given.length === expected.length && timingSafeEqual(given, expected);
      });
    },
  };
}
