package platform.client;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;

/** Those who want the same at once share one piece of work, its failure included. */
final class SingleFlight<T> {
  private final AtomicReference<CompletableFuture<T>> flight = new AtomicReference<>();

  /** Does the work, or waits for who does. The work looks again whether it is still needed. */
  T join(Supplier<T> work) {
    CompletableFuture<T> own = new CompletableFuture<>();
    CompletableFuture<T> running = flight.compareAndExchange(null, own);
    if (running != null) return resultOf(running);
    try {
      own.complete(work.get());
    } catch (RuntimeException | Error failure) {
      own.completeExceptionally(failure);
    } finally {
      flight.set(null);
    }
    return resultOf(own);
  }

  private static <T> T resultOf(CompletableFuture<T> done) {
    try {
      return done.join();
    } catch (CompletionException failed) {
      if (failed.getCause() instanceof RuntimeException failure) throw failure;
      throw failed;
    }
  }
}
