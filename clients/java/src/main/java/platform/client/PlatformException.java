package platform.client;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** A call that was refused, or that failed on its way. */
public final class PlatformException extends RuntimeException {
  private static final long serialVersionUID = 1;
  /** Longer waits are as good as this one, and sums stay in range. */
  private static final long MAX_RETRY_SECONDS = Duration.ofDays(366).toSeconds();

  /** Status of the call. */
  private final Status.Code code;

  /** Empty where the service did not answer. */
  private final String reason;

  /** Empty where the service did not answer. */
  private final String requestId;

  private final transient List<String> missingScopes;
  private final transient List<Violation> violations;

  /** Null where the service does not say. */
  private final Duration retryAfter;

  /**
   * A failure that the service did not answer, such as of a {@link TokenSource}.
   *
   * @param code {@code UNAVAILABLE} where it may help to try again
   * @param message for a person, without secrets
   * @param cause may be null
   */
  public PlatformException(Status.Code code, String message, Throwable cause) {
    this(code, message, null, cause);
  }

  PlatformException(Status.Code code, String message, Duration retryAfter, Throwable cause) {
    super(code + ": " + message, cause);
    this.code = code;
    this.reason = "";
    this.requestId = "";
    this.missingScopes = List.of();
    this.violations = List.of();
    this.retryAfter = retryAfter;
  }

  /** The same failure, for another thread or another time: an exception cannot suppress itself. */
  PlatformException(PlatformException failure) {
    super(failure.getMessage(), failure);
    this.code = failure.code;
    this.reason = failure.reason;
    this.requestId = failure.requestId;
    this.missingScopes = failure.missingScopes;
    this.violations = failure.violations;
    this.retryAfter = failure.retryAfter;
  }

  private PlatformException(StatusRuntimeException error, com.google.rpc.Status details) {
    super(messageOf(error.getStatus(), infoOf(details)), error);
    ErrorInfo info = infoOf(details);
    Map<String, String> metadata = info.getMetadataMap();
    String scopes = metadata.getOrDefault("missing_scopes", "");
    this.code = error.getStatus().getCode();
    this.reason = info.getReason();
    this.requestId = metadata.getOrDefault("request_id", "");
    this.missingScopes = scopes.isEmpty() ? List.of() : List.of(scopes.split(" "));
    this.violations =
        detail(details, BadRequest.class).orElse(BadRequest.getDefaultInstance()).getFieldViolationsList().stream()
            .map(broken -> new Violation(broken.getField(), broken.getReason(), broken.getDescription()))
            .toList();
    this.retryAfter = detail(details, RetryInfo.class).map(PlatformException::delayOf).orElse(null);
  }

  private static ErrorInfo infoOf(com.google.rpc.Status details) {
    return detail(details, ErrorInfo.class).orElse(ErrorInfo.getDefaultInstance());
  }

  /** All that a reader of a stack trace needs to ask for support. */
  private static String messageOf(Status status, ErrorInfo info) {
    String reason = info.getReason().isEmpty() ? "" : " (" + info.getReason() + ")";
    String requestId = info.getMetadataMap().getOrDefault("request_id", "");
    return status.getCode() + reason + ": " + status.getDescription() + (requestId.isEmpty() ? "" : "; request id: " + requestId);
  }

  /** What a stub threw, with its details. */
  static PlatformException of(StatusRuntimeException error) {
    // What the token source threw: the call was never sent.
    if (error.getStatus().getCause() instanceof PlatformException problem) return problem;
    com.google.rpc.Status details = StatusProto.fromThrowable(error);
    return new PlatformException(error, details == null ? com.google.rpc.Status.getDefaultInstance() : details);
  }

  /**
   * Returns the status of the call.
   *
   * @return such as {@code PERMISSION_DENIED}
   */
  public Status.Code code() {
    return code;
  }

  /**
   * Returns what went wrong, from the service's closed list.
   *
   * @return such as {@code missing_scope}; empty where the service did not answer
   */
  public String reason() {
    return reason;
  }

  /**
   * Returns the id to name when asking the operator.
   *
   * @return empty where the service did not answer
   */
  public String requestId() {
    return requestId;
  }

  /**
   * Returns the scopes that the token lacks.
   *
   * @return empty where it is not about scopes
   */
  public List<String> missingScopes() {
    return missingScopes;
  }

  /**
   * Returns the broken rules of the request.
   *
   * @return empty where it is not about the request
   */
  public List<Violation> violations() {
    return violations;
  }

  /**
   * Returns how long to wait before the call is made again.
   *
   * @return empty where the service does not say
   */
  public Optional<Duration> retryAfter() {
    return Optional.ofNullable(retryAfter);
  }

  private static <D extends Message> Optional<D> detail(com.google.rpc.Status status, Class<D> type) {
    for (Any packed : status.getDetailsList()) {
      if (!packed.is(type)) continue;
      try {
        return Optional.of(packed.unpack(type));
      } catch (InvalidProtocolBufferException damaged) {
        return Optional.empty();
      }
    }
    return Optional.empty();
  }

  private static Duration delayOf(RetryInfo info) {
    long seconds = Math.max(0, Math.min(info.getRetryDelay().getSeconds(), MAX_RETRY_SECONDS));
    return Duration.ofSeconds(seconds, Math.max(0, info.getRetryDelay().getNanos()));
  }
}
