package platform.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptors;
import io.grpc.ConnectivityState;
import io.grpc.Deadline;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import platform.sdk.v1.Caller;

/** Calls: each bounded in time, and sent again where that may help; and what streams need of them. */
final class Calls {
  private static final Metadata.Key<String> IDEMPOTENCY_KEY =
      Metadata.Key.of("idempotency-key", Metadata.ASCII_STRING_MARSHALLER);

  private final ManagedChannel connection;
  private final Channel channel;
  /** Null where calls carry no token; then no attempt has used one. */
  private final TokenSource tokens;

  private final Duration deadline;
  private final RetryPolicy retry;
  private final BiConsumer<PlatformException, Duration> onRetry;
  private final ReceiptDetail receipts;
  private final boolean isCallerGiven;
  /** The caller that receipts must name; null if that is not known. */
  private volatile Caller caller;

  /** An answer, and how long it is good where it says so. */
  record Answer<A>(A message, Optional<Duration> maxAge) {}

  Calls(ManagedChannel connection, Channel channel, PlatformClientBuilder settings) {
    this.connection = connection;
    this.channel = channel;
    this.tokens = settings.tokens;
    this.deadline = settings.deadline;
    this.retry = settings.retry;
    this.onRetry = settings.onRetry;
    this.receipts = settings.receipts;
    this.isCallerGiven = settings.caller != null;
    this.caller = settings.caller;
  }

  /** The receipts that are verified from now on are of this caller, but where the program has named one. */
  void keep(Caller named) {
    if (!isCallerGiven) caller = named;
  }

  /** Whether answers have receipts: where one is missing, what is in between may have cut it out. */
  boolean asksForReceipts() {
    return receipts != ReceiptDetail.NONE;
  }

  /** Refuses a brief receipt where a whole one was asked for: what is in between may have cut it out. */
  void requireAsked(VerifiedReceipt verified) {
    if (receipts == ReceiptDetail.WHOLE && verified.record().isEmpty())
      throw new ReceiptException("the receipt is a brief one, and a whole one was asked for");
  }

  /** Who this client is, as far as it knows, and when it sent something. */
  Sender sender(Optional<Instant> since) {
    return new Sender(Optional.ofNullable(caller), since);
  }

  /** Makes a call that may be retried. */
  <Q, A> Answer<A> call(MethodDescriptor<Q, A> method, Q request) {
    return send(channel, method, request);
  }

  /** Makes a call that records something: however often it is sent, it is recorded once. */
  <Q, A> A once(MethodDescriptor<Q, A> method, Q request, String idempotencyKey) {
    // What the service takes (1 to 128 visible characters); anything else would not survive as a header.
    if (!idempotencyKey.matches("[\\x21-\\x7e]{1,128}"))
      throw new IllegalArgumentException("an idempotency key has 1 to 128 visible characters");
    Metadata headers = new Metadata();
    headers.put(IDEMPOTENCY_KEY, idempotencyKey);
    Channel keyed = ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(headers));
    return send(keyed, method, request).message();
  }

  private <Q, A> Answer<A> send(Channel sender, MethodDescriptor<Q, A> method, Q request) {
    Deadline end = Deadline.after(deadline.toNanos(), TimeUnit.NANOSECONDS);
    boolean mayReplaceToken = true;
    boolean mayAnswerNonce = true;
    for (int attempts = 1; ; ) {
      Attempt attempt = new Attempt();
      CallOptions options = CallOptions.DEFAULT.withDeadline(end).withOption(Attempt.KEY, attempt);
      PlatformException problem;
      try {
        A answer = ClientCalls.blockingUnaryCall(sender, method, options, request);
        return new Answer<>(answer, attempt.maxAge());
      } catch (StatusRuntimeException error) {
        problem = PlatformException.of(error);
      }
      boolean hasExpired = attempt.token != null && hasExpired(problem);
      forgetToken(attempt, problem);
      if (mayAnswerNonce && attempt.isNonceDemanded()) {
        mayAnswerNonce = false;
      } else if (mayReplaceToken && hasExpired) {
        mayReplaceToken = false;
      } else {
        pause(problem, attempts, end);
        attempts++;
      }
    }
  }

  /** Waits before the next attempt. Throws the problem where there is none, or not in time. */
  private void pause(PlatformException problem, int attempts, Deadline end) {
    Duration pause = retry.pauseAfter(problem, attempts).orElseThrow(() -> problem);
    Duration left = Duration.ofNanos(end.timeRemaining(TimeUnit.NANOSECONDS));
    if (pause.compareTo(left) >= 0 || connection.isShutdown()) throw problem;
    onRetry.accept(problem, pause);
    try {
      TimeUnit.NANOSECONDS.sleep(pause.toNanos());
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new PlatformException(Status.Code.CANCELLED, "interrupted between attempts", stopped);
    }
    connectAtOnce();
  }

  /** A call without end, whose sending again is the caller's. */
  <Q, A> ClientCall<Q, A> begin(MethodDescriptor<Q, A> method, Attempt attempt) {
    return channel.newCall(method, CallOptions.DEFAULT.withOption(Attempt.KEY, attempt));
  }

  /** Sees to it that a token which was not taken is not used again. */
  void forgetToken(Attempt attempt, PlatformException problem) {
    AccessToken used = attempt.token;
    // One that is invalid fails the call: another is no better now, but is once the issuer has another key.
    if (used != null && (hasExpired(problem) || problem.reason().equals("invalid_token"))) tokens.refused(used);
  }

  /** Whether another token is all that it takes. */
  static boolean hasExpired(PlatformException problem) {
    return problem.reason().equals("expired_token");
  }

  /** A channel that could not connect refuses calls for a time of its own; how long to wait is decided here. */
  void connectAtOnce() {
    if (connection.getState(false) == ConnectivityState.TRANSIENT_FAILURE) connection.enterIdle();
  }

  boolean isShutdown() {
    return connection.isShutdown();
  }

  RetryPolicy retry() {
    return retry;
  }

  BiConsumer<PlatformException, Duration> onRetry() {
    return onRetry;
  }

  Duration deadline() {
    return deadline;
  }
}
