package platform.client.readme;

import java.util.ArrayList;
import java.util.List;
import platform.bulk.v1.EventItem;
import platform.client.PlatformClient;
import platform.client.PlatformException;

class Shipping {
  /** Sends events, and returns those that are to be kept, each with its key, because the service did not acknowledge them. */
  static List<EventItem> ship(PlatformClient client, List<EventItem> events) {
    var stream = client.openEventStream();
    int taken = 0;
    try (stream) {
      for (EventItem event : events) {
        stream.send(event).thenAccept(result -> { // waits while too much is unacknowledged
          if (result.hasError()) System.err.println(result.getIdempotencyKey() + ": " + result.getError().getMessage());
        });
        taken++;
      }
    } catch (PlatformException problem) {
      System.err.println(problem.getMessage());
    }
    var left = new ArrayList<>(stream.unacknowledged());
    left.addAll(events.subList(taken, events.size()));
    return left;
  }
}
