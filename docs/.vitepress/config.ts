/** The documentation as a site, of the same files as in the repository. `npm run docs` builds it; a broken link fails. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type DefaultTheme, defineConfig } from "vitepress";

const root = join(import.meta.dirname, "../..");
const index = readFileSync(join(root, "docs/README.md"), "utf8");

/** The kinds of page, and the links of each, as the index has them. */
const sidebar = index
  .split(/^## /m)
  .slice(1)
  .map((chapter): DefaultTheme.SidebarItem => {
    const links = [...chapter.matchAll(/\[([^\]]+)\]\(([^)#]+)\)/g)];
    const items = links.map(([, text = "", path = ""]) => ({
      text: text.replace(/^./, (c) => c.toUpperCase()),
      link: pageOf(path),
    }));
    return { text: chapter.split("\n", 1)[0] ?? "", collapsed: false, items };
  });

function pageOf(path: string): string {
  return `/${join("docs", path)
    .replace(/README\.md$/, "")
    .replace(/\.md$/, "")}`;
}

export default defineConfig({
  title: "svc-platform-api",
  description: "Decides whether a workload may protect, open or rewrap data, and records every decision",
  srcDir: "..",
  srcExclude: ["{data,dist,gen,policies,proto,src,test,tmp}/**", "**/{target,vendored,.venv,dist}/**"],
  cacheDir: "../node_modules/.cache/vitepress",
  // Mermaid's chunks are large, and only loaded on pages with diagrams. The esbuild of VitePress knows older targets.
  vite: {
    build: { chunkSizeWarningLimit: 4_096 },
    esbuild: { tsconfigRaw: { compilerOptions: { target: "es2022" } } },
  },
  rewrites: (page) => page.replace(/README\.md$/, "index.md"),
  themeConfig: {
    search: { provider: "local" },
    sidebar,
    outline: [2, 3],
    nav: [
      { text: "Documentation", link: "/docs/" },
      { text: "Security", link: "/SECURITY" },
      { text: "Changelog", link: "/CHANGELOG" },
    ],
  },
  markdown: {
    languageAlias: { cedar: "ts", cedarschema: "ts", "rust,no_run": "rust" },
    config(md) {
      md.core.ruler.push("repository-links", ({ tokens, env }) => {
        for (const { children } of tokens) for (const token of children ?? []) linkOf(token, env.realPath ?? env.path);
      });
      const fence = md.renderer.rules.fence;
      md.renderer.rules.fence = (tokens, at, ...rest) =>
        tokens[at]?.info === "mermaid"
          ? `<Mermaid code="${encodeURIComponent(tokens[at].content)}" />`
          : (fence?.(tokens, at, ...rest) ?? "");
    },
  },
});

/** A README is the index of its folder. What is no page has no address on the site: its link becomes plain text. */
function linkOf(token: { type: string; tag: string; attrs: [string, string][] | null }, page: string): void {
  const href = token.attrs?.find(([name]) => name === "href");
  if (token.type !== "link_open" || href === undefined || /^([a-z]+:|#|\/)/.test(href[1])) return;
  const [path = "", anchor] = href[1].split("#");
  const isFile = existsSync(join(dirname(page), path)) && !path.endsWith(".md");
  if (isFile) token.attrs = [["class", "file"]];
  else href[1] = path.replace(/README\.md$/, "index.md") + (anchor === undefined ? "" : `#${anchor}`);
}
