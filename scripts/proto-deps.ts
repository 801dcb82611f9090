/**
 * Puts the `.proto` files of other projects that ours import into `.proto-deps/`, which git ignores. Each file comes
 * from a published package at a pinned version and is checked against a pinned SHA-256, so that `buf` compiles the same
 * everywhere. Needed to lint and to generate, not to run or to test.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";

const target = resolve(import.meta.dirname, "../.proto-deps");
const packageRoot = (name: string) => dirname(createRequire(import.meta.url).resolve(`${name}/package.json`));
const googleRoot = packageRoot("google-proto-files");
const protovalidateVersion = "v1.2.2";

/** The Go module proxy serves the module; `go mod download` verifies it against the checksum database. */
function protovalidateRoot(): string {
  const answer = execFileSync(
    "go",
    ["mod", "download", "-json", `github.com/bufbuild/protovalidate@${protovalidateVersion}`],
    { encoding: "utf8", cwd: target },
  );
  return join((JSON.parse(answer) as { Dir: string }).Dir, "proto/protovalidate");
}

interface ProtoFile {
  readonly root: () => string;
  /** Path by which others import the file, and at which it is put. */
  readonly path: string;
  /** Path below the root, if it is another one. */
  readonly from?: string;
  readonly sha256: string;
}

const files: readonly ProtoFile[] = [
  {
    root: () => googleRoot,
    path: "google/api/annotations.proto",
    sha256: "e79ea741cb605a65e78ca322174764a4af9fde1962c1631e12b84c4934ba9a6c",
  },
  {
    root: () => googleRoot,
    path: "google/api/http.proto",
    sha256: "ead99129aa15dd5f6233942030c72eec33bc0d7b1c7c260dc143293ef66c5b78",
  },
  {
    root: () => googleRoot,
    path: "google/rpc/error_details.proto",
    sha256: "5c18d42e6924f447622534b4b7cdb8b53c0606c8ce729b912ee5edf88d1c5520",
  },
  {
    root: protovalidateRoot,
    path: "buf/validate/validate.proto",
    sha256: "a1dc1163ebac930b3b070655b91f2bc78df8b4aea940021661fe5ec7904a7b88",
  },
  {
    root: () => packageRoot("grpc-health-check"),
    path: "grpc/health/v1/health.proto",
    from: "proto/health/v1/health.proto",
    sha256: "56f603a42e4f9ca2d2f50ec7217871509c090566fefc5cb97aa90d1c1cb2a212",
  },
  {
    root: () => packageRoot("@grpc/reflection"),
    path: "grpc/reflection/v1/reflection.proto",
    from: "build/proto/grpc/reflection/v1/reflection.proto",
    sha256: "873f0d93cb89138f6cbfce5e3abfa184c41e23cbf8f4837e6317921fa1902299",
  },
  {
    root: () => packageRoot("@grpc/reflection"),
    path: "grpc/reflection/v1alpha/reflection.proto",
    from: "build/proto/grpc/reflection/v1alpha/reflection.proto",
    sha256: "9dc8aa98b92cdce134932222ee4c96f3a16b8d3142006888a12798a531f726fc",
  },
];

rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
for (const { root, path, from = path, sha256 } of files) {
  const source = join(root(), from);
  const found = createHash("sha256").update(readFileSync(source)).digest("hex");
  if (found !== sha256) throw new Error(`${path}: SHA-256 is ${found}, expected ${sha256}`);
  mkdirSync(dirname(join(target, path)), { recursive: true });
  cpSync(source, join(target, path));
}
