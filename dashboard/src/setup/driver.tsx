// What carries the run: kernel and sockets over the bridge, sockets through a relay, or virtual time.

import type { Driver, DriverName, Spec } from "../desk/types.ts";
import { Positions } from "../ui/controls.tsx";

const words: Record<DriverName, { label: string; title: string }> = {
  real: {
    label: "bridge",
    title: "real time: the kernel and sockets, over the bridge between two network namespaces",
  },
  relay: {
    label: "relay",
    title: "real time: sockets through a relay; needs no rights, knows no kernel TCP",
  },
  virtual: {
    label: "virtual time",
    title: "the simulator: exact, fast; no kernel TCP, cannot be moved while it runs",
  },
};

export function DriverChoice(props: {
  drivers: Driver[];
  kind: Spec["kind"];
  value: DriverName;
  onChange: (driver: DriverName) => void;
}) {
  const offered = props.drivers.filter((driver) => props.kind === "test" || driver.name !== "virtual");
  const missing = offered.filter((driver) => !driver.available && driver.missing !== "");
  return (
    <div>
      <Positions
        label="Runs over"
        value={props.value}
        options={offered.map((driver) => ({
          value: driver.name,
          label: words[driver.name].label,
          title: driver.available ? words[driver.name].title : driver.missing,
          isDisabled: !driver.available,
        }))}
        onChange={props.onChange}
      />
      {missing.map((driver) => (
        <p class="note" key={driver.name}>
          <b>{words[driver.name].label}</b> is missing: {driver.missing}
        </p>
      ))}
    </div>
  );
}
