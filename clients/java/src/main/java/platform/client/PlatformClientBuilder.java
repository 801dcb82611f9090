package platform.client;

import java.net.URI;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.BiConsumer;
import platform.sdk.v1.Caller;

/** Settings of a {@link PlatformClient}. */
public final class PlatformClientBuilder {
  final URI baseUrl;
  Tls tls = Tls.systemTrust();
  TokenSource tokens;
  /** How long nothing may come before the service is asked whether it is there; gRPC makes it 10 s at least. */
  Duration pingAfter = Duration.ofSeconds(20);
  Duration pingTimeout = Duration.ofSeconds(10);
  Duration deadline = Duration.ofSeconds(10);
  RetryPolicy retry = RetryPolicy.DEFAULT;
  BiConsumer<PlatformException, Duration> onRetry = (problem, pause) -> {};
  ReceiptDetail receipts = ReceiptDetail.WHOLE;
  List<String> logKeys = List.of();
  /** Null where it is not known. */
  Caller caller;
  Duration discoveryMaxAge = Duration.ofMinutes(5);

  /** Obligations that are understood, by id; of each those parameters, or all of them where there is no value. */
  final Map<String, Optional<Set<String>>> understood = new HashMap<>();

  PlatformClientBuilder(String baseUrl) {
    URI url = Urls.secure(baseUrl);
    // gRPC has no place for a path.
    if (!Set.of("", "/").contains(url.getPath()) || url.getQuery() != null || url.getFragment() != null)
      throw new IllegalArgumentException("the base URL has a path: " + baseUrl);
    this.baseUrl = url;
  }

  /**
   * Trusted authorities, and the certificate to present. Default: the machine's authorities, and none.
   *
   * @param tls that of the token source, where tokens are bound to the certificate
   * @return this
   */
  public PlatformClientBuilder tls(Tls tls) {
    this.tls = tls;
    return this;
  }

  /**
   * Where calls get their token from. Default: they carry none.
   *
   * @param tokens such as {@link ClientCredentials}
   * @return this
   */
  public PlatformClientBuilder tokens(TokenSource tokens) {
    this.tokens = tokens;
    return this;
  }

  /**
   * Bounds every call, all its attempts and its token included. Default: 10 seconds.
   *
   * @param deadline more than nothing
   * @return this
   */
  public PlatformClientBuilder deadline(Duration deadline) {
    if (deadline.isNegative() || deadline.isZero()) throw new IllegalArgumentException("the deadline is not positive");
    this.deadline = deadline;
    return this;
  }

  /**
   * When calls are sent again. Default: {@link RetryPolicy#DEFAULT}.
   *
   * @param retry attempts and pauses
   * @return this
   */
  public PlatformClientBuilder retry(RetryPolicy retry) {
    this.retry = retry;
    return this;
  }

  /**
   * Called before each pause, on the thread of the call. Default: none.
   *
   * @param onRetry takes what went wrong and how long the pause is
   * @return this
   */
  public PlatformClientBuilder onRetry(BiConsumer<PlatformException, Duration> onRetry) {
    this.onRetry = onRetry;
    return this;
  }

  /**
   * How much of a receipt answers carry. Default: {@link ReceiptDetail#WHOLE}.
   *
   * @param receipts what to ask for
   * @return this
   */
  public PlatformClientBuilder receipts(ReceiptDetail receipts) {
    this.receipts = receipts;
    return this;
  }

  /**
   * The caller that receipts must name, if the program knows it without asking. Default: the caller
   * that {@link PlatformClient#whoAmI} named last, and anyone before.
   *
   * @param caller this program, as whoAmI answers
   * @return this
   */
  public PlatformClientBuilder caller(Caller caller) {
    this.caller = caller;
    return this;
  }

  /**
   * Keys of the tenant's log: every receipt is verified with them, and an answer without one is refused, unless receipts are
   * {@link ReceiptDetail#NONE}. Default: none, and no receipt is verified.
   *
   * @param logKeys verifier keys from the operator, each as {@link Receipts#verify} takes it
   * @return this
   * @throws IllegalArgumentException where one cannot be read
   */
  public PlatformClientBuilder logKeys(String... logKeys) {
    this.logKeys = List.of(logKeys);
    this.logKeys.forEach(LogKey::parse);
    return this;
  }

  /**
   * An obligation that this program meets, whatever its parameters. Requests that list none name all that are understood.
   *
   * @param id as the operator hands it out
   * @return this
   */
  public PlatformClientBuilder understands(String id) {
    understood.put(id, Optional.empty());
    return this;
  }

  /**
   * An obligation that this program meets where it has no other parameters than these.
   *
   * @param id as the operator hands it out
   * @param parameters names of those that are understood
   * @return this
   */
  public PlatformClientBuilder understands(String id, Set<String> parameters) {
    understood.put(id, Optional.of(Set.copyOf(parameters)));
    return this;
  }

  /**
   * How long {@link PlatformClient#cachedCapabilities} and {@link PlatformClient#cachedBootstrap} are kept where the
   * service does not say. Default: 5 minutes.
   *
   * @param maxAge nothing or more
   * @return this
   */
  public PlatformClientBuilder discoveryMaxAge(Duration maxAge) {
    this.discoveryMaxAge = maxAge;
    return this;
  }

  /**
   * Makes the client. It connects with its first call.
   *
   * @return to be closed
   */
  public PlatformClient build() {
    return new PlatformClient(this);
  }
}
