// Runs before the first paint, so that a chosen theme does not flash.
{
  const theme = localStorage.getItem("theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
}
