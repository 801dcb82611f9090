/** Hashes a file in the browser, piece by piece: nothing of it leaves the machine, and it may be larger than memory. */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";

/** Returns `sha256:` and the hexadecimal digest. Reports the bytes that were read. */
export async function digestOf(file: Blob, onProgress: (bytes: number) => void = () => {}): Promise<string> {
  const hash = sha256.create();
  const reader = file.stream().getReader();
  let read = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    hash.update(part.value);
    read += part.value.length;
    onProgress(read);
  }
  return `sha256:${bytesToHex(hash.digest())}`;
}
