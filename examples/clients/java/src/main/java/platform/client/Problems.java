package platform.client;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.util.List;
import java.util.Optional;

/** What a refusal says. */
final class Problems {
  private Problems() {}

  /** The detail of this type that the refusal carries, if it does. */
  static <D extends Message> Optional<D> detail(StatusRuntimeException error, Class<D> type) {
    com.google.rpc.Status status = StatusProto.fromThrowable(error);
    List<Any> details = status == null ? List.of() : status.getDetailsList();
    for (Any packed : details) {
      if (!packed.is(type)) continue;
      try {
        return Optional.of(packed.unpack(type));
      } catch (InvalidProtocolBufferException damaged) {
        return Optional.empty();
      }
    }
    return Optional.empty();
  }

  /** What is wrong, for a person, with the id to name when asking the operator. */
  static String describe(StatusRuntimeException error) {
    StringBuilder text = new StringBuilder();
    text.append(error.getStatus().getCode()).append(": ").append(error.getStatus().getDescription());
    detail(error, ErrorInfo.class)
        .ifPresent(
            info -> {
              text.append("\n  reason: ").append(info.getReason());
              advice(info).ifPresent(advice -> text.append("\n  ").append(advice));
              text.append("\n  request id: ").append(info.getMetadataOrDefault("request_id", ""));
            });
    detail(error, BadRequest.class)
        .ifPresent(
            request ->
                request
                    .getFieldViolationsList()
                    .forEach(broken -> text.append("\n  " + broken.getField() + ": " + broken.getDescription())));
    return text.toString();
  }

  private static Optional<String> advice(ErrorInfo info) {
    return Optional.ofNullable(
        switch (info.getReason()) {
          case "missing_scope" ->
              "ask the issuer for these scopes too: " + info.getMetadataOrDefault("missing_scopes", "");
          case "proof_of_possession_failed" ->
              "the token is bound to another client certificate than the one presented, or the service does not trust it";
          case "invalid_token" -> "the service does not take tokens of this issuer, or for this audience";
          default -> null;
        });
  }
}
