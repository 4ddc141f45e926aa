// The API's page wears Swagger UI's own dark look, by the theme that was chosen in the hub or the system's.
{
  const chosen = localStorage.getItem("theme");
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.classList.toggle("dark-mode", dark);
}
