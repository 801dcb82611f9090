// Starts Swagger UI with the document next to this page. Stores nothing: no tokens, no settings from the URL.
const dark = matchMedia("(prefers-color-scheme: dark)");
const applyTheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", applyTheme);
applyTheme();

// The rules of every call are a page of text, so they are hidden until requested.
const rules = document.getElementById("explorer-rules");
rules.addEventListener("click", (event) => {
  event.preventDefault();
  const shown = document.documentElement.classList.toggle("rules-shown");
  rules.setAttribute("aria-expanded", String(shown));
  if (shown) document.querySelector("#explorer .info .description")?.scrollIntoView({ block: "nearest" });
});

const place = document.getElementById("explorer");

function show(text) {
  const note = document.createElement("p");
  note.className = "explorer-note";
  note.setAttribute("role", "alert");
  note.textContent = text;
  place.replaceChildren(note);
}

async function start() {
  const response = await fetch(place.dataset.document);
  if (!response.ok) throw new Error(`${place.dataset.document}: ${response.status}`);
  const spec = await response.json();
  // Calls go to the host name and path prefix that served this page.
  spec.servers = [{ url: new URL(".", location.href).href.replace(/\/$/, ""), description: "This deployment" }];
  // In the order of the work, which is that of the paths: discover, decide, register, record evidence.
  const groups = Object.values(spec.paths).flatMap((path) => Object.values(path).flatMap(({ tags = [] }) => tags));
  spec.tags.sort((a, b) => groups.indexOf(a.name) - groups.indexOf(b.name));
  // Swagger UI would link to a public list of licences, which does not contain ours.
  delete spec.info.license.identifier;
  place.replaceChildren();
  const { token } = place.dataset;
  const ui = globalThis.SwaggerUIBundle({
    spec,
    domNode: place,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    persistAuthorization: false,
    queryConfigEnabled: false,
    tryItOutEnabled: true,
    validatorUrl: null,
    responseInterceptor: (response) => {
      outcome.textContent = outcomeOf(response.status, response.obj ?? {});
      return response;
    },
    onComplete: () => {
      if (token !== undefined) offerToken(ui, token, Object.keys(spec.components.securitySchemes)[0]);
    },
  });
}

// What an answer says, before the reader has found it in the body.
const outcome = document.getElementById("explorer-outcome");

function outcomeOf(status, { decision: given, context, registration, ingestion, error }) {
  if (error) return `${status} ${error.reason}: ${error.message}`;
  // AuthZEN answers a bare yes or no, and the rest beside it.
  const decision = typeof given === "boolean" ? { allow: given, ...context } : given;
  if (decision) {
    const why = decision.reasons?.join(", ") || (decision.allow ? "" : "no policy permits it");
    return `${decision.allow ? "ALLOW" : "DENY"} ${why} (decision ${decision.decision_id})`;
  }
  const recorded = registration ?? ingestion;
  if (recorded) return `${recorded.accepted ? "ACCEPTED" : "REFUSED"} (record ${recorded.receipt?.record_id})`;
  return String(status);
}

/** Only a development stack gives out tokens. */
function offerToken(ui, path, scheme) {
  const button = document.createElement("button");
  button.type = "button";
  button.id = "explorer-token";
  button.textContent = "Use a token of this development stack";
  button.addEventListener("click", async () => {
    const response = await fetch(path);
    if (response.ok) ui.preauthorizeApiKey(scheme, await response.text());
    outcome.textContent = response.ok ? "Calls carry a token, good for five minutes." : `No token: ${response.status}`;
  });
  document.querySelector(".explorer-hint").append(" ", button);
}

start().catch((error) => show(`The contract could not be loaded. ${error.message}`));
