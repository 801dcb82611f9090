package platform.client;

import java.util.Base64;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.regex.Pattern;

/** Base64 (RFC 4648 section 4) and numbers, read strictly: one text for every value. */
final class TextForms {
  /** 2^53 - 1. */
  private static final long MAX_NUMBER = 9_007_199_254_740_991L;

  private static final Pattern DECIMAL = Pattern.compile("0|[1-9][0-9]{0,15}");

  private TextForms() {}

  /** Bytes of a padded text; empty for any other text. */
  static Optional<byte[]> base64(String text) {
    try {
      byte[] bytes = Base64.getDecoder().decode(text);
      // Java's reader takes texts without padding, and bits that are dropped.
      return Base64.getEncoder().encodeToString(bytes).equals(text) ? Optional.of(bytes) : Optional.empty();
    } catch (IllegalArgumentException none) {
      return Optional.empty();
    }
  }

  /** 32 bytes in base64. */
  static Optional<byte[]> hash(String text) {
    return base64(text).filter(bytes -> bytes.length == Hashes.SIZE_BYTES);
  }

  /** A decimal number without needless zeros, up to 2^53 - 1. */
  static OptionalLong decimal(String text) {
    if (!DECIMAL.matcher(text).matches()) return OptionalLong.empty();
    long number = Long.parseLong(text);
    return number <= MAX_NUMBER ? OptionalLong.of(number) : OptionalLong.empty();
  }
}
