// Dark or light: what the machine prefers until somebody chooses.

export type Theme = "dark" | "light";

const key = "fulmar-theme";
const machine = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<(theme: Theme) => void>();

export function theme(): Theme {
  const chosen = localStorage.getItem(key);
  if (chosen === "dark" || chosen === "light") return chosen;
  return machine.matches ? "dark" : "light";
}

function apply(): void {
  document.documentElement.dataset["theme"] = theme();
  listeners.forEach((listener) => listener(theme()));
}

export function toggleTheme(): void {
  localStorage.setItem(key, theme() === "dark" ? "light" : "dark");
  apply();
}

/** Calls `listener` at each change (canvases have to be painted again); returns how to end that. */
export function onTheme(listener: (theme: Theme) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function startTheme(): void {
  machine.addEventListener("change", apply);
  apply();
}
