// Starts Swagger UI on the document beside this page. Nothing is kept: no token in storage, no setting from the URL.
const dark = matchMedia("(prefers-color-scheme: dark)");
const applyTheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", applyTheme);
applyTheme();

// The rules of every call are a page of prose: they are there for those who ask.
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
  // Calls go to where this page came from, whatever host name and path prefix that is.
  spec.servers = [{ url: new URL(".", location.href).href.replace(/\/$/, ""), description: "This deployment" }];
  // In the order of the work, which is that of the paths: discover, decide, register, give evidence.
  const groups = Object.values(spec.paths).flatMap((path) => Object.values(path).flatMap(({ tags = [] }) => tags));
  spec.tags.sort((a, b) => groups.indexOf(a.name) - groups.indexOf(b.name));
  // Swagger UI would link to a public list of licences, in which ours is not.
  delete spec.info.license.identifier;
  place.replaceChildren();
  globalThis.SwaggerUIBundle({
    spec,
    domNode: place,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    persistAuthorization: false,
    queryConfigEnabled: false,
    tryItOutEnabled: true,
    validatorUrl: null,
  });
}

start().catch((error) => show(`The contract could not be loaded. ${error.message}`));
