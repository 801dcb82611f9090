package platform.client;

import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import io.grpc.Status;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Optional;

/**
 * Access tokens by the client-credentials grant (RFC 6749 section 4.4): fetched when the first call needs one, kept
 * until shortly before they expire. Threads that need one at once share a request.
 */
public final class ClientCredentials implements TokenSource {
  /** A token is fetched again when less than this is left of its life, or a fifth of it, if that is less. */
  private static final Duration REFRESH_MARGIN = Duration.ofSeconds(30);

  /** For issuers that do not say how long a token lives. */
  private static final long DEFAULT_LIFETIME_SECONDS = 60;

  private final ClientCredentialsBuilder settings;
  private final HttpClient http;
  private final SingleFlight<Held> flight = new SingleFlight<>();
  private volatile Held held;
  private volatile URI endpoint;

  private record Held(AccessToken token, long staleAtNanos, long endsAtNanos) {
    boolean isFresh() {
      return System.nanoTime() - staleAtNanos < 0;
    }

    boolean lives() {
      return System.nanoTime() - endsAtNanos < 0;
    }
  }

  ClientCredentials(ClientCredentialsBuilder settings) {
    this.settings = settings;
    this.http =
        HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .followRedirects(HttpClient.Redirect.NEVER)
            .sslContext(settings.tls.context())
            .connectTimeout(settings.timeout)
            .build();
  }

  /**
   * Begins a token source.
   *
   * @param issuer identifier of the issuer, an https URL; its discovery document names the token endpoint
   * @param clientId name of the client at the issuer
   * @return to be completed
   * @throws IllegalArgumentException for a URL that is neither https nor of this machine
   */
  public static ClientCredentialsBuilder builder(String issuer, String clientId) {
    return new ClientCredentialsBuilder(issuer, clientId);
  }

  @Override
  public AccessToken token() {
    Held known = held;
    return known != null && known.isFresh() ? known.token() : flight.join(this::refresh).token();
  }

  @Override
  public synchronized void refused(AccessToken token) {
    if (held != null && held.token() == token) held = null;
  }

  private Held refresh() {
    Held known = held;
    if (known != null && known.isFresh()) return known;
    Held next;
    try {
      next = fetch();
    } catch (PlatformException problem) {
      // While the issuer is away, the token that is held is good until it ends.
      if (problem.code() == Status.Code.UNAVAILABLE && known != null && known.lives()) return known;
      throw problem;
    }
    synchronized (this) {
      held = next;
    }
    return next;
  }

  private Held fetch() {
    if (endpoint == null) endpoint = discover();
    long askedAtNanos = System.nanoTime();
    HttpResponse<String> response = post(endpoint);
    // RFC 9449 section 8: the issuer names the nonce that it wants, once.
    if (rememberNonce(response) && isError(response, "use_dpop_nonce")) {
      response = post(endpoint);
      rememberNonce(response);
    }
    JsonObject answer = json(response).orElseGet(JsonObject::new);
    Optional<String> token = text(answer, "access_token");
    if (response.statusCode() != 200 || token.isEmpty()) throw refusal(response, answer);
    DpopKey key = settings.dpopKey;
    // RFC 9449 section 5: a token that the issuer did not bind is not what was asked for.
    if (key != null && !text(answer, "token_type").orElse("").equalsIgnoreCase("DPoP"))
      throw new PlatformException(Status.Code.UNAUTHENTICATED, "the issuer did not bind the token to the DPoP key", null);
    Duration lifetime = Duration.ofSeconds(lifetimeSeconds(answer));
    Duration fifth = lifetime.dividedBy(5);
    Duration margin = fifth.compareTo(REFRESH_MARGIN) < 0 ? fifth : REFRESH_MARGIN;
    return new Held(
        key == null ? AccessToken.bearer(token.get()) : AccessToken.dpop(token.get(), key),
        askedAtNanos + lifetime.minus(margin).toNanos(),
        askedAtNanos + lifetime.toNanos());
  }

