package platform.client;

import java.time.Instant;
import java.util.Optional;
import platform.sdk.v1.Caller;

/**
 * Who sent a request, and when: the caller and the time of its record are compared with them.
 *
 * @param caller as {@link PlatformClient#whoAmI} answered; empty where it is not known, and then it is not compared
 * @param since when the request was first sent, up to five minutes; empty where that is not known, as of a registration or an
 *     event that may have been recorded before under the program's own idempotency key
 */
public record Sender(Optional<Caller> caller, Optional<Instant> since) {
  /** Nothing is known of it. */
  public static final Sender UNKNOWN = new Sender(Optional.empty(), Optional.empty());
}
