import "uplot/dist/uPlot.min.css";
import "./style/tokens.css";
import "./style/base.css";
import "./style/controls.css";
import "./style/testing.css";
import "./style/demonstration.css";
import "./style/charts.css";
import "./style/results.css";
import "./style/narrow.css";

import { render } from "preact";

import { App } from "./app.tsx";
import { desk } from "./desk/store.ts";
import { startTheme } from "./theme.ts";

startTheme();
void desk.start();
const root = document.getElementById("desk");
if (root) render(<App />, root);
