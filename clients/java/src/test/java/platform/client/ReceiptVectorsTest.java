package platform.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.util.JsonFormat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;
import platform.sdk.v1.Receipt;

/** Receipts of the service's own log, and changed ones: the same for clients of every language. */
class ReceiptVectorsTest {
  private final JsonObject vectors;
  private final Map<String, VerifiedReceipt> good = new HashMap<>();
  private final Map<String, String> wrong = new HashMap<>();

  ReceiptVectorsTest() throws IOException {
    String text = Files.readString(Path.of("../conformance/vectors/receipts.json"));
    vectors = JsonParser.parseString(text).getAsJsonObject();
    for (JsonElement each : vectors.getAsJsonArray("receipts")) {
      JsonObject vector = each.getAsJsonObject();
      String name = vector.get("name").getAsString();
      boolean holds = !vector.has("refused");
      try {
        VerifiedReceipt verified = verify(vector);
        if (holds) good.put(name, verified);
        else wrong.put(name, "holds, though " + vector.get("refused"));
      } catch (ReceiptException | IllegalArgumentException | InvalidProtocolBufferException refused) {
        if (holds) wrong.put(name, "refused: " + refused.getMessage());
      }
    }
  }

  @Test
  void eachHoldsOrIsRefused() {
    assertEquals(Map.of(), wrong);
  }

  @Test
  void logsContinueOrDoNot() {
    for (JsonElement each : vectors.getAsJsonArray("consistency")) {
      JsonObject vector = each.getAsJsonObject();
      VerifiedReceipt earlier = good.get(vector.get("earlier").getAsString());
      VerifiedReceipt later = good.get(vector.get("later").getAsString());
      boolean continues = Receipts.continues(earlier, later, vector.get("proof").getAsString());
      assertEquals(vector.get("continues").getAsBoolean(), continues, vector.toString());
    }
  }

  private static VerifiedReceipt verify(JsonObject vector) throws InvalidProtocolBufferException {
    Receipt.Builder receipt = Receipt.newBuilder();
    JsonFormat.parser().merge(vector.get("receipt").toString(), receipt);
    return Receipts.verify(receipt.build(), vector.get("log_key").getAsString());
  }
}
