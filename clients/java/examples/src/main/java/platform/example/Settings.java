package platform.example;

import java.io.IOException;
import java.nio.file.Path;
import platform.client.Tls;

/** Where the platform is and who calls it: from the environment. Secrets never come from arguments. */
record Settings(
    String url,
    String issuer,
    String clientId,
    String clientSecret,
    String scope,
    Tls tls,
    String logKey) {

  static Settings fromEnvironment() throws IOException {
    return new Settings(
        required("URL"),
        required("ISSUER"),
        required("CLIENT_ID"),
        required("CLIENT_SECRET"),
        optional("SCOPE"),
        presented(),
        optional("LOG_KEY"));
  }

  /** Of no file where the service has no TLS, or where the machine's authorities and no certificate of one's own will do. */
  private static Tls presented() throws IOException {
    return Tls.fromPem(file("CA"), file("CERT"), file("KEY"));
  }

  private static Path file(String name) {
    return optional(name).isEmpty() ? null : Path.of(optional(name));
  }

  private static String required(String name) {
    String value = optional(name);
    if (value.isEmpty()) throw new IllegalArgumentException("PLATFORM_" + name + " is not set");
    return value;
  }

  private static String optional(String name) {
    return System.getenv().getOrDefault("PLATFORM_" + name, "");
  }
}
