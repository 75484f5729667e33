// Results: for every published table and figure, whether it was reproduced. The verdicts come first, the cells when asked.

import { useEffect, useMemo, useState } from "preact/hooks";

import { get } from "../../desk/client.ts";
import type { ResultCell, ResultRow, Results, Verdict } from "../../desk/types.ts";
import { href } from "../../route.ts";
import { Command } from "../../ui/controls.tsx";
import { number } from "../../units.ts";
import { RatioPlot, ratioWords } from "./ratio.tsx";

const signs: Record<Verdict, string> = {
  reproduced: "✓",
  "in kind": "≈",
  open: "?",
  differs: "≠",
  "not comparable": "○",
  "not measured": "–",
};
const verdicts = Object.keys(signs) as Verdict[];

function VerdictMark({ verdict }: { verdict: Verdict }) {
  return (
    <span class={`verdict ${verdict.replace(" ", "-")}`}>
      <i aria-hidden="true">{signs[verdict]}</i> {verdict}
    </span>
  );
}

/** `528 – 48,800` of the published or the measured values. */
function span(values: readonly number[]): string {
  if (values.length === 0) return "–";
  const min = Math.min(...values);
  const max = Math.max(...values);
  return min === max ? number(min) : `${number(min)} – ${number(max)}`;
}

function bounds(cell: ResultCell): string {
  if (cell.min === null && cell.max === null) return "";
  return `${cell.min === null ? "" : number(cell.min)} … ${cell.max === null ? "" : number(cell.max)}`;
}

