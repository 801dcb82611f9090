package platform.client.conformance;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.util.JsonFormat;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import platform.client.ClientCredentials;
import platform.client.ClientCredentialsBuilder;
import platform.client.DpopKey;
import platform.client.PlatformClient;
import platform.client.PlatformClientBuilder;
import platform.client.ReceiptDetail;
import platform.client.RetryPolicy;
import platform.client.Tls;
import platform.sdk.v1.Caller;

/** The program that the conformance suite of clients drives: a JSON object a line in, one out. */
final class Driver {
  private Driver() {}

  public static void main(String[] arguments) throws IOException {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      JsonObject request = JsonParser.parseString(line).getAsJsonObject();
      JsonObject answer = new JsonObject();
      answer.add("case", request.get("case"));
      try (PlatformClient client = client(request)) {
        answer.add("steps", new Steps(client, hasLogKeys(request)).run(request.getAsJsonArray("steps")));
      }
      out.println(answer);
    }
  }

  private static boolean hasLogKeys(JsonObject request) {
    return !texts(request.getAsJsonObject("options").get("log_keys")).isEmpty();
  }

  private static PlatformClient client(JsonObject request) throws IOException {
    JsonObject options = request.getAsJsonObject("options");
    Tls tls = tls(request.getAsJsonObject("tls"));
    PlatformClientBuilder builder =
        PlatformClient.builder(request.get("base_url").getAsString())
            .tls(tls)
            .deadline(millis(options, "deadline_ms"))
            .retry(
                new RetryPolicy(
                    options.get("max_attempts").getAsInt(),
                    millis(options, "initial_backoff_ms"),
                    millis(options, "max_backoff_ms")))
            .receipts(
                options.get("receipts").getAsString().equals("brief") ? ReceiptDetail.BRIEF : ReceiptDetail.WHOLE)
            .logKeys(texts(options.get("log_keys")).toArray(String[]::new));
    JsonObject parameters =
        Optional.ofNullable(options.getAsJsonObject("understood_parameters")).orElseGet(JsonObject::new);
    for (String id : texts(options.get("understood_obligations"))) {
      if (parameters.has(id)) builder.understands(id, texts(parameters.get(id)));
      else builder.understands(id);
    }
    if (options.get("caller") instanceof JsonObject known) {
      Caller.Builder caller = Caller.newBuilder();
      JsonFormat.parser().merge(known.toString(), caller);
      builder.caller(caller.build());
    }
    if (options.has("cache_ms")) builder.discoveryMaxAge(millis(options, "cache_ms"));
    if (request.get("token") instanceof JsonObject token)
      builder.tokens(tokens(token, tls, request.get("dpop").getAsBoolean()));
    return builder.build();
  }

  private static Tls tls(JsonObject files) throws IOException {
    if (!files.has("ca")) return Tls.systemTrust();
    Path ca = Path.of(files.get("ca").getAsString());
    if (!files.has("cert")) return Tls.fromPem(ca);
    return Tls.fromPem(ca, Path.of(files.get("cert").getAsString()), Path.of(files.get("key").getAsString()));
  }

  private static ClientCredentials tokens(JsonObject token, Tls tls, boolean isDpop) {
    ClientCredentialsBuilder builder =
        ClientCredentials.builder(token.get("issuer").getAsString(), token.get("client_id").getAsString())
            .tls(tls)
            .scopes(texts(token.get("scopes")).toArray(String[]::new));
    if (token.has("client_secret")) builder.clientSecretBasic(token.get("client_secret").getAsString());
    else builder.certificateAuthentication();
    if (isDpop) builder.dpop(DpopKey.generate());
    return builder.build();
  }

  private static Duration millis(JsonObject options, String member) {
    return Duration.ofMillis(options.get(member).getAsLong());
  }

  private static Set<String> texts(JsonElement list) {
    return StreamSupport.stream((list instanceof JsonArray array ? array : new JsonArray()).spliterator(), false)
        .map(JsonElement::getAsString)
        .collect(Collectors.toCollection(LinkedHashSet::new));
  }
}
