package platform.client;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A key that is trusted for a log: a verifier key of C2SP signed-note, Ed25519.
 *
 * @param name origin of the log
 * @param keyId 8 hexadecimal digits
 * @param maxTreeSize leaves of the largest tree for which it counts; empty where it was never retired
 */
record LogKey(String name, String keyId, PublicKey key, OptionalLong maxTreeSize) {
  private static final byte ED25519 = 1;
  private static final int SIGNATURE_BYTES = 64;
  private static final Pattern TEXT = Pattern.compile("([^+]+)\\+([0-9a-f]{8})\\+([^@]+)(?:@([0-9]+))?", Pattern.DOTALL);
  private static final Pattern NAME = Pattern.compile("[^\\s\\u00a0\\u2007\\u202f\\ufeff\\p{Z}+\\p{Cc}]+");
  /** What stands before the 32 bytes of a public key in DER (RFC 8410 section 4). */
  private static final byte[] SPKI_PREFIX = HexFormat.of().parseHex("302a300506032b6570032100");

  /** Reads {@code VKEY} or {@code VKEY@SIZE}. */
  static LogKey parse(String text) {
    Matcher parts = TEXT.matcher(text);
    if (!parts.matches() || !isName(parts.group(1))) throw unreadable();
    byte[] typed = TextForms.base64(parts.group(3)).orElseThrow(LogKey::unreadable);
    if (typed.length != 1 + 32 || typed[0] != ED25519) throw unreadable();
    String name = parts.group(1);
    if (!idOf(name, typed).equals(parts.group(2))) throw unreadable();
    String bound = parts.group(4);
    OptionalLong maxTreeSize = bound == null ? OptionalLong.empty() : TextForms.decimal(bound);
    if (bound != null && maxTreeSize.isEmpty()) throw unreadable();
    return new LogKey(name, parts.group(2), publicKey(Arrays.copyOfRange(typed, 1, typed.length)), maxTreeSize);
  }

  /** Key names are not empty and hold no space, no plus sign and no control character. */
  static boolean isName(String name) {
    return NAME.matcher(name).matches();
  }

  boolean verifies(byte[] text, byte[] signature) {
    // Java ignores what stands behind a signature (RFC 8032 section 5.1.7: it has 64 bytes).
    if (signature.length != SIGNATURE_BYTES) return false;
    try {
      Signature verifier = Signature.getInstance("Ed25519");
      verifier.initVerify(key);
      verifier.update(text);
      return verifier.verify(signature);
    } catch (GeneralSecurityException malformed) {
      return false;
    }
  }

  private static IllegalArgumentException unreadable() {
    return new IllegalArgumentException("the verifier key cannot be read");
  }

  /** First four bytes of the SHA-256 of name, newline, type and key. */
  private static String idOf(String name, byte[] typed) {
    byte[] hash = Hashes.sha256((name + "\n").getBytes(StandardCharsets.UTF_8), typed);
    return HexFormat.of().formatHex(hash, 0, 4);
  }

  private static PublicKey publicKey(byte[] raw) {
    byte[] spki = Arrays.copyOf(SPKI_PREFIX, SPKI_PREFIX.length + raw.length);
    System.arraycopy(raw, 0, spki, SPKI_PREFIX.length, raw.length);
    try {
      return KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(spki));
    } catch (GeneralSecurityException invalid) {
      throw new IllegalArgumentException("the verifier key cannot be read", invalid);
    }
  }
}
