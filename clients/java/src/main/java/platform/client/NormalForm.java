package platform.client;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.MapEntry;
import com.google.protobuf.Message;
import java.util.List;
import java.util.Locale;

/**
 * Messages in the spelling of the JSON routes: names of proto, words of enumerations, 64-bit integers as numbers. Every member
 * that is not optional is there; an optional one without a value is left out.
 */
final class NormalForm {
  private NormalForm() {}

  static JsonObject of(Message message) {
    return of(message, false);
  }

  /** The form that records hold requests in: an optional member that is empty is left out too. */
  static JsonObject ofRequest(Message message) {
    return of(message, true);
  }

  private static JsonObject of(Message message, boolean isRequest) {
    JsonObject form = new JsonObject();
    for (FieldDescriptor field : message.getDescriptorForType().getFields()) {
      Object value = message.getField(field);
      boolean isAbsent = field.hasPresence() && (!message.hasField(field) || (isRequest && isEmpty(value)));
      if (!isAbsent) form.add(field.getName(), field.isMapField() ? map((List<?>) value) : json(value, isRequest));
    }
    return form;
  }

  private static boolean isEmpty(Object value) {
    return value.equals("") || (value instanceof EnumValueDescriptor named && named.getNumber() == 0);
  }

  private static JsonObject map(List<?> entries) {
    JsonObject object = new JsonObject();
    for (Object each : entries) {
      MapEntry<?, ?> entry = (MapEntry<?, ?>) each;
      object.addProperty((String) entry.getKey(), (String) entry.getValue());
    }
    return object;
  }

  private static JsonElement json(Object value, boolean isRequest) {
    if (value instanceof List<?> list) {
      JsonArray array = new JsonArray();
      list.forEach(item -> array.add(json(item, isRequest)));
      return array;
    }
    if (value instanceof Message message) return of(message, isRequest);
    if (value instanceof EnumValueDescriptor named) return new JsonPrimitive(wordOf(named));
    if (value instanceof Boolean truth) return new JsonPrimitive(truth);
    return value instanceof Number number ? new JsonPrimitive(number) : new JsonPrimitive((String) value);
  }

  /** As the JSON routes spell it: "protect" for PROTECTION_OPERATION_PROTECT. */
  private static String wordOf(EnumValueDescriptor named) {
    String none = named.getType().getValues().get(0).getName();
    String prefix = none.substring(0, none.length() - "UNSPECIFIED".length());
    // A number that has no name is none of the record's.
    String name = named.getIndex() < 0 ? "" : named.getName();
    return name.startsWith(prefix) ? name.substring(prefix.length()).toLowerCase(Locale.ROOT) : name;
  }
}
