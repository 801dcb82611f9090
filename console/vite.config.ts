import { defineConfig } from "vitest/config";

/** The receipts of the client package are what verifies here: one implementation, published with its vectors. */
const receipts = new URL("../clients/typescript/src/", import.meta.url).pathname;

export default defineConfig({
  base: "/console/",
  resolve: { alias: [{ find: /^@client\//, replacement: receipts }] },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  // No script of the page is inline, and no file is a data URL: the policy of the listener admits neither.
  build: { modulePreload: { polyfill: false }, assetsInlineLimit: 0, target: "es2023", sourcemap: false },
  test: { include: ["test/**/*.test.ts"] },
});
