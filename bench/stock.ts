/** Preloaded into the gateway's source (`--import`): its unary routes are then those of Connect's stock plugin. */
import { registerHooks } from "node:module";

export * from "../src/transport/connect/unary.ts";
export { registerStock as registerUnary } from "../test/harness/stock-plugin.ts";

const own = import.meta.resolve("../src/transport/connect/unary.ts");
registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context);
    return found.url === own ? { ...found, url: import.meta.url } : found;
  },
});
