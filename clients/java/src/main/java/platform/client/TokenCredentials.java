package platform.client;

import io.grpc.CallCredentials;
import io.grpc.Metadata;
import io.grpc.Status;
import java.net.URI;
import java.util.Optional;
import java.util.concurrent.Executor;

/** Puts a token on an attempt, and a proof for exactly this attempt where the token is bound to a key. */
final class TokenCredentials extends CallCredentials {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
  private static final Metadata.Key<String> DPOP = Metadata.Key.of("dpop", Metadata.ASCII_STRING_MARSHALLER);

  private final TokenSource tokens;
  private final URI target;
  private final Attempt attempt;

  TokenCredentials(TokenSource tokens, URI target, Attempt attempt) {
    this.tokens = tokens;
    this.target = target;
    this.attempt = attempt;
  }

  @Override
  public void applyRequestMetadata(RequestInfo info, Executor executor, MetadataApplier applier) {
    executor.execute(
        () -> {
          try {
            applier.apply(headers());
          } catch (PlatformException problem) {
            applier.fail(Status.fromCode(problem.code()).withDescription("no token").withCause(problem));
          } catch (RuntimeException failure) {
            applier.fail(Status.INTERNAL.withDescription("no token: " + failure).withCause(failure));
          }
        });
  }

  private Metadata headers() {
    AccessToken token = tokens.token();
    attempt.token = token;
    Metadata headers = new Metadata();
    headers.put(AUTHORIZATION, (token.dpopKey().isPresent() ? "DPoP " : "Bearer ") + token.value());
    // On gRPC every method is POST, and the path names it.
    token.dpopKey().ifPresent(key -> headers.put(DPOP, key.proof("POST", target, Optional.of(token))));
    return headers;
  }
}
