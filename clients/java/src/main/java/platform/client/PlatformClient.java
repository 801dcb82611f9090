package platform.client;

import com.google.protobuf.Message;
import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.ClientInterceptors;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import platform.sdk.v1.DiscoveryServiceGrpc;
import platform.sdk.v1.EvidenceServiceGrpc;
import platform.sdk.v1.GetBootstrapRequest;
import platform.sdk.v1.GetBootstrapResponse;
import platform.sdk.v1.GetCapabilitiesRequest;
import platform.sdk.v1.GetCapabilitiesResponse;
import platform.sdk.v1.PlanKeyAccessRequest;
import platform.sdk.v1.PlanKeyAccessResponse;
import platform.sdk.v1.PlanProtectionRequest;
import platform.sdk.v1.PlanProtectionResponse;
import platform.sdk.v1.ProtectionServiceGrpc;
import platform.sdk.v1.Receipt;
import platform.sdk.v1.RecordEvidenceRequest;
import platform.sdk.v1.RecordEvidenceResponse;
import platform.sdk.v1.RegisterArtifactRequest;
import platform.sdk.v1.RegisterArtifactResponse;
import platform.sdk.v1.RegistrationServiceGrpc;
import platform.sdk.v1.ResolvePolicyRequest;
import platform.sdk.v1.ResolvePolicyResponse;
import platform.sdk.v1.WhoAmIRequest;
import platform.sdk.v1.WhoAmIResponse;

/**
 * The calls of the platform, over one gRPC connection, for any number of threads. Each waits for its answer, at most
 * until the deadline; each throws a {@link PlatformException} where there is none, and a {@link ReceiptException} where log
 * keys were given and the answer's receipt does not verify. A denial is an answer.
 */
public final class PlatformClient extends BulkCalls implements AutoCloseable {
  private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(5);
  /** The whole receipts of a thousand items. */
  private static final int MAX_ANSWER_BYTES = 64 << 20;

  private static final GetCapabilitiesRequest CAPABILITIES = GetCapabilitiesRequest.getDefaultInstance();
  private static final GetBootstrapRequest BOOTSTRAP = GetBootstrapRequest.getDefaultInstance();

  private final ManagedChannel connection;
  private final AttemptInterceptor attempts;
  private final Channel channel;
  private final Calls calls;
  private final List<String> logKeys;
  private final Kept<GetCapabilitiesResponse> capabilities;
  private final Kept<GetBootstrapResponse> bootstrap;

  PlatformClient(PlatformClientBuilder settings) {
    super(new Understood(settings.understood));
    URI url = settings.baseUrl;
    boolean isPlaintext = "http".equals(url.getScheme());
    ChannelCredentials credentials =
        isPlaintext ? InsecureChannelCredentials.create() : settings.tls.channelCredentials();
    int port = url.getPort() >= 0 ? url.getPort() : isPlaintext ? 80 : 443;
    // One place decides what is sent again: Calls.
    this.connection =
        Grpc.newChannelBuilderForAddress(url.getHost(), port, credentials)
            .disableRetry()
            .maxInboundMessageSize(MAX_ANSWER_BYTES)
            // A peer that is gone without a word is noticed while anything waits for it: no deadline bounds a stream.
            .keepAliveTime(settings.pingAfter.toMillis(), TimeUnit.MILLISECONDS)
            .keepAliveTimeout(settings.pingTimeout.toMillis(), TimeUnit.MILLISECONDS)
            .build();
    this.attempts = new AttemptInterceptor(url, settings.tokens, settings.receipts);
    this.channel = ClientInterceptors.intercept(connection, attempts);
    this.calls = new Calls(connection, channel, settings);
    this.logKeys = settings.logKeys;
    Duration maxAge = settings.discoveryMaxAge;
    this.capabilities = kept(DiscoveryServiceGrpc.getGetCapabilitiesMethod(), CAPABILITIES, maxAge);
    this.bootstrap = kept(DiscoveryServiceGrpc.getGetBootstrapMethod(), BOOTSTRAP, maxAge);
  }

  /**
   * Begins a client.
   *
   * @param baseUrl such as {@code https://platform.example.com}
   * @return to be completed
   * @throws IllegalArgumentException for a URL that has a path, or is neither https nor of this machine
   */
  public static PlatformClientBuilder builder(String baseUrl) {
    return new PlatformClientBuilder(baseUrl);
  }

