package platform.client;

import java.time.Duration;
import java.util.function.Supplier;

/** An answer that is kept for a time, and asked for again after it. */
final class Kept<T> {
  /** An answer, and for how long it is good. */
  record Answer<T>(T value, Duration lifetime) {}

  private record Held<T>(T value, long staleAtNanos) {
    boolean isFresh() {
      return System.nanoTime() - staleAtNanos < 0;
    }
  }

  private final Supplier<Answer<T>> ask;
  private final SingleFlight<Held<T>> flight = new SingleFlight<>();
  private volatile Held<T> held;

  Kept(Supplier<Answer<T>> ask) {
    this.ask = ask;
  }

  /** The kept answer, or a new one. What is stale is never returned, not even where there is no new one to be had. */
  T get() {
    Held<T> known = held;
    return known != null && known.isFresh() ? known.value() : flight.join(this::refresh).value();
  }

  private Held<T> refresh() {
    Held<T> known = held;
    if (known != null && known.isFresh()) return known;
    long askedAtNanos = System.nanoTime();
    Answer<T> answer = ask.get();
    held = new Held<>(answer.value(), askedAtNanos + answer.lifetime().toNanos());
    return held;
  }
}