  /** Reads the issuer's discovery document (OpenID Connect Discovery 1.0 section 4). */
  private URI discover() {
    URI url = URI.create(settings.issuer.replaceAll("/$", "") + "/.well-known/openid-configuration");
    HttpResponse<String> response = send(HttpRequest.newBuilder(url));
    JsonObject document = json(response).orElseGet(JsonObject::new);
    // Section 4.3: a document that names another issuer is not this issuer's.
    if (response.statusCode() != 200 || !text(document, "issuer").equals(Optional.of(settings.issuer)))
      throw refusal(response, document);
    Optional<String> named = text(document, "token_endpoint");
    // RFC 8705 section 5: where clients with certificates go.
    if (settings.tls.hasCertificate() && document.get("mtls_endpoint_aliases") instanceof JsonObject aliases)
      named = text(aliases, "token_endpoint").or(() -> text(document, "token_endpoint"));
    try {
      return Urls.secure(named.orElseThrow(() -> refusal(response, document)));
    } catch (IllegalArgumentException insecure) {
      throw new PlatformException(Status.Code.UNAUTHENTICATED, "the issuer's token endpoint: " + insecure.getMessage(), null);
    }
  }

  private HttpResponse<String> post(URI url) {
    HttpRequest.Builder request = HttpRequest.newBuilder(url);
    String form = settings.authenticate(request);
    request.header("content-type", "application/x-www-form-urlencoded").header("accept", "application/json");
    if (settings.dpopKey != null) request.header("dpop", settings.dpopKey.proof("POST", url, Optional.empty()));
    return send(request.POST(HttpRequest.BodyPublishers.ofString(form)));
  }

  private HttpResponse<String> send(HttpRequest.Builder request) {
    try {
      return http.send(request.timeout(settings.timeout).build(), HttpResponse.BodyHandlers.ofString());
    } catch (IOException failed) {
      throw new PlatformException(Status.Code.UNAVAILABLE, "the issuer does not answer: " + failed, failed);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new PlatformException(Status.Code.CANCELLED, "interrupted while fetching a token", stopped);
    }
  }

  private boolean rememberNonce(HttpResponse<String> response) {
    Optional<String> nonce = response.headers().firstValue("dpop-nonce");
    if (settings.dpopKey == null || nonce.isEmpty()) return false;
    settings.dpopKey.useNonce(response.uri(), nonce.get());
    return true;
  }

  private static boolean isError(HttpResponse<String> response, String error) {
    return json(response).flatMap(answer -> text(answer, "error")).equals(Optional.of(error));
  }

  /** RFC 6749 section 5.2: what the issuer refuses will be refused again; what it cannot do now, another time may. */
  private static PlatformException refusal(HttpResponse<String> response, JsonObject answer) {
    int status = response.statusCode();
    boolean passing = status >= 500 || status == 429;
    String why = text(answer, "error").orElse("HTTP " + status);
    Duration retryAfter =
        response.headers().firstValue("retry-after").filter(text -> text.matches("[0-9]{1,6}"))
            .map(seconds -> Duration.ofSeconds(Long.parseLong(seconds))).orElse(null);
    return new PlatformException(
        passing ? Status.Code.UNAVAILABLE : Status.Code.UNAUTHENTICATED,
        "the issuer gave no token: " + why,
        passing ? retryAfter : null,
        null);
  }

  private static long lifetimeSeconds(JsonObject answer) {
    try {
      return answer.has("expires_in") ? Math.max(0, answer.get("expires_in").getAsInt()) : DEFAULT_LIFETIME_SECONDS;
    } catch (NumberFormatException | IllegalStateException | UnsupportedOperationException unreadable) {
      return DEFAULT_LIFETIME_SECONDS;
    }
  }

  private static Optional<JsonObject> json(HttpResponse<String> response) {
    try {
      return JsonParser.parseString(response.body()) instanceof JsonObject object ? Optional.of(object) : Optional.empty();
    } catch (JsonParseException none) {
      return Optional.empty();
    }
  }

  private static Optional<String> text(JsonObject object, String member) {
    return object.get(member) instanceof com.google.gson.JsonPrimitive value && value.isString()
        ? Optional.of(value.getAsString())
        : Optional.empty();
  }
}
