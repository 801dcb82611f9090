/**
 * Writes what is generated for the OpenAPI document: `comments.json` (the comments of the protobuf definitions, which
 * generated code does not carry), and each document as JSON and YAML.
 *
 * Usage: node scripts/openapi.ts [folder, default gen]
 */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { toJsonText, toYamlText } from "../src/portal/documents.ts";
import { defaultDocuments } from "./openapi-document.ts";
import { commentsOf } from "./proto-comments.ts";

const folder = process.argv[2] ?? join(import.meta.dirname, "../gen");
const image = execFileSync("buf", ["build", "proto", "-o", "-"], {
  cwd: join(import.meta.dirname, ".."),
  maxBuffer: 64 * 1024 * 1024,
});
const comments = commentsOf(fromBinary(FileDescriptorSetSchema, image), "platform.");
writeFileSync(join(folder, "comments.json"), `${JSON.stringify(comments, null, 2)}\n`);
for (const [name, document] of Object.entries(defaultDocuments(comments))) {
  writeFileSync(join(folder, `${name}.json`), toJsonText(document));
  writeFileSync(join(folder, `${name}.yaml`), toYamlText(document));
}
