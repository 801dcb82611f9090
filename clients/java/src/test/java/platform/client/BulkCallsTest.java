package platform.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static platform.client.TestBulkService.event;
import static platform.client.TestBulkService.refusal;

import io.grpc.Status;
import java.io.IOException;
import java.security.GeneralSecurityException;
import java.util.List;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.Test;
import platform.bulk.v1.EventItem;
import platform.bulk.v1.ItemOutcome;
import platform.bulk.v1.PlanProtectionsRequest;
import platform.bulk.v1.PlanProtectionsResponse;
import platform.bulk.v1.ProtectionPlanItem;
import platform.bulk.v1.RecordEventsRequest;
import platform.bulk.v1.ResolvePoliciesRequest;
import platform.sdk.v1.PlanProtectionRequest;
import platform.sdk.v1.ProtectionDecision;
import platform.sdk.v1.Receipt;
import platform.sdk.v1.ResolvePolicyRequest;

/** Bulk calls, and the receipts of their items. */
class BulkCallsTest {
  @Test
  void keysAreTheSameOverAllAttempts() throws IOException {
    try (var service = new TestBulkService();
        var client = service.client().build()) {
      service.refusals.add(refusal(Status.Code.UNAVAILABLE, "store_unavailable", 0));
      client.recordEvents(RecordEventsRequest.newBuilder().addItems(event("own")).addItems(event("")).addItems(event("")).build());
      List<List<String>> keys =
          service.records.stream()
              .map(request -> request.getItemsList().stream().map(EventItem::getIdempotencyKey).toList())
              .toList();
      assertEquals(2, keys.size());
      assertEquals(keys.get(0), keys.get(1));
      assertEquals("own", keys.get(0).get(0));
      assertTrue(keys.get(0).get(1).matches("[!-~]{1,128}"));
      assertNotEquals(keys.get(0).get(1), keys.get(0).get(2));
    }
  }

  @Test
  void eachItemListsWhatIsUnderstood() throws IOException {
    try (var service = new TestBulkService();
        var client = service.client().understands("note").build()) {
      client.planProtections(
          PlanProtectionsRequest.newBuilder()
              .setStopOnFirstDeny(true)
              .addItems(PlanProtectionRequest.getDefaultInstance())
              .addItems(PlanProtectionRequest.newBuilder().addUnderstoodObligations("own"))
              .build());
      PlanProtectionsRequest sent = service.plans.get(0);
      assertEquals(List.of("note"), sent.getItems(0).getUnderstoodObligationsList());
      assertEquals(List.of("own"), sent.getItems(1).getUnderstoodObligationsList());
      assertTrue(sent.getStopOnFirstDeny());
    }
  }

  @Test
  void receiptsAreThoseOfTheirItems() throws IOException, GeneralSecurityException {
    TestLog log = new TestLog(3);
    PlanProtectionsRequest request =
        PlanProtectionsRequest.newBuilder()
            .addItems(PlanProtectionRequest.getDefaultInstance())
            .addItems(PlanProtectionRequest.getDefaultInstance())
            .addItems(PlanProtectionRequest.getDefaultInstance())
            .build();
    PlanProtectionsResponse good =
        PlanProtectionsResponse.newBuilder()
            .addItems(answered(brief(log, 0), brief(log, 0)))
            .addItems(ProtectionPlanItem.newBuilder().setOutcome(ItemOutcome.ITEM_OUTCOME_REFUSED))
            .addItems(answered(brief(log, 2), brief(log, 2)))
            .build();
    var verified = Receipts.verifyItems(request, good, Sender.UNKNOWN, List.of(log.key()));
    assertEquals(3, verified.size());
    assertTrue(verified.get(1).isEmpty());
    assertEquals(2, verified.get(2).orElseThrow().leafIndex());
    ProtectionPlanItem anothers = answered(brief(log, 0), brief(log, 2));
    for (PlanProtectionsResponse wrong :
        List.of(
            good.toBuilder().setItems(0, anothers).build(),
            // Complete: its record says that another caller asked for something else.
            good.toBuilder().setItems(0, answered(log.receipt(0, 3), log.receipt(0, 3))).build(),
            good.toBuilder().setItems(0, good.getItems(0).toBuilder().clearDecision()).build(),
            good.toBuilder().removeItems(2).build()))
      assertThrows(ReceiptException.class, () -> Receipts.verifyItems(request, wrong, Sender.UNKNOWN, List.of(log.key())));
    ResolvePoliciesRequest other =
        ResolvePoliciesRequest.newBuilder().addItems(ResolvePolicyRequest.getDefaultInstance()).build();
    assertThrows(ReceiptException.class, () -> Receipts.verifyItems(other, good, Sender.UNKNOWN, List.of(log.key())));
    try (var service = new TestBulkService();
        var client = service.client().logKeys(log.key()).receipts(ReceiptDetail.BRIEF).build();
        var asking = service.client().logKeys(log.key()).build()) {
      service.plan = good;
      // What was cut out of a whole one is none.
      assertThrows(ReceiptException.class, () -> asking.planProtections(request));
      assertEquals(good, client.planProtections(request));
      service.plan = good.toBuilder().setItems(0, anothers).build();
      ReceiptException wrong = assertThrows(ReceiptException.class, () -> client.planProtections(request));
      assertEquals(service.plan, wrong.answer().orElseThrow());
    }
  }

  @Test
  void answersOfWhichAllReceiptsWereCutOutAreRefused() throws Exception {
    String key = new TestLog(1).key();
    PlanProtectionsRequest request =
        PlanProtectionsRequest.newBuilder().addItems(PlanProtectionRequest.getDefaultInstance()).build();
    try (var service = new TestBulkService(TestBulkService.ACKNOWLEDGES);
        var client = service.client().logKeys(key).build();
        var without = service.client().logKeys(key).receipts(ReceiptDetail.NONE).build()) {
      var decision = ProtectionDecision.newBuilder().setAllow(true);
      var item = ProtectionPlanItem.newBuilder().setOutcome(ItemOutcome.ITEM_OUTCOME_ANSWERED).setDecision(decision);
      service.plan = PlanProtectionsResponse.newBuilder().addItems(item).build();
      assertThrows(ReceiptException.class, () -> client.planProtections(request));
      assertEquals(service.plan, without.planProtections(request));
      try (var stream = client.openEventStream();
          var other = without.openEventStream()) {
        var refused = assertThrows(ExecutionException.class, () -> stream.send(event("k0")).get());
        assertInstanceOf(ReceiptException.class, refused.getCause());
        assertTrue(other.send(event("k0")).get().getIngestion().getAccepted());
      }
    }
  }

  private static Receipt brief(TestLog log, int index) throws GeneralSecurityException {
    return log.receipt(index, 3).toBuilder().clearLeaf().clearOpening().clearRecord().build();
  }

  private static ProtectionPlanItem answered(Receipt decided, Receipt receipt) {
    return ProtectionPlanItem.newBuilder()
        .setOutcome(ItemOutcome.ITEM_OUTCOME_ANSWERED)
        .setDecision(ProtectionDecision.newBuilder().setDecisionId(decided.getRecordId()).setReceipt(receipt))
        .build();
  }
}
