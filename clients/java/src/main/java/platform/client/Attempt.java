package platform.client;

import io.grpc.CallOptions;
import io.grpc.Metadata;
import java.time.Duration;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What one sending of a call used, and what its answer said beside the message. */
final class Attempt {
  static final CallOptions.Key<Attempt> KEY = CallOptions.Key.create("platform.client.attempt");
  static final Metadata.Key<String> DPOP_NONCE = Metadata.Key.of("dpop-nonce", Metadata.ASCII_STRING_MARSHALLER);

  private static final Metadata.Key<String> CHALLENGE =
      Metadata.Key.of("www-authenticate", Metadata.ASCII_STRING_MARSHALLER);
  private static final Metadata.Key<String> CACHE_CONTROL =
      Metadata.Key.of("cache-control", Metadata.ASCII_STRING_MARSHALLER);
  private static final Pattern MAX_AGE = Pattern.compile("(?:^|[\\s,])max-age=([0-9]{1,9})(?:$|[\\s,])");

  /** Absent where the call never came so far, or carries none. */
  volatile AccessToken token;

  private volatile boolean isNonceDemanded;
  private volatile Duration maxAge;

  /** Takes note of headers or trailers. */
  void saw(Metadata metadata) {
    String challenge = metadata.get(CHALLENGE);
    // RFC 9449 section 9.
    if (challenge != null && challenge.contains("\"use_dpop_nonce\"") && metadata.containsKey(DPOP_NONCE))
      isNonceDemanded = true;
    String caching = metadata.get(CACHE_CONTROL);
    Matcher age = MAX_AGE.matcher(caching == null ? "" : caching);
    if (age.find()) maxAge = Duration.ofSeconds(Long.parseLong(age.group(1)));
  }

  boolean isNonceDemanded() {
    return isNonceDemanded;
  }

  /** How long the answer is good (RFC 9111 section 5.2.2.1), where it says so. */
  Optional<Duration> maxAge() {
    return Optional.ofNullable(maxAge);
  }
}
