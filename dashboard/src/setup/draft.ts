// The experiment as it stands in the form, before it is started. It outlives a reload; what runs is the controller's.

import { useCallback, useEffect, useState } from "preact/hooks";

import { Refusal, send } from "../desk/client.ts";
import type { Catalogue, Driver, Spec, State } from "../desk/types.ts";

export interface Draft {
  spec: Spec;
  set: (change: Partial<Spec>) => void;
  replace: (spec: Spec) => void;
  /** What is wrong, by the path of the setting; "" is the whole. */
  errors: Record<string, string>;
  /** About how long it takes. */
  seconds: number | null;
}

function stored(key: string): Spec | null {
  try {
    const text = localStorage.getItem(key);
    return text === null ? null : (JSON.parse(text) as Spec);
  } catch {
    return null;
  }
}

/** The first driver that is there, in the order that suits the kind of run. */
export function bestDriver(drivers: readonly Driver[], kind: Spec["kind"]): Driver["name"] {
  const order = kind === "demo" ? (["real", "relay"] as const) : (["real", "virtual", "relay"] as const);
  return order.find((name) => drivers.some((driver) => driver.name === name && driver.available)) ?? order[1];
}

/** A spec from elsewhere, made to run here: another driver if its own is missing. */
export function fitted(spec: Spec, state: State): Spec {
  const isThere = state.drivers.some((driver) => driver.name === spec.driver && driver.available);
  return isThere ? spec : { ...spec, driver: bestDriver(state.drivers, spec.kind) };
}

function initial(kind: Spec["kind"], state: State, catalogue: Catalogue): Spec {
  const driver = bestDriver(state.drivers, kind);
  const preset = kind === "demo" ? catalogue.run_presets.find((p) => p.spec.kind === "demo") : undefined;
  if (preset) return { ...preset.spec, preset: preset.id, driver };
  const transports = driver === "real" ? ["auto", "tcp-cubic", "tcp-bbr"] : ["auto", "cubic", "bbr"];
  const forward = { rate: "100M", delay: "10ms", loss: "5%", burst: "5" };
  return {
    kind,
    driver,
    transports,
    path: { forward, backward: null },
    amount: { seconds: 3 },
    transfers: 1,
  };
}

export function useDraft(kind: Spec["kind"], state: State, catalogue: Catalogue): Draft {
  const key = `fulmar-draft-${kind}`;
  const [spec, setSpec] = useState<Spec>(() => stored(key) ?? initial(kind, state, catalogue));
  const [errors, setErrors] = useState<Record<string, string>>({});
  const [seconds, setSeconds] = useState<number | null>(null);

  useEffect(() => {
    localStorage.setItem(key, JSON.stringify(spec));
    if (spec.transports.length === 0) {
      setErrors({ transports: "choose at least one" });
      return undefined;
    }
    let isOld = false;
    const timer = setTimeout(async () => {
      try {
        const answer = await send<{ seconds: number | null }>("POST", "check", spec);
        if (isOld) return;
        setErrors({});
        setSeconds(answer.seconds);
      } catch (error) {
        if (isOld || !(error instanceof Refusal)) return;
        setErrors({ [error.field ?? ""]: error.message });
        setSeconds(null);
      }
    }, 250);
    return () => {
      isOld = true;
      clearTimeout(timer);
    };
  }, [key, spec]);

  // What a person changes by hand is no longer the preset, unless only its extent changed.
  const set = useCallback((change: Partial<Spec>) => {
    setSpec((was) => {
      const next = { ...was, ...change };
      if ("path" in change || "transports" in change) delete next.preset;
      if (!("title" in change)) delete next.title;
      return next;
    });
  }, []);
  return { spec, set, replace: setSpec, errors, seconds };
}

/** Errors of settings that no field shows. */
export function otherErrors(errors: Record<string, string>): string[] {
  const shown = /^(path\.(forward|backward)\.|transports|amount|transfers|seed|time_max_s)/;
  return Object.entries(errors)
    .filter(([field]) => !shown.test(field))
    .map(([, message]) => message);
}
