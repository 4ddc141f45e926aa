// Runs before the first paint, so that a chosen theme does not flash, nor a chosen density move things.
{
  const theme = localStorage.getItem("theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  if (localStorage.getItem("density") === "compact") document.documentElement.dataset.density = "compact";
}
