// Starts Swagger UI on the document beside this page. Nothing is kept: no token in storage, no setting from the URL.
const dark = matchMedia("(prefers-color-scheme: dark)");
const applyTheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", applyTheme);
applyTheme();

const place = document.getElementById("explorer");

function show(text) {
  const note = document.createElement("p");
  note.className = "explorer-note";
  note.setAttribute("role", "alert");
  note.textContent = text;
  place.replaceChildren(note);
}

async function start() {
  const response = await fetch("openapi.json");
  if (!response.ok) throw new Error(`openapi.json: ${response.status}`);
  const spec = await response.json();
  // Calls go to where this page came from, whatever host name and path prefix that is.
  spec.servers = [{ url: new URL(".", location.href).href.replace(/\/$/, ""), description: "This deployment" }];
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
