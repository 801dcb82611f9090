package platform.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static platform.client.TestBulkService.ACKNOWLEDGES;
import static platform.client.TestBulkService.KEEPS_SILENT;
import static platform.client.TestBulkService.event;
import static platform.client.TestBulkService.refusal;

import io.grpc.Status;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import platform.bulk.v1.EventItem;
import platform.bulk.v1.EventResult;

/** What the conformance suite does not see of streams: threads that wait, and those that are stopped. */
@Timeout(value = 30, unit = TimeUnit.SECONDS)
class ResumingStreamTest {
  private static final TestBulkService.OnItem FAILS =
      (request, answers) -> {
        throw refusal(Status.Code.UNAVAILABLE, "store_unavailable", 0);
      };

  @Test
  void whatWasNotAcknowledgedIsSentAgainInOrderAndUnderItsKey() throws IOException {
    TestBulkService.OnItem acknowledgesOne =
        (request, answers) -> {
          if (request.getSequence() > 0) throw refusal(Status.Code.UNAVAILABLE, "store_unavailable", 0);
          ACKNOWLEDGES.take(request, answers);
        };
    try (var service = new TestBulkService(acknowledgesOne, ACKNOWLEDGES);
        var client = service.client().build()) {
      List<CompletableFuture<EventResult>> sent = new ArrayList<>();
      try (var stream = client.openEventStream()) {
        for (String key : List.of("k0", "k1", "")) sent.add(stream.send(event(key)));
      }
      // Closed: everything has its result.
      assertTrue(sent.stream().allMatch(result -> result.getNow(null).getIngestion().getAccepted()));
      String made = sent.get(2).join().getIdempotencyKey();
      assertTrue(made.matches("[!-~]{1,128}"), made);
      assertEquals(List.of("k0", "k1"), service.keys().get(0));
      assertEquals(List.of("k1", made), service.keys().get(1));
    }
  }

  @Test
  void aServiceThatIsGoneWithoutAWordIsNoticed() throws Exception {
    byte[] emptySettings = {0, 0, 0, 4, 0, 0, 0, 0, 0};
    try (var server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      var settings = PlatformClient.builder("http://127.0.0.1:" + server.getLocalPort());
      settings.pingAfter = Duration.ofSeconds(10);
      settings.pingTimeout = Duration.ofMillis(50);
      try (var client = settings.retry(new RetryPolicy(1, Duration.ofMillis(1), Duration.ofMillis(1))).build()) {
        var stream = client.openEventStream();
        CompletableFuture<EventResult> result = stream.send(event("k0"));
        try (var connection = server.accept()) {
          connection.getOutputStream().write(emptySettings);
          var thrown = assertThrows(ExecutionException.class, () -> result.get(20, TimeUnit.SECONDS));
          assertEquals(Status.Code.UNAVAILABLE, assertInstanceOf(PlatformException.class, thrown.getCause()).code());
        }
        assertEquals(1, stream.unacknowledged().size());
      }
    }
  }

  @Test
  void aStreamThatIsGivenUpTellsWhyAndWhatIsLeft() throws IOException {
    try (var service = new TestBulkService(FAILS);
        var client = service.client().build()) {
      var stream = client.openEventStream();
      CompletableFuture<EventResult> sent = stream.send(event("k0"));
      PlatformException closing = assertThrows(PlatformException.class, stream::close);
      assertEquals("store_unavailable", closing.reason());
      assertEquals(3, service.seen.size());
      PlatformException result =
          assertInstanceOf(PlatformException.class, assertThrows(CompletionException.class, sent::join).getCause());
      assertEquals("store_unavailable", result.reason());
      assertEquals(List.of(event("k0")), stream.unacknowledged());
      assertEquals(
          "store_unavailable", assertThrows(PlatformException.class, () -> stream.send(event("k1"))).reason());
    }
  }

  /** One exception that is thrown twice would suppress itself, which Java refuses. */
  @Test
  void aFailureReachesThoseWhoTryWithResources() throws IOException {
    try (var service = new TestBulkService(FAILS);
        var client = service.client().build()) {
      PlatformException problem =
          assertThrows(
              PlatformException.class,
              () -> {
                try (var stream = client.openEventStream(new StreamOptions(1, 1))) {
                  stream.send(event("k0"));
                  stream.send(event("k1"));
                }
              });
      assertEquals("store_unavailable", problem.reason());
      assertEquals(1, problem.getSuppressed().length);
    }
  }

