package platform.client;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** PEM files as what Java's own HTTP client takes. gRPC reads them itself. */
final class Tls {
  private static final char[] NO_PASSWORD = new char[0];

  private Tls() {}

  static SSLContext context(Settings settings) throws IOException, GeneralSecurityException {
    KeyStore authorities = emptyStore();
    int number = 0;
    for (Certificate authority : certificates(settings.ca())) authorities.setCertificateEntry("ca" + number++, authority);
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(authorities);

    KeyStore own = emptyStore();
    own.setKeyEntry("own", privateKey(settings.key()), NO_PASSWORD, certificates(settings.cert()));
    KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    keys.init(own, NO_PASSWORD);

    SSLContext context = SSLContext.getInstance("TLS");
    context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
    return context;
  }

  private static KeyStore emptyStore() throws IOException, GeneralSecurityException {
    KeyStore store = KeyStore.getInstance("PKCS12");
    store.load(null, null);
    return store;
  }

  private static Certificate[] certificates(Path pem) throws IOException, GeneralSecurityException {
    CertificateFactory factory = CertificateFactory.getInstance("X.509");
    return factory
        .generateCertificates(new ByteArrayInputStream(Files.readAllBytes(pem)))
        .toArray(Certificate[]::new);
  }

  /** PKCS #8, which is what a PEM file with the label PRIVATE KEY holds (RFC 7468 section 10). */
  private static PrivateKey privateKey(Path pem) throws IOException, GeneralSecurityException {
    String base64 = Files.readString(pem).replaceAll("-----[A-Z ]+-----|\\s", "");
    PKCS8EncodedKeySpec encoded = new PKCS8EncodedKeySpec(Base64.getDecoder().decode(base64));
    try {
      return KeyFactory.getInstance("EC").generatePrivate(encoded);
    } catch (GeneralSecurityException notElliptic) {
      return KeyFactory.getInstance("RSA").generatePrivate(encoded);
    }
  }
}
