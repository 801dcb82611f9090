/** Numbers that a seed repeats, and what is drawn from them. */

export interface Random {
  /** A whole number from 0 up to `below`, which it excludes. */
  below(below: number): number;
  /** True in `share` of all cases. */
  chance(share: number): boolean;
  pick<T>(from: readonly T[]): T;
  bytes(length: number): Buffer;
}

/** Draws for the one of many that has this number: each can be had again without the others (mulberry32). */
export function randomOf(seed: number, number: number): Random {
  let state = (Math.imul(seed, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b)) | 0;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  const below = (limit: number) => Math.floor((next() / 2 ** 32) * limit);
  return {
    below,
    chance: (share) => next() / 2 ** 32 < share,
    pick: (from) => from[below(from.length)] as never,
    bytes: (length) => {
      const bytes = Buffer.allocUnsafe(length);
      for (let i = 0; i < length; i++) bytes[i] = next() & 0xff;
      return bytes;
    },
  };
}

/** Bytes that mean something to a parser, and that it should not meet where they are not meant. */
const telling = [
  "\r",
  "\n",
  "\r\n",
  "\0",
  " ",
  "\t",
  ":",
  ";",
  "%",
  ",",
  "\x7f",
  "\x80",
  "\xff",
  "-1",
  "ffffffffffffffff",
];

/** The same bytes with some of them changed, left out, doubled, put in or cut off. */
export function mutated(bytes: Buffer, random: Random): Buffer {
  let result = bytes;
  for (let times = 1 + random.below(3); times > 0 && result.length > 0; times--) {
    const at = random.below(result.length);
    const end = Math.min(result.length, at + 1 + random.below(16));
    const [before, here, after] = [result.subarray(0, at), result.subarray(at, end), result.subarray(end)];
    switch (random.below(6)) {
      case 0: {
        const copy = Buffer.from(result);
        copy[at] = (copy[at] as number) ^ (1 << random.below(8));
        result = copy;
        break;
      }
      case 1:
        result = Buffer.concat([before, after]);
        break;
      case 2:
        result = Buffer.concat([before, here, here, after]);
        break;
      case 3:
        result = Buffer.concat([before, Buffer.from(random.pick(telling), "latin1"), here, after]);
        break;
      case 4:
        result = Buffer.concat([before, random.bytes(here.length), after]);
        break;
      default:
        result = before;
    }
  }
  return result;
}