  @Test
  void whoSendsWaitsForRoomAndHearsOfTheEnd() throws Exception {
    CountDownLatch arrived = new CountDownLatch(1);
    TestBulkService.OnItem counts = (request, answers) -> arrived.countDown();
    try (var service = new TestBulkService(counts);
        var client = service.client().build()) {
      var stream = client.openEventStream(new StreamOptions(1, 1 << 20));
      stream.send(event("k0"));
      CompletableFuture<PlatformException> heldBack = new CompletableFuture<>();
      Thread sender =
          new Thread(() -> heldBack.complete(assertThrows(PlatformException.class, () -> stream.send(event("k1")))));
      sender.start();
      arrived.await();
      while (sender.getState() != Thread.State.WAITING) Thread.onSpinWait();
      assertFalse(heldBack.isDone());
      stream.abort();
      assertEquals(Status.Code.CANCELLED, heldBack.get().code());
      assertEquals(List.of(event("k0")), stream.unacknowledged());
      assertThrows(PlatformException.class, stream::close);
    }
  }

  @Test
  void aThreadThatIsStoppedStaysStopped() throws IOException {
    try (var service = new TestBulkService(KEEPS_SILENT);
        var client = service.client().build()) {
      var stream = client.openEventStream(new StreamOptions(1, 1 << 20));
      stream.send(event("k0"));
      Thread.currentThread().interrupt();
      assertEquals(
          Status.Code.CANCELLED, assertThrows(PlatformException.class, () -> stream.send(event("k1"))).code());
      // The item was not taken, and the stream goes on.
      assertTrue(Thread.currentThread().isInterrupted());
      assertEquals(Status.Code.CANCELLED, assertThrows(PlatformException.class, stream::close).code());
      assertTrue(Thread.interrupted());
      assertEquals(List.of(event("k0")), stream.unacknowledged());
    }
  }

  @Test
  void abortEndsAnHoursPause() throws Exception {
    TestBulkService.OnItem tells =
        (request, answers) -> {
          throw refusal(Status.Code.UNAVAILABLE, "overloaded", 3600);
        };
    CompletableFuture<PlatformException> told = new CompletableFuture<>();
    try (var service = new TestBulkService(tells);
        var client = service.client().onRetry((problem, pause) -> told.complete(problem)).build()) {
      var stream = client.openEventStream();
      CompletableFuture<EventResult> sent = stream.send(event("k0"));
      assertEquals("overloaded", told.get().reason());
      stream.abort();
      assertThrows(CompletionException.class, sent::join);
      stream.abort();
      assertEquals(1, service.seen.size());
    }
  }

  @Test
  void aStreamThatIsClosedTakesNothing() throws IOException {
    try (var service = new TestBulkService(ACKNOWLEDGES);
        var client = service.client().build()) {
      var stream = client.openEventStream();
      stream.close();
      stream.close();
      assertThrows(IllegalStateException.class, () -> stream.send(event("k0")));
      assertEquals(List.of(), service.seen);
    }
  }

  @Test
  void nothingOfAMessageWithAnAcknowledgementThatCannotBeCounts() throws IOException {
    TestBulkService.OnItem lies =
        (request, answers) -> {
          if (request.getSequence() == 1)
            answers.onNext(
                TestBulkService.acknowledgement(request).toBuilder()
                    .addAllItems(TestBulkService.acknowledgement(request.toBuilder().setSequence(7).build()).getItemsList())
                    .build());
        };
    try (var service = new TestBulkService(lies);
        var client = service.client().build()) {
      var stream = client.openEventStream();
      List<EventItem> items = List.of(event("k0"), event("k1"));
      items.forEach(stream::send);
      assertEquals(Status.Code.INTERNAL, assertThrows(PlatformException.class, stream::close).code());
      assertEquals(items, stream.unacknowledged());
    }
  }

  @Test
  void thereIsRoomForOneItem() {
    assertThrows(IllegalArgumentException.class, () -> new StreamOptions(0, 1));
    assertThrows(IllegalArgumentException.class, () -> new StreamOptions(1, 0));
  }
}
