// Where the person is: `#/live/RUN/RUN2`. The address keeps it, so that a reload and a link lead back to the same place.

import { useEffect, useState } from "preact/hooks";

export type PageName = "testing" | "demonstration" | "live" | "results";
export const pages: readonly PageName[] = ["testing", "demonstration", "live", "results"];

export interface Route {
  page: PageName;
  /** Runs, or a source of results. */
  rest: string[];
}

function read(): Route {
  const [page, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const found = pages.find((name) => name === page);
  return { page: found ?? "testing", rest: rest.filter((part) => part !== "") };
}

export function go(page: PageName, ...rest: string[]): void {
  location.hash = `#/${[page, ...rest].map(encodeURIComponent).join("/")}`;
}

export function href(page: PageName, ...rest: string[]): string {
  return `#/${[page, ...rest].map(encodeURIComponent).join("/")}`;
}

export function useRoute(): Route {
  const [route, setRoute] = useState(read);
  useEffect(() => {
    const change = (): void => setRoute(read());
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return route;
}
