/** Reads exact numbers of bytes from the start of a stream, and then the rest. */
export class ByteReader {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #left: Uint8Array = new Uint8Array(0);

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#chunks = source[Symbol.asyncIterator]();
  }

  /** Reads so many bytes; fewer only at the end of the stream. */
  async read(sizeBytes: number): Promise<Buffer> {
    const parts: Uint8Array[] = [];
    let missing = sizeBytes;
    while (missing > 0) {
      if (this.#left.length === 0) {
        const next = await this.#chunks.next();
        if (next.done === true) break;
        this.#left = next.value;
        continue;
      }
      const part = this.#left.subarray(0, missing);
      // The stream may reuse its buffer.
      parts.push(Uint8Array.from(part));
      this.#left = this.#left.subarray(part.length);
      missing -= part.length;
    }
    return Buffer.concat(parts);
  }

  /** The rest of the stream, which ends if iteration stops early. */
  async *rest(): AsyncGenerator<Uint8Array> {
    try {
      if (this.#left.length > 0) yield this.#left;
      for (;;) {
        const next = await this.#chunks.next();
        if (next.done === true) return;
        yield next.value;
      }
    } finally {
      await this.#chunks.return?.();
    }
  }
}
