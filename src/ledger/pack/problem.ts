/** What is wrong with a pack. */
export class PackError extends Error {
  override readonly name = "PackError";
}

/** Refuses the pack because of one of its lines, counted from 1. */
export function refuse(line: number, reason: string): never {
  throw new PackError(`line ${line}: ${reason}`);
}
