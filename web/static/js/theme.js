// Which theme was chosen here? Before the first paint, so this one is no module. Nothing chosen: the system's.
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // A browser that keeps nothing for this site follows the system.
}
