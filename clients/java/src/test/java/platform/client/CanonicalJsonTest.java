package platform.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Only the one text of a value is read (RFC 8785): a log's commitment hides any other from the suite of receipts. */
class CanonicalJsonTest {
  @ParameterizedTest
  @ValueSource(
      strings = {
        "{}",
        "{\"a\":[1,2.5,-3,1e+21,9007199254740991,true,false,null,\"\"]}",
        "{\"\u00e9\":1,\"\ud83d\ude00\":2,\"\ufb33\":3}",
        "{\"text\":\"\\\"\\\\\\b\\f\\n\\r\\t\\u001f/\u2028\"}",
      })
  void canonicalIsRead(String text) {
    assertEquals(true, isRead(text));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "[]",
        "1",
        "{\"a\":1} ",
        "{\"a\": 1}",
        "{\"b\":1,\"a\":2}",
        "{\"a\":1,\"a\":1}",
        "{\"\ufb33\":3,\"\ud83d\ude00\":2}",
        "{'a':1}",
        "{a:1}",
        "{\"a\":1,}",
        "{\"a\":01}",
        "{\"a\":1.0}",
        "{\"a\":-0}",
        "{\"a\":1e2}",
        "{\"a\":1E400}",
        "{\"a\":NaN}",
        "{\"a\":\"\\u0041\"}",
        "{\"a\":\"\\/\"}",
        "{\"a\":\"\\u001F\"}",
        "{\"a\":\"\\u0000\"}",
        "{\"\\u0000\":1}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":1}//",
        "\ufeff{}",
      })
  void anyOtherTextIsNot(String text) {
    assertEquals(false, isRead(text));
  }

  @Test
  void nestingHasABound() {
    assertEquals(true, isRead("{\"a\":" + "[".repeat(31) + "]".repeat(31) + "}"));
    assertEquals(false, isRead("{\"a\":" + "[".repeat(32) + "]".repeat(32) + "}"));
    assertEquals(false, isRead("{\"a\":" + "[".repeat(100_000) + "]".repeat(100_000) + "}"));
  }

  @Test
  void bytesThatAreNoTextAreNotRead() {
    assertEquals(false, CanonicalJson.read(new byte[] {'{', '"', (byte) 0xff, '"', ':', '1', '}'}).isPresent());
  }

  private static boolean isRead(String text) {
    return CanonicalJson.read(text.getBytes(StandardCharsets.UTF_8)).isPresent();
  }
}
