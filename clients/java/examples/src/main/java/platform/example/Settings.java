package platform.example;

import java.nio.file.Path;

/** Where the platform is and who calls it: from the environment. Secrets never come from arguments. */
record Settings(
    String url,
    String issuer,
    String clientId,
    String clientSecret,
    String scope,
    Path ca,
    Path cert,
    Path key,
    String logKey) {

  static Settings fromEnvironment() {
    return new Settings(
        required("URL"),
        required("ISSUER"),
        required("CLIENT_ID"),
        required("CLIENT_SECRET"),
        optional("SCOPE"),
        Path.of(required("CA")),
        Path.of(required("CERT")),
        Path.of(required("KEY")),
        optional("LOG_KEY"));
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
