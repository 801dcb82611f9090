package platform.client;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.Set;
import org.erdtman.jcs.JsonCanonicalizer;

/** Objects in canonical JSON (RFC 8785), as logs hold them: without U+0000, nested at most 32 deep. */
final class CanonicalJson {
  private static final int MAX_DEPTH = 32;

  private CanonicalJson() {}

  /** The object of these bytes; empty where they are not its one text. */
  static Optional<JsonObject> read(byte[] bytes) {
    try {
      String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
      if (!(JsonParser.parseString(text) instanceof JsonObject object) || !isClean(object, 0)) return Optional.empty();
      return new JsonCanonicalizer(text).getEncodedString().equals(text) ? Optional.of(object) : Optional.empty();
    } catch (CharacterCodingException | JsonParseException unreadable) {
      return Optional.empty();
    } catch (IOException notJson) {
      return Optional.empty();
    }
  }

  /** The one text of a value. */
  static byte[] write(JsonElement value) {
    try {
      return new JsonCanonicalizer(value.toString()).getEncodedUTF8();
    } catch (IOException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /** The text of a member; empty where it is no text. */
  static Optional<String> text(JsonObject object, String member) {
    return object.get(member) instanceof JsonPrimitive value && value.isString()
        ? Optional.of(value.getAsString())
        : Optional.empty();
  }

  /** Whether these are the members, each of them once. */
  static boolean hasExactly(JsonObject object, Set<String> members) {
    return object.keySet().equals(members);
  }

  private static boolean isClean(JsonElement value, int depth) {
    if (value instanceof JsonObject object) {
      return depth < MAX_DEPTH
          && object.entrySet().stream().allMatch(e -> isClean(e.getKey()) && isClean(e.getValue(), depth + 1));
    }
    if (value instanceof JsonArray array) {
      if (depth >= MAX_DEPTH) return false;
      for (JsonElement item : array) if (!isClean(item, depth + 1)) return false;
      return true;
    }
    return !(value instanceof JsonPrimitive text) || !text.isString() || isClean(text.getAsString());
  }

  private static boolean isClean(String text) {
    return text.indexOf('\0') < 0 && StandardCharsets.UTF_8.newEncoder().canEncode(text);
  }
}
