package platform.client;

import com.google.protobuf.Message;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import platform.bulk.v1.BulkDecisionServiceGrpc;
import platform.bulk.v1.BulkRecordServiceGrpc;
import platform.bulk.v1.EventItem;
import platform.bulk.v1.EventResult;
import platform.bulk.v1.PlanKeyAccessesRequest;
import platform.bulk.v1.PlanKeyAccessesResponse;
import platform.bulk.v1.PlanProtectionsRequest;
import platform.bulk.v1.PlanProtectionsResponse;
import platform.bulk.v1.RecordEventsRequest;
import platform.bulk.v1.RecordEventsResponse;
import platform.bulk.v1.RegisterArtifactsRequest;
import platform.bulk.v1.RegisterArtifactsResponse;
import platform.bulk.v1.RegistrationItem;
import platform.bulk.v1.RegistrationResult;
import platform.bulk.v1.ResolvePoliciesRequest;
import platform.bulk.v1.ResolvePoliciesResponse;
import platform.sdk.v1.PlanKeyAccessRequest;
import platform.sdk.v1.PlanProtectionRequest;
import platform.sdk.v1.ResolvePolicyRequest;

/** Many items at once, where the deployment serves them. */
abstract class BulkCalls extends Permissions {
  BulkCalls(Understood understood) {
    super(understood);
  }

  abstract Calls calls();

  abstract List<String> logKeys();

  /**
   * {@link PlatformClient#planProtection} of 1 to 1,000 items. They are answered in their order, each by itself: read its
   * outcome before its decision.
   *
   * @param request each item names the obligations that are understood, where it lists none, as the client was told
   * @return the answer
   */
  public PlanProtectionsResponse planProtections(PlanProtectionsRequest request) {
    List<PlanProtectionRequest> items =
        BulkItems.understanding(request.getItemsList(), understood.ids(), PlanProtectionRequest.class::cast);
    PlanProtectionsRequest complete = request.toBuilder().clearItems().addAllItems(items).build();
    Instant since = Instant.now();
    return checked(complete, calls().call(BulkDecisionServiceGrpc.getPlanProtectionsMethod(), complete).message(), since);
  }

  /**
   * {@link PlatformClient#resolvePolicy} of 1 to 1,000 items, as {@link #planProtections}.
   *
   * @param request each item names the obligations that are understood, where it lists none, as the client was told
   * @return the answer
   */
  public ResolvePoliciesResponse resolvePolicies(ResolvePoliciesRequest request) {
    List<ResolvePolicyRequest> items =
        BulkItems.understanding(request.getItemsList(), understood.ids(), ResolvePolicyRequest.class::cast);
    ResolvePoliciesRequest complete = request.toBuilder().clearItems().addAllItems(items).build();
    Instant since = Instant.now();
    return checked(complete, calls().call(BulkDecisionServiceGrpc.getResolvePoliciesMethod(), complete).message(), since);
  }

  /**
   * {@link PlatformClient#planKeyAccess} of 1 to 1,000 items, as {@link #planProtections}.
   *
   * @param request each item names the obligations that are understood, where it lists none, as the client was told
   * @return the answer
   */
  public PlanKeyAccessesResponse planKeyAccesses(PlanKeyAccessesRequest request) {
    List<PlanKeyAccessRequest> items =
        BulkItems.understanding(request.getItemsList(), understood.ids(), PlanKeyAccessRequest.class::cast);
    PlanKeyAccessesRequest complete = request.toBuilder().clearItems().addAllItems(items).build();
    Instant since = Instant.now();
    return checked(complete, calls().call(BulkDecisionServiceGrpc.getPlanKeyAccessesMethod(), complete).message(), since);
  }

  /**
   * Records 1 to 1,000 events, each of which is recorded or refused by itself. However often the call is sent, each is
   * recorded once.
   *
   * @param request an item without an idempotency key is given one, which its result names
   * @return the answer
   */
  public RecordEventsResponse recordEvents(RecordEventsRequest request) {
    List<EventItem> items = request.getItemsList().stream().map(BulkItems::keyed).toList();
    RecordEventsRequest complete = request.toBuilder().clearItems().addAllItems(items).build();
    Instant since = Instant.now();
    return checked(request, calls().call(BulkRecordServiceGrpc.getRecordEventsMethod(), complete).message(), since);
  }

  /**
   * Registers 1 to 1,000 artifacts, as {@link #recordEvents}.
   *
   * @param request an item without an idempotency key is given one, which its result names
   * @return the answer
   */
  public RegisterArtifactsResponse registerArtifacts(RegisterArtifactsRequest request) {
    List<RegistrationItem> items = request.getItemsList().stream().map(BulkItems::keyed).toList();
    RegisterArtifactsRequest complete = request.toBuilder().clearItems().addAllItems(items).build();
    Instant since = Instant.now();
    return checked(request, calls().call(BulkRecordServiceGrpc.getRegisterArtifactsMethod(), complete).message(), since);
  }

  /**
   * Opens a stream of events, which connects with the first.
   *
   * @return to be closed, before the client is
   */
  public ResumingStream<EventItem, EventResult> openEventStream() {
    return openEventStream(StreamOptions.DEFAULT);
  }

  /**
   * Opens a stream of events, which connects with the first.
   *
   * @param options how much may be unacknowledged
   * @return to be closed, before the client is
   */
  public ResumingStream<EventItem, EventResult> openEventStream(StreamOptions options) {
    return new ResumingStream<>(StreamKind.EVENTS, calls(), logKeys(), options);
  }

  /**
   * Opens a stream of registrations, which connects with the first.
   *
   * @return to be closed, before the client is
   */
  public ResumingStream<RegistrationItem, RegistrationResult> openRegistrationStream() {
    return openRegistrationStream(StreamOptions.DEFAULT);
  }

  /**
   * Opens a stream of registrations, which connects with the first.
   *
   * @param options how much may be unacknowledged
   * @return to be closed, before the client is
   */
  public ResumingStream<RegistrationItem, RegistrationResult> openRegistrationStream(StreamOptions options) {
    return new ResumingStream<>(StreamKind.REGISTRATIONS, calls(), logKeys(), options);
  }

  /**
   * The answer, with receipts that are verified where there are keys.
   *
   * @param request in which items have no idempotency keys but the program's own
   */
  private <A extends Message> A checked(Message request, A answer, Instant since) {
    if (logKeys().isEmpty()) return answer;
    try {
      if (calls().asksForReceipts() || BulkItems.of(answer).stream().anyMatch(result -> Answers.receipt(result).isPresent()))
        Receipts.verifyItems(request, answer, calls().sender(Optional.of(since)), logKeys())
            .forEach(verified -> verified.ifPresent(calls()::requireAsked));
      return answer;
    } catch (ReceiptException wrong) {
      throw new ReceiptException(wrong.getMessage(), answer, wrong);
    }
  }
}
