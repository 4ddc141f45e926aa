// Starts Swagger UI. Its summaries are buttons, which may hold no link: opening one still writes the address.
{
  const box = document.getElementById("swagger-ui");
  const reads = ["GET", "HEAD", "OPTIONS", undefined];
  const inside = (element, attributes) => (Original, { React }) => (props) =>
    React.createElement(element, attributes, React.createElement(Original, props));
  const accessible = () => ({
    wrapComponents: {
      DeepLink: (_, { React }) => ({ text }) => React.createElement("span", { className: "nostyle" }, text),
      InfoContainer: inside("section", { "aria-label": "About the API" }),
      FilterContainer: inside("div", { role: "search" }),
      TextArea: (Original, { React }) => (props) =>
        React.createElement("label", null, "Body", React.createElement(Original, props)),
      operations: (Original, { React }) => (props) =>
        React.createElement(
          React.Fragment,
          null,
          React.createElement("h2", { className: "api-heading" }, "Operations"),
          React.createElement(Original, props),
        ),
    },
  });
  // Swagger UI names no choice of a parameter, and calls each table of responses a landmark without a name.
  const mend = () => {
    for (const table of box.querySelectorAll(".responses-table[role]")) table.removeAttribute("role");
    for (const choice of box.querySelectorAll("tr[data-param-name] select:not([aria-label])"))
      choice.setAttribute("aria-label", choice.closest("tr").dataset.paramName);
  };
  new MutationObserver(mend).observe(box, { childList: true, subtree: true });
  SwaggerUIBundle({
    url: box.dataset.schema,
    dom_id: "#swagger-ui",
    presets: [SwaggerUIBundle.presets.apis],
    plugins: [accessible],
    layout: "BaseLayout",
    deepLinking: true,
    docExpansion: "none",
    filter: true,
    defaultModelsExpandDepth: 0,
    syntaxHighlight: { theme: "obsidian" }, // its numbers are light enough
    requestInterceptor: (request) => {
      const own = new URL(request.url, document.baseURI).origin === location.origin;
      if (own && !reads.includes(request.method)) request.headers["X-CSRFToken"] = box.dataset.csrf;
      return request;
    },
  });
}