  /**
   * Who this program is to the service. The receipts that this client verifies from then on must be of this caller,
   * unless {@link PlatformClientBuilder#caller} names one.
   *
   * @return the answer
   */
  public WhoAmIResponse whoAmI() {
    WhoAmIResponse answer =
        calls.call(DiscoveryServiceGrpc.getWhoAmIMethod(), WhoAmIRequest.getDefaultInstance()).message();
    if (answer.hasCaller()) calls.keep(answer.getCaller());
    return answer;
  }

  /**
   * What the deployment offers, asked now.
   *
   * @return the answer
   */
  public GetCapabilitiesResponse getCapabilities() {
    return calls.call(DiscoveryServiceGrpc.getGetCapabilitiesMethod(), CAPABILITIES).message();
  }

  /**
   * How the deployment is to be worked with, asked now.
   *
   * @return the answer
   */
  public GetBootstrapResponse getBootstrap() {
    return calls.call(DiscoveryServiceGrpc.getGetBootstrapMethod(), BOOTSTRAP).message();
  }

  /**
   * What the deployment offers, asked at most once in a time. Threads that ask at once share a call.
   *
   * @return the kept answer, or a new one; never a stale one
   */
  public GetCapabilitiesResponse cachedCapabilities() {
    return capabilities.get();
  }

  /**
   * How the deployment is to be worked with, asked at most once in a time. Threads that ask at once share a call.
   *
   * @return the kept answer, or a new one; never a stale one
   */
  public GetBootstrapResponse cachedBootstrap() {
    return bootstrap.get();
  }

  /**
   * May this be protected or opened, and how. Asked again, it is decided and recorded again.
   *
   * @param request names the obligations that are understood, where it lists none, as the client was told
   * @return the answer
   */
  public PlanProtectionResponse planProtection(PlanProtectionRequest request) {
    PlanProtectionRequest.Builder complete = request.toBuilder();
    if (request.getUnderstoodObligationsCount() == 0) complete.addAllUnderstoodObligations(understood.ids());
    return decided(ProtectionServiceGrpc.getPlanProtectionMethod(), complete.build());
  }

  /**
   * What policy says. Asked again, it is decided and recorded again.
   *
   * @param request names the obligations that are understood, where it lists none, as the client was told
   * @return the answer
   */
  public ResolvePolicyResponse resolvePolicy(ResolvePolicyRequest request) {
    ResolvePolicyRequest.Builder complete = request.toBuilder();
    if (request.getUnderstoodObligationsCount() == 0) complete.addAllUnderstoodObligations(understood.ids());
    return decided(ProtectionServiceGrpc.getResolvePolicyMethod(), complete.build());
  }

  /**
   * May a key be used, and how. Asked again, it is decided and recorded again.
   *
   * @param request names the obligations that are understood, where it lists none, as the client was told
   * @return the answer
   */
  public PlanKeyAccessResponse planKeyAccess(PlanKeyAccessRequest request) {
    PlanKeyAccessRequest.Builder complete = request.toBuilder();
    if (request.getUnderstoodObligationsCount() == 0) complete.addAllUnderstoodObligations(understood.ids());
    return decided(ProtectionServiceGrpc.getPlanKeyAccessMethod(), complete.build());
  }

  /**
   * Registers an artifact, under an idempotency key of its own: however often it is sent, it is recorded once.
   *
   * @param request the artifact's metadata
   * @return the answer
   */
  public RegisterArtifactResponse registerArtifact(RegisterArtifactRequest request) {
    return recorded(RegistrationServiceGrpc.getRegisterArtifactMethod(), request, Optional.empty());
  }

  /**
   * Registers an artifact.
   *
   * @param request the artifact's metadata
   * @param idempotencyKey 1 to 128 visible characters; the same for what is to be recorded once
   * @return the answer
   */
  public RegisterArtifactResponse registerArtifact(RegisterArtifactRequest request, String idempotencyKey) {
    return recorded(RegistrationServiceGrpc.getRegisterArtifactMethod(), request, Optional.of(idempotencyKey));
  }

