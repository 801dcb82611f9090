package platform.client;

import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import platform.sdk.v1.Obligation;

/** Obligations that a program meets, by id: of each those parameters, or all of them where there is no value. */
record Understood(Map<String, Optional<Set<String>>> parameters) {
  Understood {
    parameters = Map.copyOf(parameters);
  }

  Set<String> ids() {
    return new TreeSet<>(parameters.keySet());
  }

  /** What is understood where a request listed these itself; none: it was given those of the client. */
  Understood listed(String... ids) {
    if (ids.length == 0) return this;
    return new Understood(
        Stream.of(ids)
            .distinct()
            .collect(Collectors.toMap(Function.identity(), id -> parameters.getOrDefault(id, Optional.empty()))));
  }

  boolean covers(Obligation demanded) {
    Optional<Set<String>> known = parameters.get(demanded.getId());
    if (known == null) return false;
    return known.map(names -> names.containsAll(demanded.getParametersMap().keySet())).orElse(true);
  }
}
