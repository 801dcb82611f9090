package platform.client;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.grpc.CallCredentials;
import io.grpc.Metadata;
import io.grpc.Status;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.util.Base64;
import java.util.concurrent.Executor;

/** Access tokens by the client-credentials grant, kept until shortly before they expire. */
final class Tokens extends CallCredentials {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
  private static final Duration REFRESH_MARGIN = Duration.ofSeconds(30);
  private static final Duration TIMEOUT = Duration.ofSeconds(10);

  private final Settings settings;
  private final HttpClient http;
  private final URI endpoint;
  private String token;
  private long staleAtNanos;

  /** Fetches the first token at once, so that credentials that the issuer refuses are known before any call. */
  Tokens(Settings settings) throws IOException, InterruptedException, GeneralSecurityException {
    this.settings = settings;
    // The issuer sees the client certificate, and binds the token to it (RFC 8705 section 3).
    this.http = HttpClient.newBuilder().sslContext(Tls.context(settings)).connectTimeout(TIMEOUT).build();
    this.endpoint = discover();
    fetch();
  }

  @Override
  public void applyRequestMetadata(RequestInfo info, Executor executor, MetadataApplier applier) {
    executor.execute(
        () -> {
          try {
            Metadata headers = new Metadata();
            headers.put(AUTHORIZATION, "Bearer " + token());
            applier.apply(headers);
          } catch (IOException | InterruptedException error) {
            applier.fail(Status.UNAVAILABLE.withDescription("no token: " + error.getMessage()).withCause(error));
          }
        });
  }

  private synchronized String token() throws IOException, InterruptedException {
    if (System.nanoTime() - staleAtNanos >= 0) fetch();
    return token;
  }

  /** Reads the issuer's discovery document (OpenID Connect Discovery 1.0 section 4). */
  private URI discover() throws IOException, InterruptedException {
    URI url = URI.create(settings.issuer().replaceAll("/$", "") + "/.well-known/openid-configuration");
    JsonObject document = json(send(HttpRequest.newBuilder(url).timeout(TIMEOUT).build()));
    if (!settings.issuer().equals(document.get("issuer").getAsString()))
      throw new IOException("the discovery document is of another issuer");
    return URI.create(document.get("token_endpoint").getAsString());
  }

  private void fetch() throws IOException, InterruptedException {
    String form = "grant_type=client_credentials";
    if (!settings.scope().isEmpty()) form += "&scope=" + encode(settings.scope());
    // RFC 6749 section 2.3.1: both halves are form-encoded before they are joined.
    String credentials = encode(settings.clientId()) + ":" + encode(settings.clientSecret());
    long askedAtNanos = System.nanoTime();
    HttpResponse<String> response =
        send(
            HttpRequest.newBuilder(endpoint)
                .timeout(TIMEOUT)
                .header("authorization", "Basic " + Base64.getEncoder().encodeToString(credentials.getBytes()))
                .header("content-type", "application/x-www-form-urlencoded")
                .POST(HttpRequest.BodyPublishers.ofString(form))
                .build());
    JsonObject answer = json(response);
    if (response.statusCode() != 200) throw new IOException("the issuer gave no token: " + answer.get("error"));
    Duration lifetime = Duration.ofSeconds(answer.get("expires_in").getAsLong());
    Duration fifth = lifetime.dividedBy(5);
    Duration margin = fifth.compareTo(REFRESH_MARGIN) < 0 ? fifth : REFRESH_MARGIN;
    token = answer.get("access_token").getAsString();
    staleAtNanos = askedAtNanos + lifetime.minus(margin).toNanos();
  }

  private HttpResponse<String> send(HttpRequest request) throws IOException, InterruptedException {
    return http.send(request, HttpResponse.BodyHandlers.ofString());
  }

  private static JsonObject json(HttpResponse<String> response) {
    return JsonParser.parseString(response.body()).getAsJsonObject();
  }

  private static String encode(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8);
  }
}
