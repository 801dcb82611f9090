/** The page that the explorer runs in. */
import { escapeHtml, icon } from "../html.ts";

/** Renders the page. Links are relative to `/explorer`. */
export function explorerHtml(service: string): string {
  const name = escapeHtml(service);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${name} · explorer</title>
<link rel="icon" href="${icon}">
<link rel="stylesheet" href="explorer/swagger-ui.css">
<link rel="stylesheet" href="explorer/explorer.css">
<script src="explorer/swagger-ui-bundle.js" defer></script>
<script src="explorer/explorer.js" defer></script>
</head>
<body>
<header class="explorer-header"><a href="./">${name}</a><nav aria-label="Document"><a href="openapi.json">JSON</a> <a href="openapi.yaml">YAML</a></nav></header>
<main id="explorer"><p class="explorer-note">Loading the contract…</p></main>
<noscript><p class="explorer-note">The explorer needs JavaScript. The contract itself is <a href="openapi.json">openapi.json</a>.</p></noscript>
</body>
</html>
`;
}
