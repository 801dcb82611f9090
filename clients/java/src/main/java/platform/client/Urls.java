package platform.client;

import java.net.URI;
import java.util.Set;

/** Where tokens and secrets may be sent. */
final class Urls {
  private static final Set<String> LOOPBACK = Set.of("localhost", "127.0.0.1", "[::1]");

  private Urls() {}

  /** Reads a URL that is https, or of this machine. Throws an IllegalArgumentException for any other. */
  static URI secure(String text) {
    URI url = URI.create(text);
    String host = url.getHost();
    boolean isSecure =
        "https".equals(url.getScheme()) || ("http".equals(url.getScheme()) && LOOPBACK.contains(String.valueOf(host)));
    if (host == null || url.getUserInfo() != null || !isSecure)
      throw new IllegalArgumentException("the URL is neither https nor of this machine: " + text);
    return url;
  }
}
