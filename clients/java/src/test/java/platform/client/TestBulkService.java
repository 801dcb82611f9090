package platform.client;

import com.google.protobuf.Any;
import com.google.protobuf.Duration;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import platform.bulk.v1.AcknowledgedEvent;
import platform.bulk.v1.BulkDecisionServiceGrpc;
import platform.bulk.v1.BulkRecordServiceGrpc;
import platform.bulk.v1.BulkStreamServiceGrpc;
import platform.bulk.v1.EventItem;
import platform.bulk.v1.EventResult;
import platform.bulk.v1.ItemOutcome;
import platform.bulk.v1.PlanProtectionsRequest;
import platform.bulk.v1.PlanProtectionsResponse;
import platform.bulk.v1.RecordEventsRequest;
import platform.bulk.v1.RecordEventsResponse;
import platform.bulk.v1.StreamEventsRequest;
import platform.bulk.v1.StreamEventsResponse;
import platform.sdk.v1.Ingestion;
import platform.sdk.v1.RecordEvidenceRequest;

/** A service of bulk calls and streams that does what a test says, and keeps what it saw. */
public final class TestBulkService implements AutoCloseable {
  /** What is done with each item of a stream that comes. */
  public interface OnItem {
    /** Ends the stream with what it throws. */
    void take(StreamEventsRequest request, StreamObserver<StreamEventsResponse> answers);
  }

  public static final OnItem ACKNOWLEDGES = (request, answers) -> answers.onNext(acknowledgement(request));
  static final OnItem KEEPS_SILENT = (request, answers) -> {};

  public static final OnItem REFUSES =
      (request, answers) -> {
        throw refusal(Status.Code.PERMISSION_DENIED, "missing_scope", 0);
      };

  /** Of each stream, the last one of all that follow. */
  final List<OnItem> streams = new CopyOnWriteArrayList<>();

  /** Items of each stream, as they arrived. */
  final List<List<StreamEventsRequest>> seen = new CopyOnWriteArrayList<>();

  /** What the next calls are refused with. */
  final Queue<StatusRuntimeException> refusals = new ConcurrentLinkedQueue<>();

  final List<PlanProtectionsRequest> plans = new CopyOnWriteArrayList<>();
  final List<RecordEventsRequest> records = new CopyOnWriteArrayList<>();
  volatile PlanProtectionsResponse plan = PlanProtectionsResponse.getDefaultInstance();
  private final Server server;

  public TestBulkService(OnItem... streams) throws IOException {
    this.streams.addAll(List.of(streams));
    server =
        Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
            .addService(new Decisions())
            .addService(new Records())
            .addService(new Streams())
            .build()
            .start();
  }

  public PlatformClientBuilder client() {
    java.time.Duration pause = java.time.Duration.ofMillis(1);
    return PlatformClient.builder("http://localhost:" + server.getPort()).retry(new RetryPolicy(3, pause, pause));
  }

  @Override
  public void close() {
    server.shutdownNow();
  }

  public static EventItem event(String key) {
    return EventItem.newBuilder().setIdempotencyKey(key).setEvent(RecordEvidenceRequest.getDefaultInstance()).build();
  }

  static StreamEventsResponse acknowledgement(StreamEventsRequest request) {
    EventResult result =
        EventResult.newBuilder()
            .setOutcome(ItemOutcome.ITEM_OUTCOME_ANSWERED)
            .setIdempotencyKey(request.getItem().getIdempotencyKey())
            .setIngestion(Ingestion.newBuilder().setAccepted(true))
            .build();
    return StreamEventsResponse.newBuilder()
        .addItems(AcknowledgedEvent.newBuilder().setSequence(request.getSequence()).setResult(result))
        .build();
  }

  static StatusRuntimeException refusal(Status.Code code, String reason, int retryAfterSeconds) {
    com.google.rpc.Status.Builder status =
        com.google.rpc.Status.newBuilder()
            .setCode(code.value())
            .addDetails(Any.pack(ErrorInfo.newBuilder().setReason(reason).build()));
    if (retryAfterSeconds > 0) {
      Duration delay = Duration.newBuilder().setSeconds(retryAfterSeconds).build();
      status.addDetails(Any.pack(RetryInfo.newBuilder().setRetryDelay(delay).build()));
    }
    return StatusProto.toStatusRuntimeException(status.build());
  }

  /** Keys of each stream's items. */
  List<List<String>> keys() {
    return seen.stream()
        .map(items -> items.stream().map(request -> request.getItem().getIdempotencyKey()).toList())
        .toList();
  }

  private <A> void answer(A answer, StreamObserver<A> answers) {
    StatusRuntimeException refusal = refusals.poll();
    if (refusal != null) {
      answers.onError(refusal);
      return;
    }
    answers.onNext(answer);
    answers.onCompleted();
  }

  private final class Decisions extends BulkDecisionServiceGrpc.BulkDecisionServiceImplBase {
    @Override
    public void planProtections(PlanProtectionsRequest request, StreamObserver<PlanProtectionsResponse> answers) {
      plans.add(request);
      answer(plan, answers);
    }
  }

  private final class Records extends BulkRecordServiceGrpc.BulkRecordServiceImplBase {
    @Override
    public void recordEvents(RecordEventsRequest request, StreamObserver<RecordEventsResponse> answers) {
      records.add(request);
      answer(RecordEventsResponse.getDefaultInstance(), answers);
    }
  }

  private final class Streams extends BulkStreamServiceGrpc.BulkStreamServiceImplBase {
    @Override
    public StreamObserver<StreamEventsRequest> streamEvents(StreamObserver<StreamEventsResponse> answers) {
      OnItem onItem = streams.get(Math.min(seen.size(), streams.size() - 1));
      List<StreamEventsRequest> items = new CopyOnWriteArrayList<>();
      seen.add(items);
      return new StreamObserver<>() {
        private boolean isEnded;

        @Override
        public void onNext(StreamEventsRequest request) {
          if (isEnded) return;
          items.add(request);
          try {
            onItem.take(request, answers);
          } catch (StatusRuntimeException end) {
            isEnded = true;
            answers.onError(end);
          }
        }

        @Override
        public void onError(Throwable gone) {
          isEnded = true;
        }

        @Override
        public void onCompleted() {
          if (!isEnded) answers.onCompleted();
        }
      };
    }
  }
}
