package platform.client;

import io.grpc.ChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Trusted authorities and the certificate to present, for the service and the issuer. From PEM, read once. */
public final class Tls {
  private static final char[] NO_PASSWORD = new char[0];
  /** RFC 7468 section 10. */
  private static final Pattern PKCS8 = Pattern.compile("-----BEGIN PRIVATE KEY-----([^-]+)-----END PRIVATE KEY-----");

  private final ChannelCredentials channelCredentials;
  private final SSLContext context;
  private final boolean hasCertificate;

  private Tls(byte[] authorities, byte[] certificate, byte[] key) throws IOException {
    this.hasCertificate = certificate != null;
    TlsChannelCredentials.Builder channel = TlsChannelCredentials.newBuilder();
    if (authorities != null) channel.trustManager(new ByteArrayInputStream(authorities));
    if (hasCertificate) channel.keyManager(new ByteArrayInputStream(certificate), new ByteArrayInputStream(key));
    this.channelCredentials = channel.build();
    try {
      this.context = SSLContext.getInstance("TLS");
      context.init(
          hasCertificate ? keyManagers(certificate, key) : null,
          authorities == null ? null : trustManagers(authorities).getTrustManagers(),
          null);
    } catch (GeneralSecurityException unreadable) {
      throw new IllegalArgumentException("a certificate or key cannot be used: " + unreadable.getMessage(), unreadable);
    }
  }

  /**
   * Trusts the machine's authorities, and presents no certificate.
   *
   * @return what every client begins with
   */
  public static Tls systemTrust() {
    try {
      return new Tls(null, null, null);
    } catch (IOException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /**
   * Trusts these authorities alone, and presents no certificate.
   *
   * @param authorities PEM file of certificates
   * @return to be given to the client and the token source
   * @throws IOException where the file cannot be read
   * @throws IllegalArgumentException where it holds something else
   */
  public static Tls fromPem(Path authorities) throws IOException {
    return new Tls(Files.readAllBytes(authorities), null, null);
  }

  /**
   * Trusts these authorities alone, and presents a certificate. Tokens that are bound to it (RFC 8705) come with it from
   * the issuer.
   *
   * @param authorities PEM file of certificates; null for the machine's authorities
   * @param certificate PEM file of the certificate, and of those that lead to its authority; null for no certificate
   * @param key PEM file of its private key, PKCS #8 without a password; null for no certificate
   * @return to be given to the client and the token source
   * @throws IOException if a file cannot be read
   * @throws IllegalArgumentException if one holds something else, or a certificate comes without a key or a key without one
   */
  public static Tls fromPem(Path authorities, Path certificate, Path key) throws IOException {
    if ((certificate == null) != (key == null))
      throw new IllegalArgumentException("a certificate and its key are both given, or neither is");
    return new Tls(read(authorities), read(certificate), read(key));
  }

  private static byte[] read(Path file) throws IOException {
    return file == null ? null : Files.readAllBytes(file);
  }

  ChannelCredentials channelCredentials() {
    return channelCredentials;
  }

  SSLContext context() {
    return context;
  }

  boolean hasCertificate() {
    return hasCertificate;
  }

  private static TrustManagerFactory trustManagers(byte[] authorities) throws IOException, GeneralSecurityException {
    KeyStore store = emptyStore();
    int number = 0;
    for (Certificate authority : certificates(authorities)) store.setCertificateEntry("ca" + number++, authority);
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(store);
    return trust;
  }

  private static KeyManager[] keyManagers(byte[] certificate, byte[] key) throws IOException, GeneralSecurityException {
    KeyStore store = emptyStore();
    store.setKeyEntry("own", privateKey(key), NO_PASSWORD, certificates(certificate));
    KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    keys.init(store, NO_PASSWORD);
    return keys.getKeyManagers();
  }

  private static KeyStore emptyStore() throws IOException, GeneralSecurityException {
    KeyStore store = KeyStore.getInstance("PKCS12");
    store.load(null, null);
    return store;
  }

  private static Certificate[] certificates(byte[] pem) throws GeneralSecurityException {
    Certificate[] certificates =
        CertificateFactory.getInstance("X.509")
            .generateCertificates(new ByteArrayInputStream(pem))
            .toArray(Certificate[]::new);
    if (certificates.length == 0) throw new IllegalArgumentException("the PEM file holds no certificate");
    return certificates;
  }

  private static PrivateKey privateKey(byte[] pem) throws GeneralSecurityException {
    Matcher block = PKCS8.matcher(new String(pem, StandardCharsets.US_ASCII));
    if (!block.find()) throw new IllegalArgumentException("the PEM file holds no PRIVATE KEY (PKCS #8, without a password)");
    PKCS8EncodedKeySpec encoded = new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(block.group(1)));
    for (String algorithm : List.of("EC", "RSA", "EdDSA")) {
      try {
        return KeyFactory.getInstance(algorithm).generatePrivate(encoded);
      } catch (InvalidKeySpecException other) {
        // The next one.
      }
    }
    throw new IllegalArgumentException("the private key is neither EC nor RSA nor EdDSA");
  }
}