  /**
   * Tells what happened, under an idempotency key of its own: however often it is sent, it is recorded once.
   *
   * @param request the event
   * @return the answer
   */
  public RecordEvidenceResponse recordEvidence(RecordEvidenceRequest request) {
    return recorded(EvidenceServiceGrpc.getRecordEvidenceMethod(), request, Optional.empty());
  }

  /**
   * Tells what happened.
   *
   * @param request the event
   * @param idempotencyKey 1 to 128 visible characters; the same for what is to be recorded once
   * @return the answer
   */
  public RecordEvidenceResponse recordEvidence(RecordEvidenceRequest request, String idempotencyKey) {
    return recorded(EvidenceServiceGrpc.getRecordEvidenceMethod(), request, Optional.of(idempotencyKey));
  }

  /**
   * Checks a receipt, offline, against the keys that the client was given.
   *
   * @param receipt of a decision, registration or event
   * @return what it proves
   * @throws ReceiptException where it does not
   */
  public VerifiedReceipt verifyReceipt(Receipt receipt) {
    return Receipts.verify(receipt, logKeys);
  }

  /**
   * Checks the receipt of an answer, offline, against the keys that the client was given, and that it is that of this answer,
   * of this request, and of the caller that the program or {@link #whoAmI} named, where one did. A brief receipt is refused where whole ones are
   * asked for. The calls of this class have done so
   * already; those over {@link #channel} have not.
   *
   * @param request as it was sent; empty where it was not kept
   * @param answer to a call that decides, registers or records
   * @param since when the request was sent; empty where it may have been recorded before, under a key of the program's own
   * @return what it proves
   * @throws ReceiptException where it does not, or the answer has no receipt
   */
  public VerifiedReceipt verifyAnswer(Optional<? extends Message> request, Message answer, Optional<Instant> since) {
    VerifiedReceipt verified = Receipts.verifyAnswer(request, answer, calls.sender(since), logKeys);
    calls.requireAsked(verified);
    return verified;
  }

  /**
   * The connection with token, proof and receipt header on every call, for generated stubs of any kind, asynchronous ones
   * too. Deadlines, retries and idempotency keys are then the caller's.
   *
   * @return such as {@code DiscoveryServiceGrpc.newFutureStub} takes
   */
  public Channel channel() {
    return channel;
  }

  /** Waits for calls and streams that are under way, 5 seconds at most, and ends the connection. Close streams before. */
  @Override
  public void close() {
    connection.shutdown();
    long endNanos = System.nanoTime() + CLOSE_TIMEOUT.toNanos();
    try {
      while (attempts.underWay() > 0 && System.nanoTime() < endNanos) connection.awaitTermination(20, TimeUnit.MILLISECONDS);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    }
    connection.shutdownNow();
  }

  @Override
  Calls calls() {
    return calls;
  }

  @Override
  List<String> logKeys() {
    return logKeys;
  }

  private <Q extends Message, A extends Message> A decided(MethodDescriptor<Q, A> method, Q request) {
    Instant since = Instant.now();
    return checked(request, calls.call(method, request).message(), Optional.of(since));
  }

  /** Under a key of the program's own it may have been recorded before. */
  private <Q extends Message, A extends Message> A recorded(
      MethodDescriptor<Q, A> method, Q request, Optional<String> ownKey) {
    Optional<Instant> since = ownKey.isPresent() ? Optional.empty() : Optional.of(Instant.now());
    String key = ownKey.orElseGet(() -> UUID.randomUUID().toString());
    return checked(request, calls.once(method, request, key), since);
  }

  private <A extends Message> A checked(Message request, A answer, Optional<Instant> since) {
    if (logKeys.isEmpty() || (!calls.asksForReceipts() && Answers.receipt(answer).isEmpty())) return answer;
    try {
      verifyAnswer(Optional.of(request), answer, since);
      return answer;
    } catch (ReceiptException wrong) {
      throw new ReceiptException(wrong.getMessage(), answer, wrong);
    }
  }

  private <Q, A> Kept<A> kept(MethodDescriptor<Q, A> method, Q request, Duration defaultMaxAge) {
    return new Kept<>(
        () -> {
          Calls.Answer<A> answer = calls.call(method, request);
          return new Kept.Answer<>(answer.message(), answer.maxAge().orElse(defaultMaxAge));
        });
  }
}
