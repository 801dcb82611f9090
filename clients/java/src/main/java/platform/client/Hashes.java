package platform.client;

import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** SHA-256 and what is built on it. */
final class Hashes {
  static final int SIZE_BYTES = 32;

  private Hashes() {}

  /** SHA-256 of the parts, one after the other. */
  static byte[] sha256(byte[]... parts) {
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      for (byte[] part : parts) digest.update(part);
      return digest.digest();
    } catch (NoSuchAlgorithmException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  static byte[] hmacSha256(byte[] key, byte[]... parts) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(key, "HmacSHA256"));
      for (byte[] part : parts) mac.update(part);
      return mac.doFinal();
    } catch (GeneralSecurityException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /** HKDF-SHA256 (RFC 5869) without salt, for one key of 32 bytes. */
  static byte[] hkdfSha256(byte[] secret, byte[] info) {
    byte[] extracted = hmacSha256(new byte[SIZE_BYTES], secret);
    return hmacSha256(extracted, info, new byte[] {1});
  }
}
