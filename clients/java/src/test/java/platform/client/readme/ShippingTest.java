package platform.client.readme;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import platform.bulk.v1.EventItem;
import platform.client.TestBulkService;

/** The README's program of streams: it is the one here, and it loses nothing. */
class ShippingTest {
  @Test
  void theReadmeShowsIt() throws IOException {
    String source = Files.readString(Path.of("src/test/java/platform/client/readme/Shipping.java"));
    String shown = source.substring(source.indexOf("import"));
    assertTrue(Files.readString(Path.of("README.md")).contains("```java\n" + shown + "```"));
  }

  @Test
  void itReturnsWhatNobodyAcknowledged() throws IOException {
    List<EventItem> events = List.of(TestBulkService.event("k0"), TestBulkService.event(UUID.randomUUID().toString()));
    try (var service = new TestBulkService(TestBulkService.ACKNOWLEDGES);
        var client = service.client().build()) {
      assertEquals(List.of(), Shipping.ship(client, events));
    }
    try (var service = new TestBulkService(TestBulkService.REFUSES);
        var client = service.client().build()) {
      assertEquals(events, Shipping.ship(client, events));
    }
  }
}