function Cells({ row }: { row: ResultRow }) {
  const keys = [...new Set(row.cells.flatMap((cell) => Object.keys(cell.at)))];
  const hasPublished = row.cells.some((cell) => cell.published !== null);
  const hasBounds = row.cells.some((cell) => bounds(cell) !== "");
  return (
    <div class="scroll tall">
      <table class="figures">
        <thead>
          <tr>
            {keys.map((key) => (
              <th key={key} scope="col" class="text">
                {key.replace(/_/g, " ")}
              </th>
            ))}
            {hasPublished && <th scope="col">published</th>}
            <th scope="col">measured</th>
            <th scope="col" title="half of the 95 % interval of the mean">
              95 % ±
            </th>
            <th scope="col">n</th>
            {hasPublished && <th scope="col">ratio</th>}
            {hasBounds && <th scope="col">bounds</th>}
          </tr>
        </thead>
        <tbody>
          {row.cells.map((cell, index) => (
            <tr key={index} title={cell.command ?? undefined}>
              {keys.map((key) => (
                <td key={key} class="text">
                  {cell.at[key] ?? ""}
                </td>
              ))}
              {hasPublished && <td>{cell.published === null ? "" : number(cell.published)}</td>}
              <td class="main">{cell.measured ? number(cell.measured.mean) : "–"}</td>
              <td>{cell.measured && cell.measured.n > 1 ? number(cell.measured.ci95) : ""}</td>
              <td>{cell.measured?.n ?? ""}</td>
              {hasPublished && <td>{cell.ratio === null ? "" : number(cell.ratio)}</td>}
              {hasBounds && <td>{bounds(cell)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The claims that were not found to hold: those that fail, then those that are undecided. */
function Claims({ row }: { row: ResultRow }) {
  const claims = [
    ...row.not_held.map((claim) => ["differs", claim] as const),
    ...row.undecided.map((claim) => ["open", claim] as const),
  ];
  if (claims.length === 0) return null;
  return (
    <ul class="not-held">
      {claims.map(([verdict, claim]) => (
        <li key={claim}>
          <i aria-hidden="true">{signs[verdict]}</i> <span class="sr">{verdict}: </span>
          {claim}
        </li>
      ))}
    </ul>
  );
}

function Row({ row, isOpen, onToggle }: { row: ResultRow; isOpen: boolean; onToggle: () => void }) {
  const published = row.cells.flatMap((cell) => cell.published ?? []);
  const measured = row.cells.flatMap((cell) =>
    cell.published !== null && cell.measured ? [cell.measured.mean] : [],
  );
  const all = row.cells.flatMap((cell) => (cell.measured ? [cell.measured.mean] : []));
  return (
    <>
      <tr class={`result-row ${isOpen ? "open" : ""}`} onClick={onToggle}>
        <td>
          <VerdictMark verdict={row.verdict} />
        </td>
        <th scope="row">
          <button
            type="button"
            class="quiet"
            aria-expanded={isOpen}
            onClick={(event) => {
              event.stopPropagation();
              onToggle();
            }}
          >
            <small>{[row.source, row.where].filter(Boolean).join(" · ")}</small>
            {row.title}
          </button>
        </th>
        <td class="num" data-label="published">
          {span(published)}
        </td>
        <td class="num" data-label="measured">
          {span(measured.length > 0 ? measured : all)}
        </td>
        <td class="unit">{row.unit}</td>
        <td class="num" data-label="ratio">
          {ratioWords(row.cells)}
        </td>
        <td class="plot">
          <RatioPlot cells={row.cells} />
        </td>
      </tr>
      {isOpen && (
        <tr class="detail">
          <td colSpan={7}>
            <Cells row={row} />
            <Claims row={row} />
            <Command text={row.command} />
            {row.explanation && (
              <details class="more">
                <summary>Explanation</summary>
                {row.explanation.split("\n\n").map((paragraph) => (
                  <p key={paragraph} class="explanation">
                    {paragraph}
                  </p>
                ))}
              </details>
            )}
          </td>
        </tr>
      )}
    </>
  );
}

type Source = Results["sources"][number];

const total = (source: Source): number => verdicts.reduce((sum, name) => sum + (source.counts[name] ?? 0), 0);

function all(sources: readonly Source[]): Source {
  const counts: Source["counts"] = {};
  for (const name of verdicts)
    counts[name] = sources.reduce((sum, source) => sum + (source.counts[name] ?? 0), 0);
  return { id: "", title: "All sources", counts };
}

function Sources({ results, chosen }: { results: Results; chosen: string | null }) {
  const sources = results.sources.filter((source) => total(source) > 0);
  return (
    <nav class="sources" aria-label="sources">
      {[all(sources), ...sources].map((source) => {
        const found = verdicts.filter((name) => (source.counts[name] ?? 0) > 0);
        return (
          <a
            key={source.id}
            href={source.id === "" ? href("results") : href("results", source.id)}
            aria-current={(chosen ?? "") === source.id ? "true" : undefined}
          >
            <b>{source.title}</b>
            <span class="shares" aria-hidden="true">
              {found.map((name) => (
                <i
                  key={name}
                  class={name.replace(" ", "-")}
                  style={{ width: `${((source.counts[name] ?? 0) / total(source)) * 100}%` }}
                />
              ))}
            </span>
            <small title={found.map((name) => `${source.counts[name]} ${name}`).join(", ")}>
              {found.map((name) => (
                <span key={name}>
                  <i aria-hidden="true">{signs[name]}</i> {source.counts[name]}{" "}
                  <span class="sr">{name} </span>
                </span>
              ))}
            </small>
          </a>
        );
      })}
    </nav>
  );
}

/** In the order of the sources, which is that of the cards above. */
function chosenRows(results: Results | null, source: string | null, verdict: Verdict | ""): ResultRow[] {
  if (!results) return [];
  const places = new Map(results.sources.map(({ id }, index) => [id, index]));
  const place = (row: ResultRow): number => places.get(row.source) ?? places.size;
  return results.rows
    .filter(
      (row) => (source === null || row.source === source) && (verdict === "" || row.verdict === verdict),
    )
    .sort((a, b) => place(a) - place(b));
}

/** How many rows there are, and how many of them count with another. */
function heading(rows: ResultRow[]): string {
  const beside = rows.filter((row) => !row.counted).length;
  return `${rows.length} tables and figures${beside > 0 ? `, ${beside} counted with another` : ""}`;
}

export function ResultsPage({ source }: { source: string | null }) {
  const [results, setResults] = useState<Results | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [open, setOpen] = useState<string | null>(null);
  const [verdict, setVerdict] = useState<Verdict | "">("");
  useEffect(() => {
    get<Results>("results").then(setResults, (problem: unknown) => setError(String(problem)));
  }, []);
  const rows = useMemo(() => chosenRows(results, source, verdict), [results, source, verdict]);
  if (error) return <p class="panel error">{error}</p>;
  if (!results) return <p class="empty">…</p>;
  return (
    <>
      <Sources results={results} chosen={source} />
      <section class="panel verdicts" aria-label="verdicts">
        <header>
          <h2 title="Those of the same runs and claims count once">{heading(rows)}</h2>
          <p class="note legend">
            {verdicts.map((name) => (
              <span key={name}>
                <i aria-hidden="true">{signs[name]}</i> {name}
              </span>
            ))}
          </p>
          <label class="pick short">
            <span>Verdict</span>
            <select
              value={verdict}
              onChange={(event) => setVerdict(event.currentTarget.value as Verdict | "")}
            >
              <option value="">all</option>
              {verdicts.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </label>
        </header>
        <table class="results">
          <thead>
            <tr>
              <th scope="col">verdict</th>
              <th scope="col">what</th>
              <th scope="col" class="num">
                published
              </th>
              <th scope="col" class="num">
                measured
              </th>
              <th scope="col" />
              <th scope="col" class="num" title="measured over published">
                ratio
              </th>
              <th scope="col" class="plot">
                <span>0.01</span>
                <span>1</span>
                <span>100</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <Row
                key={row.id}
                row={row}
                isOpen={open === row.id}
                onToggle={() => setOpen(open === row.id ? null : row.id)}
              />
            ))}
          </tbody>
        </table>
      </section>
    </>
  );
}
