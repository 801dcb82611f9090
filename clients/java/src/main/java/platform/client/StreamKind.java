package platform.client;

import com.google.protobuf.Message;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.List;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import platform.bulk.v1.BulkStreamServiceGrpc;
import platform.bulk.v1.EventItem;
import platform.bulk.v1.EventResult;
import platform.bulk.v1.RegistrationItem;
import platform.bulk.v1.RegistrationResult;
import platform.bulk.v1.StreamEventsRequest;
import platform.bulk.v1.StreamEventsResponse;
import platform.bulk.v1.StreamRegistrationsRequest;
import platform.bulk.v1.StreamRegistrationsResponse;

/** What the two streams differ in. */
final class StreamKind<Q, A, I extends Message, R extends Message> {
  static final StreamKind<StreamEventsRequest, StreamEventsResponse, EventItem, EventResult> EVENTS =
      new StreamKind<>(
          BulkStreamServiceGrpc.getStreamEventsMethod(),
          (sequence, item) -> StreamEventsRequest.newBuilder().setSequence(sequence).setItem(item).build(),
          response ->
              response.getItemsList().stream()
                  .map(one -> new Acknowledgement<>(one.getSequence(), one.getResult()))
                  .toList(),
          BulkItems::keyed,
          EventItem::getIdempotencyKey,
          EventResult::getIdempotencyKey);

  static final StreamKind<
          StreamRegistrationsRequest, StreamRegistrationsResponse, RegistrationItem, RegistrationResult>
      REGISTRATIONS =
          new StreamKind<>(
              BulkStreamServiceGrpc.getStreamRegistrationsMethod(),
              (sequence, item) -> StreamRegistrationsRequest.newBuilder().setSequence(sequence).setItem(item).build(),
              response ->
                  response.getItemsList().stream()
                      .map(one -> new Acknowledgement<>(one.getSequence(), one.getResult()))
                      .toList(),
              BulkItems::keyed,
              RegistrationItem::getIdempotencyKey,
              RegistrationResult::getIdempotencyKey);

  /** One item's place in the stream, and what became of it. */
  record Acknowledgement<R>(long sequence, R result) {}

  /** A stream of gRPC that is open. */
  interface Line<I> {
    void send(long sequence, I item);

    void halfClose();

    void cancel();
  }

  /** Hears of a line, one thing after the other, on a thread of gRPC. */
  interface Listener<R> {
    void onAcknowledged(List<Acknowledgement<R>> items);

    void onEnd(Status status, Metadata trailers);
  }

  private interface Numbering<I, Q> {
    Q request(long sequence, I item);
  }

  private final MethodDescriptor<Q, A> method;
  private final Numbering<I, Q> numbering;
  private final Function<A, List<Acknowledgement<R>>> acknowledged;
  private final UnaryOperator<I> keyed;
  private final Function<I, String> keyOfItem;
  private final Function<R, String> keyOfResult;

  private StreamKind(
      MethodDescriptor<Q, A> method,
      Numbering<I, Q> numbering,
      Function<A, List<Acknowledgement<R>>> acknowledged,
      UnaryOperator<I> keyed,
      Function<I, String> keyOfItem,
      Function<R, String> keyOfResult) {
    this.method = method;
    this.numbering = numbering;
    this.acknowledged = acknowledged;
    this.keyed = keyed;
    this.keyOfItem = keyOfItem;
    this.keyOfResult = keyOfResult;
  }

  /** The item, with a key of its own where it has none. */
  I keyed(I item) {
    return keyed.apply(item);
  }

  boolean isSameKey(I item, R result) {
    return keyOfItem.apply(item).equals(keyOfResult.apply(result));
  }

  Line<I> open(Calls calls, Attempt attempt, Listener<R> listener) {
    // Whatever context an item was sent in, the stream outlives it.
    Context sender = Context.ROOT.attach();
    try {
      ClientCall<Q, A> call = calls.begin(method, attempt);
      call.start(
          new ClientCall.Listener<A>() {
            @Override
            public void onMessage(A message) {
              listener.onAcknowledged(acknowledged.apply(message));
              call.request(1);
            }

            @Override
            public void onClose(Status status, Metadata trailers) {
              listener.onEnd(status, trailers);
            }
          },
          new Metadata());
      call.request(1);
      return new OpenLine(call);
    } finally {
      Context.ROOT.detach(sender);
    }
  }

  private final class OpenLine implements Line<I> {
    private final ClientCall<Q, A> call;

    OpenLine(ClientCall<Q, A> call) {
      this.call = call;
    }

    @Override
    public void send(long sequence, I item) {
      call.sendMessage(numbering.request(sequence, item));
    }

    @Override
    public void halfClose() {
      call.halfClose();
    }

    @Override
    public void cancel() {
      call.cancel("the stream is over", null);
    }
  }
}
