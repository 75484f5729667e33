// Requests to the program that served this page. It is let in by the cookie that the printed URL has set.

/** An answer that is not what was asked for; `field` is the path of the setting that is to blame, if one is. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly field: string | null,
  ) {
    super(message);
  }
}

export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(`/api/${path}`, { cache: "no-store", ...init });
  } catch {
    throw new Refusal(0, "the program does not answer", null);
  }
  if (answer.ok) return answer;
  const body: unknown = await answer.json().catch(() => null);
  const { error } = (body ?? {}) as { error?: { message?: string; field?: string } };
  throw new Refusal(answer.status, error?.message ?? `status ${answer.status}`, error?.field ?? null);
}

export async function get<T>(path: string): Promise<T> {
  return (await (await request(path)).json()) as T;
}

export async function send<T>(method: "POST" | "PATCH" | "DELETE", path: string, body?: unknown): Promise<T> {
  const init: RequestInit = { method };
  if (body !== undefined) {
    init.headers = { "Content-Type": "application/json" };
    init.body = JSON.stringify(body);
  }
  const answer = await request(path, init);
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

/** Hands a text to the person as a file. */
export function save(name: string, text: string, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
