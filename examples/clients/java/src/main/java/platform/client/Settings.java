package platform.client;

import java.net.URI;
import java.nio.file.Path;

/** Where the platform is and who calls it: from the environment. Secrets never come from arguments. */
record Settings(
    URI url, String issuer, String clientId, String clientSecret, String scope, Path ca, Path cert, Path key) {

  static Settings fromEnvironment() {
    return new Settings(
        URI.create(required("URL")),
        required("ISSUER"),
        required("CLIENT_ID"),
        required("CLIENT_SECRET"),
        System.getenv().getOrDefault("PLATFORM_SCOPE", ""),
        Path.of(required("CA")),
        Path.of(required("CERT")),
        Path.of(required("KEY")));
  }

  private static String required(String name) {
    String value = System.getenv("PLATFORM_" + name);
    if (value == null || value.isEmpty()) throw new IllegalArgumentException("PLATFORM_" + name + " is not set");
    return value;
  }
}
