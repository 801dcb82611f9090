package platform.client;

import com.google.rpc.RetryInfo;
import io.grpc.Deadline;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.AbstractStub;
import io.grpc.stub.MetadataUtils;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/** One call: bounded in time, and tried again where that may help. */
final class Calls {
  private static final Metadata.Key<String> IDEMPOTENCY_KEY =
      Metadata.Key.of("idempotency-key", Metadata.ASCII_STRING_MARSHALLER);

  /** Covers all attempts. */
  private static final Duration TIMEOUT = Duration.ofSeconds(30);

  private static final long BASE_DELAY_MILLIS = 250;
  private static final long MAX_DELAY_MILLIS = 4_000;

  private Calls() {}

  /** Makes a call that may be made again: what it asks is asked anew. */
  static <S extends AbstractStub<S>, A> A call(S stub, Function<S, A> method) throws InterruptedException {
    return retry(stub, method);
  }

  /** Makes a call that records something: however often it is sent, it is recorded once. */
  static <S extends AbstractStub<S>, A> A once(S stub, Function<S, A> method) throws InterruptedException {
    Metadata headers = new Metadata();
    headers.put(IDEMPOTENCY_KEY, UUID.randomUUID().toString());
    return retry(stub.withInterceptors(MetadataUtils.newAttachHeadersInterceptor(headers)), method);
  }

  private static <S extends AbstractStub<S>, A> A retry(S stub, Function<S, A> method) throws InterruptedException {
    Deadline deadline = Deadline.after(TIMEOUT.toMillis(), TimeUnit.MILLISECONDS);
    long bound = BASE_DELAY_MILLIS;
    while (true) {
      try {
        return method.apply(stub.withDeadline(deadline));
      } catch (StatusRuntimeException error) {
        long pause = retryDelayMillis(error) + ThreadLocalRandom.current().nextLong(bound);
        boolean inTime = pause < deadline.timeRemaining(TimeUnit.MILLISECONDS);
        if (!mayRetry(error) || !inTime) throw error;
        System.err.printf("%s; trying again in %d ms%n", error.getStatus().getDescription(), pause);
        Thread.sleep(pause);
        bound = Math.min(2 * bound, MAX_DELAY_MILLIS);
      }
    }
  }

  private static boolean mayRetry(StatusRuntimeException error) {
    Status.Code code = error.getStatus().getCode();
    return code == Status.Code.UNAVAILABLE
        || (code == Status.Code.RESOURCE_EXHAUSTED && retryDelayMillis(error) > 0);
  }

  /** From google.rpc.RetryInfo; 0 where the service does not say. */
  private static long retryDelayMillis(StatusRuntimeException error) {
    return Problems.detail(error, RetryInfo.class)
        .map(info -> Duration.ofSeconds(info.getRetryDelay().getSeconds(), info.getRetryDelay().getNanos()).toMillis())
        .orElse(0L);
  }
}
