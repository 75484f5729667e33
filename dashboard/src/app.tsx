// The frame around the four pages: where one is, who is connected, and what to do if the program is gone.

import { useEffect, useRef, useState } from "preact/hooks";

import type { Agent } from "./desk/types.ts";
import { desk, useDesk } from "./desk/store.ts";
import { Demonstration } from "./pages/demonstration/page.tsx";
import { Live } from "./pages/live/page.tsx";
import { ResultsPage } from "./pages/results/page.tsx";
import { Testing } from "./pages/testing/page.tsx";
import { go, href, pages, useRoute, type PageName } from "./route.ts";
import { onTheme, theme, toggleTheme } from "./theme.ts";

const titles: Record<PageName, string> = {
  testing: "Testing",
  demonstration: "Demonstration",
  live: "Live",
  results: "Results",
};

function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

const keys: readonly [string, string][] = [
  ["1 – 4", "the four pages"],
  ["d", "dark or light"],
  ["Ctrl+Enter", "start"],
  ["Tab, arrow keys", "everything else; arrows turn values and sliders"],
  ["?", "this list"],
];

/** What the keys do, over the page. */
function Keys() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (isTyping(event) || event.key !== "?") return;
      if (dialog.current?.open) dialog.current.close();
      else dialog.current?.showModal();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return (
    <>
      <button
        type="button"
        class="quiet"
        title="keys (?)"
        aria-label="keys"
        onClick={() => dialog.current?.showModal()}
      >
        ?
      </button>
      <dialog ref={dialog} class="panel keys" aria-label="keys" onClick={() => dialog.current?.close()}>
        <dl>
          {keys.map(([key, what]) => (
            <div key={key}>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
      </dialog>
    </>
  );
}

function useKeys(): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
      const page = pages[Number(event.key) - 1];
      if (page) go(page);
      if (event.key === "d") toggleTheme();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

function ThemeButton() {
  const [now, setNow] = useState(theme());
  useEffect(() => onTheme(setNow), []);
  const other = now === "dark" ? "light" : "dark";
  return (
    <button
      type="button"
      class="quiet"
      onClick={toggleTheme}
      title={`${other} ground (d)`}
      aria-label={`${other} ground`}
    >
      {now === "dark" ? "☀" : "☾"}
    </button>
  );
}

function AgentLamp({ agent }: { agent: Agent }) {
  const state = agent.connected ? "connected" : "lost";
  const title = `${agent.role}, ${agent.address}${agent.data_address && `, data ${agent.data_address}`}\n${agent.key}`;
  return (
    <span class={`agent ${state}`} title={title}>
      <i aria-hidden="true">{agent.connected ? "●" : "✕"}</i> <small>{agent.role}</small> {agent.name}
      {!agent.connected && " lost"}
    </span>
  );
}

/** As the data go: sender, receiver, then those that wait. */
function agentsInOrder(agents: readonly Agent[]): Agent[] {
  const order = ["sender", "receiver", "spare"];
  return [...agents].sort(
    (a, b) => order.indexOf(a.role) - order.indexOf(b.role) || a.name.localeCompare(b.name),
  );
}

function Head({ page }: { page: PageName }) {
  const { state, connection } = useDesk();
  const running = state?.runs.find((run) => run.id === state.running);
  return (
    <header class="head">
      <a class="brand" href={href("testing")}>
        <svg viewBox="0 0 32 20" width="32" height="20" aria-hidden="true">
          <path d="M1 13h6l3-10 4 14 4-16 3 12h10" fill="none" stroke="currentColor" stroke-width="2" />
        </svg>
        fulmar <small>operator’s desk</small>
      </a>
      <nav aria-label="pages">
        {pages.map((name, index) => (
          <a
            key={name}
            href={href(name)}
            aria-current={name === page ? "page" : undefined}
            title={`key ${index + 1}`}
          >
            {titles[name]}
          </a>
        ))}
      </nav>
      <div class="who">
        {running && (
          <a class="under-way" href={href(running.kind === "demo" ? "demonstration" : "testing", running.id)}>
            <i aria-hidden="true">●</i> {running.progress.done}/{running.progress.total}
            <span class="sr"> transfers of the run under way</span>
          </a>
        )}
        {agentsInOrder(state?.agents ?? []).map((agent) => (
          <AgentLamp key={agent.name} agent={agent} />
        ))}
        {state && state.watchers > 1 && <span title="pages that watch">{state.watchers} watching</span>}
        <span class={`link ${connection}`} role="status">
          {connection === "open" ? "" : connection === "connecting" ? "connecting" : "no connection"}
        </span>
        <Keys />
        <ThemeButton />
      </div>
    </header>
  );
}

/** No way in without the token: say where it is and take it. */
function Refused() {
  const [token, setToken] = useState("");
  const enter = (event: Event): void => {
    event.preventDefault();
    const bare = /[?&]token=([^&\s]+)/.exec(token)?.[1] ?? token.trim();
    location.href = `/?token=${encodeURIComponent(bare)}`;
  };
  return (
    <main class="refused">
      <h1>This desk is locked</h1>
      <p>
        The program prints its address with a token when it starts, as its first line. Open that address, or
        put it in here.
      </p>
      <form onSubmit={enter}>
        <label for="token">Address or token</label>
        <input
          id="token"
          autocomplete="off"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <button type="submit" class="go">
          Enter
        </button>
      </form>
    </main>
  );
}

function Page({ name, rest }: { name: PageName; rest: string[] }) {
  switch (name) {
    case "testing":
      return <Testing wanted={rest[0] ?? null} />;
    case "demonstration":
      return <Demonstration wanted={rest[0] ?? null} />;
    case "live":
      return <Live wanted={rest[0] ?? null} behind={rest[1] ?? null} />;
    case "results":
      return <ResultsPage source={rest[0] ?? null} />;
  }
}

export function App() {
  const { connection, state, catalogue } = useDesk();
  const route = useRoute();
  useKeys();
  useEffect(() => {
    document.title = `${titles[route.page]} · Fulmar`;
    scrollTo(0, 0);
  }, [route.page]);
  if (connection === "refused") return <Refused />;
  return (
    <>
      <Head page={route.page} />
      {connection === "lost" && (
        <p class="banner" role="alert">
          The program does not answer. Runs go on without this page; it comes back by itself when the program
          does.
          <button type="button" class="quiet" onClick={() => void desk.start()}>
            Try now
          </button>
        </p>
      )}
      <main class={`page ${route.page}`}>
        {state && catalogue ? <Page name={route.page} rest={route.rest} /> : <p class="empty">…</p>}
      </main>
    </>
  );
}
