package platform.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import platform.sdk.v1.Caller;
import platform.sdk.v1.DiscoveryServiceGrpc;
import platform.sdk.v1.WhoAmIRequest;
import platform.sdk.v1.WhoAmIResponse;

/** What the conformance suite does not see: it has one token source, waiting calls only, and no threads that are stopped. */
class PlatformClientTest {
  private static final Context.Key<String> SENT = Context.key("authorization");
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  /** Reasons that the next calls are refused for; the others are answered with the token that came, as the subject. */
  private final Queue<String> refusals = new ConcurrentLinkedQueue<>();

  private final CountingTokens tokens = new CountingTokens();
  private Server server;

  @BeforeEach
  void start() throws IOException {
    server =
        Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
            .addService(new Discovery())
            .intercept(new TokenReader())
            .build()
            .start();
  }

  @AfterEach
  void stop() {
    server.shutdownNow();
  }

  @Test
  void aTokenThatIsRefusedIsNotUsedForTheNextCall() {
    try (PlatformClient client = client().build()) {
      refusals.add("invalid_token");
      PlatformException problem = assertThrows(PlatformException.class, client::whoAmI);
      assertEquals("invalid_token", problem.reason());
      // A stack trace alone shows the reason.
      assertTrue(problem.getMessage().startsWith("UNAUTHENTICATED (invalid_token): "), problem.getMessage());
      assertEquals(1, tokens.made.get());
      assertEquals("Bearer token-2", client.whoAmI().getCaller().getSubject());
    }
  }

  @Test
  void generatedStubsOfAnyKindCarryTheToken() throws ExecutionException, InterruptedException {
    try (PlatformClient client = client().build()) {
      WhoAmIResponse answer =
          DiscoveryServiceGrpc.newFutureStub(client.channel()).whoAmI(WhoAmIRequest.getDefaultInstance()).get();
      assertEquals("Bearer token-1", answer.getCaller().getSubject());
    }
  }

  @Test
  void aThreadThatIsStoppedBetweenAttemptsEndsItsCallAndStaysStopped() {
    refusals.addAll(List.of("store_unavailable", "store_unavailable"));
    PlatformClientBuilder builder =
        client()
            .retry(new RetryPolicy(3, Duration.ofHours(1), Duration.ofHours(1)))
            .deadline(Duration.ofHours(2))
            .onRetry((problem, pause) -> Thread.currentThread().interrupt());
    try (PlatformClient client = builder.build()) {
      PlatformException problem = assertThrows(PlatformException.class, client::whoAmI);
      assertEquals(Status.Code.CANCELLED, problem.code());
      assertTrue(Thread.interrupted());
    }
  }

  @Test
  void whatATokenSourceThrowsIsWhatTheCallThrows() {
    PlatformException cause = new PlatformException(Status.Code.PERMISSION_DENIED, "no vault", null);
    tokens.failure = cause;
    try (PlatformClient client = client().build()) {
      assertEquals(cause, assertThrows(PlatformException.class, client::whoAmI));
    }
  }

  @Test
  void secretsGoNowhereInTheClear() {
    for (String url : List.of("http://platform.example.com", "ftp://localhost", "https://user@localhost", "localhost:80"))
      assertThrows(IllegalArgumentException.class, () -> PlatformClient.builder(url), url);
    assertThrows(IllegalArgumentException.class, () -> PlatformClient.builder("https://localhost/path"));
    assertThrows(IllegalArgumentException.class, () -> ClientCredentials.builder("http://issuer.example.com", "id"));
    assertEquals("Bearer token", AccessToken.bearer("secret").toString());
  }

  private PlatformClientBuilder client() {
    return PlatformClient.builder("http://localhost:" + server.getPort()).tokens(tokens);
  }

  private static final class CountingTokens implements TokenSource {
    final AtomicInteger made = new AtomicInteger();
    volatile PlatformException failure;
    private AccessToken held;

    @Override
    public synchronized AccessToken token() {
      if (failure != null) throw failure;
      if (held == null) held = AccessToken.bearer("token-" + made.incrementAndGet());
      return held;
    }

    @Override
    public synchronized void refused(AccessToken token) {
      if (held == token) held = null;
    }
  }

  private final class Discovery extends DiscoveryServiceGrpc.DiscoveryServiceImplBase {
    @Override
    public void whoAmI(WhoAmIRequest request, StreamObserver<WhoAmIResponse> answers) {
      String reason = refusals.poll();
      if (reason == null) {
        answers.onNext(WhoAmIResponse.newBuilder().setCaller(Caller.newBuilder().setSubject(SENT.get())).build());
        answers.onCompleted();
        return;
      }
      Status.Code code = reason.endsWith("_token") ? Status.Code.UNAUTHENTICATED : Status.Code.UNAVAILABLE;
      answers.onError(
          StatusProto.toStatusRuntimeException(
              com.google.rpc.Status.newBuilder()
                  .setCode(code.value())
                  .addDetails(Any.pack(ErrorInfo.newBuilder().setReason(reason).build()))
                  .build()));
    }
  }

  private static final class TokenReader implements ServerInterceptor {
    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
      Context context = Context.current().withValue(SENT, headers.get(AUTHORIZATION));
      return Contexts.interceptCall(context, call, headers, next);
    }
  }
}
