package platform.client;

import io.grpc.Status;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;

/**
 * When a call is sent again: after {@code UNAVAILABLE}, and after {@code RESOURCE_EXHAUSTED} where the service says how
 * long to wait. The pause is random below a bound that doubles, on top of what the service asks for.
 *
 * @param maxAttempts how often a call is sent at most, the first time included; 1 for never again
 * @param initialBackoff bound of the first pause
 * @param maxBackoff bound of the longest pause that is chosen here
 */
public record RetryPolicy(int maxAttempts, Duration initialBackoff, Duration maxBackoff) {
  /** Four attempts, from 100 milliseconds to 5 seconds. */
  public static final RetryPolicy DEFAULT = new RetryPolicy(4, Duration.ofMillis(100), Duration.ofSeconds(5));

  /**
   * Checks the numbers.
   *
   * @param maxAttempts 1 or more
   * @param initialBackoff nothing or more
   * @param maxBackoff nothing or more
   * @throws IllegalArgumentException where there is no attempt, or a pause is negative
   */
  public RetryPolicy {
    if (maxAttempts < 1) throw new IllegalArgumentException("maxAttempts is less than 1");
    if (initialBackoff.isNegative() || maxBackoff.isNegative()) throw new IllegalArgumentException("a backoff is negative");
  }

  /** How long to wait before the call is sent again; empty where it is not. */
  Optional<Duration> pauseAfter(PlatformException problem, int attempts) {
    if (attempts >= maxAttempts || !mayHelp(problem)) return Optional.empty();
    return Optional.of(pause(problem, attempts));
  }

  /** The pause after the attempt, counted from 1, however many there are. */
  Duration pause(PlatformException problem, int attempts) {
    long boundNanos = (long) Math.min(maxBackoff.toNanos(), initialBackoff.toNanos() * Math.pow(2, attempts - 1));
    // Spreads clients even if the service tells all to retry at the same time.
    long spreadNanos = ThreadLocalRandom.current().nextLong(boundNanos + 1);
    return problem.retryAfter().orElse(Duration.ZERO).plusNanos(spreadNanos);
  }

  static boolean mayHelp(PlatformException problem) {
    return problem.code() == Status.Code.UNAVAILABLE
        || (problem.code() == Status.Code.RESOURCE_EXHAUSTED && problem.retryAfter().isPresent());
  }
}
