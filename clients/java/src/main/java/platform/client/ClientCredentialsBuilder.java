package platform.client;

import java.net.URLEncoder;
import java.net.http.HttpRequest;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;

/** Settings of {@link ClientCredentials}. */
public final class ClientCredentialsBuilder {
  private enum Authentication {
    BASIC,
    POST,
    CERTIFICATE
  }

  final String issuer;
  Tls tls = Tls.systemTrust();
  DpopKey dpopKey;
  Duration timeout = Duration.ofSeconds(10);
  private final String clientId;
  private String clientSecret;
  private Authentication authentication;
  private final Map<String, String> parameters = new LinkedHashMap<>();

  ClientCredentialsBuilder(String issuer, String clientId) {
    Urls.secure(issuer);
    this.issuer = issuer;
    this.clientId = clientId;
    parameters.put("grant_type", "client_credentials");
  }

  private ClientCredentialsBuilder(ClientCredentialsBuilder other) {
    this.issuer = other.issuer;
    this.tls = other.tls;
    this.dpopKey = other.dpopKey;
    this.timeout = other.timeout;
    this.clientId = other.clientId;
    this.clientSecret = other.clientSecret;
    this.authentication = other.authentication;
    this.parameters.putAll(other.parameters);
  }

  /**
   * Shows who it is by a secret in the {@code Authorization} header (client_secret_basic).
   *
   * @param secret of the client
   * @return this
   */
  public ClientCredentialsBuilder clientSecretBasic(String secret) {
    authentication = Authentication.BASIC;
    clientSecret = secret;
    return this;
  }

  /**
   * Shows who it is by a secret in the form (client_secret_post).
   *
   * @param secret of the client
   * @return this
   */
  public ClientCredentialsBuilder clientSecretPost(String secret) {
    authentication = Authentication.POST;
    clientSecret = secret;
    return this;
  }

  /**
   * Shows who it is by the client certificate (tls_client_auth, RFC 8705 section 2).
   *
   * @return this
   */
  public ClientCredentialsBuilder certificateAuthentication() {
    authentication = Authentication.CERTIFICATE;
    return this;
  }

  /**
   * Trusted authorities, and the certificate that tokens are bound to. Default: the machine's authorities, no certificate.
   *
   * @param tls that of the client
   * @return this
   */
  public ClientCredentialsBuilder tls(Tls tls) {
    this.tls = tls;
    return this;
  }

  /**
   * Scopes to ask for. Default: what the issuer grants unasked.
   *
   * @param scopes such as {@code policy.read}
   * @return this
   */
  public ClientCredentialsBuilder scopes(String... scopes) {
    return scopes.length == 0 ? this : parameter("scope", String.join(" ", scopes));
  }

  /**
   * A further parameter of the token request, such as {@code resource} (RFC 8707) or {@code audience}.
   *
   * @param name of the parameter
   * @param value of the parameter
   * @return this
   */
  public ClientCredentialsBuilder parameter(String name, String value) {
    parameters.put(name, value);
    return this;
  }

  /**
   * Binds tokens to a key (RFC 9449). Default: none.
   *
   * @param key such as {@link DpopKey#generate()}
   * @return this
   */
  public ClientCredentialsBuilder dpop(DpopKey key) {
    this.dpopKey = key;
    return this;
  }

  /**
   * Bounds each request to the issuer. Default: 10 seconds.
   *
   * @param timeout more than nothing
   * @return this
   */
  public ClientCredentialsBuilder timeout(Duration timeout) {
    this.timeout = timeout;
    return this;
  }

  /**
   * Makes the token source. Nothing is fetched yet.
   *
   * @return the token source
   * @throws IllegalArgumentException where it is not said how the client shows who it is, or it has no certificate for that
   */
  public ClientCredentials build() {
    if (authentication == null) throw new IllegalArgumentException("the client needs a secret or a certificate");
    if (authentication == Authentication.CERTIFICATE && !tls.hasCertificate())
      throw new IllegalArgumentException("the client has no certificate");
    return new ClientCredentials(new ClientCredentialsBuilder(this));
  }

  /** Puts the credentials on a token request; returns its form. */
  String authenticate(HttpRequest.Builder request) {
    Map<String, String> form = new LinkedHashMap<>(parameters);
    if (authentication == Authentication.BASIC) {
      // RFC 6749 section 2.3.1: both halves are form-encoded before they are joined.
      String credentials = encode(clientId) + ":" + encode(clientSecret);
      byte[] bytes = credentials.getBytes(StandardCharsets.US_ASCII);
      request.header("authorization", "Basic " + Base64.getEncoder().encodeToString(bytes));
    } else {
      form.put("client_id", clientId);
      if (authentication == Authentication.POST) form.put("client_secret", clientSecret);
    }
    return form.entrySet().stream()
        .map(member -> encode(member.getKey()) + "=" + encode(member.getValue()))
        .collect(Collectors.joining("&"));
  }

  private static String encode(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8);
  }
}
