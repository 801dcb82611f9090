package platform.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.net.URI;
import java.util.concurrent.atomic.AtomicInteger;

/** What every attempt carries: a token, its proof, and how much of a receipt is wanted. */
final class AttemptInterceptor implements ClientInterceptor {
  private static final Metadata.Key<String> RECEIPT =
      Metadata.Key.of("x-svc-receipt", Metadata.ASCII_STRING_MARSHALLER);

  private final URI baseUrl;
  private final TokenSource tokens;
  private final ReceiptDetail receipts;
  private final AtomicInteger underWay = new AtomicInteger();

  /** The token source may be null: calls then carry none. */
  AttemptInterceptor(URI baseUrl, TokenSource tokens, ReceiptDetail receipts) {
    this.baseUrl = baseUrl;
    this.tokens = tokens;
    this.receipts = receipts;
  }

  /** Calls that were begun and have no end yet. */
  int underWay() {
    return underWay.get();
  }

  @Override
  public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
    Attempt given = options.getOption(Attempt.KEY);
    Attempt attempt = given == null ? new Attempt() : given;
    URI target = baseUrl.resolve("/" + method.getFullMethodName());
    CallOptions authorized =
        tokens == null ? options : options.withCallCredentials(new TokenCredentials(tokens, target, attempt));
    return new SimpleForwardingClientCall<>(next.newCall(method, authorized)) {
      @Override
      public void start(Listener<A> listener, Metadata headers) {
        if (!headers.containsKey(RECEIPT)) headers.put(RECEIPT, receipts.wireName);
        underWay.incrementAndGet();
        super.start(
            new SimpleForwardingClientCallListener<>(listener) {
              @Override
              public void onHeaders(Metadata seen) {
                take(seen);
                super.onHeaders(seen);
              }

              @Override
              public void onClose(Status status, Metadata seen) {
                take(seen);
                underWay.decrementAndGet();
                super.onClose(status, seen);
              }
            },
            headers);
      }

      private void take(Metadata seen) {
        attempt.saw(seen);
        AccessToken token = attempt.token;
        String nonce = seen.get(Attempt.DPOP_NONCE);
        if (token != null && nonce != null) token.dpopKey().ifPresent(key -> key.useNonce(target, nonce));
      }
    };
  }
}
