/** The form in which JSON answers are written. */

declare const brand: unique symbol;

/**
 * UTF-8 bytes as text of one character (U+0000 to U+00FF) a byte: to be written as `latin1`, and its length is its size
 * in bytes. It is no text for anybody to read. Node writes it together with the headers, as it does any text, and
 * several times as fast as one with a character beyond U+00FF in it: the signature lines of a proof have one.
 */
export type ByteText = string & { readonly [brand]: "ByteText" };

/** The bytes of a text. A lone surrogate becomes U+FFFD. */
export function toByteText(text: string): ByteText {
  return (isAscii(text) ? text : Buffer.from(text).toString("latin1")) as ByteText;
}

/** Whether every character is of ASCII, so that the text is its own `ByteText`. */
export function isAscii(text: string): boolean {
  return Buffer.byteLength(text) === text.length;
}
