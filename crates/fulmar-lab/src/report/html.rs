//! The page: static, without scripts, legible on light and dark ground.

use std::fmt::Write;

use super::chapter::Chapter;
use super::row::Row;
use super::svg::{escape, short};
use super::words;
use crate::statistics::Summary;

const STYLE: &str = "
:root { color-scheme: light dark; --soft: color-mix(in srgb, currentColor 60%, transparent); --line: color-mix(in srgb, currentColor 15%, transparent); }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1.5rem; }
p.source, p.remark { color: var(--soft); max-width: 60rem; margin: .3rem 0; }
nav a { display: block; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; vertical-align: bottom; white-space: normal; max-width: 9rem; } th.key, td.key { text-align: left; }
td small { color: var(--soft); display: inline-block; min-width: 4.2em; text-align: left; padding-left: .3em; }
tr.group td { border-top: 1px solid color-mix(in srgb, currentColor 45%, transparent); } tr.outside td { color: #d55e00; }
code { font-size: .82rem; } td code { color: var(--soft); }
pre { background: color-mix(in srgb, currentColor 6%, transparent); padding: .5rem .8rem; border-radius: .3rem; overflow-x: auto; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(30rem, 1fr)); gap: 1rem; } svg { max-width: 100%; height: auto; }
.scroll { overflow-x: auto; } details { margin: .5rem 0; }
";

/// A page under way.
pub(super) struct Page {
    contents: String,
    body: String,
}

impl Page {
    pub(super) fn new() -> Self {
        Self { contents: String::new(), body: String::new() }
    }

    /// Adds an experiment.
    pub(super) fn add(&mut self, chapter: &Chapter, drawings: &[String]) {
        let e = &chapter.experiment;
        let (name, title) = (escape(&e.name), escape(&e.title));
        let _ = write!(self.contents, "<a href='#{name}'>{title}</a>");
        let _ = write!(self.body, "<h2 id='{name}'>{title}</h2>");
        for (class, text) in [("source", &e.source), ("remark", &e.remark)] {
            if !text.is_empty() {
                let _ = write!(self.body, "<p class='{class}'>{}</p>", escape(text));
            }
        }
        let (file, quick) =
            name.strip_suffix("-quick").map_or((name.as_str(), ""), |file| (file, " --quick"));
        let (file, quick) = file.strip_suffix("-sample").map_or((file, quick), |file| (file, " --sample"));
        let _ = write!(self.body, "<pre>fulmar-lab run experiments/{file}.toml{quick}</pre>");
        let _ = write!(
            self.body,
            "<p class='source'>Data: <a href='{name}.csv'>CSV</a>, <a href='{name}.json'>JSON</a></p>"
        );
        self.body.push_str("<div class='plots'>");
        drawings.iter().for_each(|drawing| self.body.push_str(drawing));
        self.body.push_str("</div>");
        self.add_table(chapter);
        self.add_commands(chapter);
    }

    fn add_table(&mut self, chapter: &Chapter) {
        let e = &chapter.experiment;
        let has_published = chapter.rows.iter().any(|row| row.published.is_some());
        self.body.push_str("<div class='scroll'><table><tr>");
        e.sweep
            .keys()
            .for_each(|key| self.body.push_str(&format!("<th class='key'>{}</th>", escape(&words::of(key)))));
        for (index, measure) in e.measures.iter().enumerate() {
            let _ = write!(self.body, "<th>{}</th>", escape(&words::of(measure)));
            if index == 0 && has_published {
                self.body.push_str("<th>published</th><th>measured / published</th>");
            }
        }
        self.body.push_str("<th>runs</th></tr>");
        // A line between groups of rows that share their first setting.
        let group = |row: &Row| row.cell.values().next().cloned();
        let mut last = chapter.rows.first().and_then(group);
        for row in &chapter.rows {
            let is_next = row.cell.len() > 1 && group(row) != last;
            last = group(row);
            self.add_row(row, has_published, is_next);
        }
        self.body.push_str("</table></div>");
    }

    fn add_row(&mut self, row: &Row, has_published: bool, is_next_group: bool) {
        let mean = row.measured.first().and_then(Option::as_ref).map(|s| s.mean);
        let class = match (row.is_outside, is_next_group) {
            (true, true) => " class='outside group'",
            (true, false) => " class='outside'",
            (false, true) => " class='group'",
            (false, false) => "",
        };
        let _ = write!(self.body, "<tr{class}>");
        row.cell
            .values()
            .for_each(|value| self.body.push_str(&format!("<td class='key'>{}</td>", escape(value))));
        for (index, summary) in row.measured.iter().enumerate() {
            match summary {
                Some(s) => self.body.push_str(&measured(s)),
                None => self.body.push_str("<td>-</td>"),
            }
            if index == 0 && has_published {
                let ratio = row
                    .published
                    .zip(mean)
                    .filter(|(published, _)| *published > 0.0)
                    .map(|(published, mean)| mean / published);
                let cell = |value: Option<f64>| value.map_or("-".into(), short);
                let _ = write!(self.body, "<td>{}</td><td>{}</td>", cell(row.published), cell(ratio));
            }
        }
        let runs = row.measured.first().and_then(Option::as_ref).map_or(0, |s| s.n);
        let _ = write!(self.body, "<td>{runs}</td></tr>");
    }

    /// The command of one run of each cell.
    fn add_commands(&mut self, chapter: &Chapter) {
        if chapter.rows.iter().all(|row| row.command.is_none()) {
            return;
        }
        self.body.push_str("<details><summary>One run of each</summary><div class='scroll'><table>");
        for row in &chapter.rows {
            self.body.push_str("<tr>");
            row.cell
                .values()
                .for_each(|value| self.body.push_str(&format!("<td class='key'>{}</td>", escape(value))));
            let _ = write!(
                self.body,
                "<td class='key'><code>{}</code></td></tr>",
                escape(row.command.as_deref().unwrap_or(""))
            );
        }
        self.body.push_str("</table></div></details>");
    }

    /// The page.
    pub(super) fn finish(self) -> String {
        format!(
            "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' content='width=device-width'>\
             <title>Fulmar: results</title><style>{STYLE}</style></head><body><h1>Results of the laboratory</h1>\
             <p class='remark'>Means over runs with different seeds, &plusmn; half of the 95 % confidence interval; standard deviation, median and \
             range show when the pointer rests on a value. Goodput is what the receiving application read. Dashed and hollow: \
             published values. Each command repeats what stands below it.</p>\
             <nav>{}</nav>{}</body></html>\n",
            self.contents, self.body
        )
    }
}

/// A mean with its interval; what else is known shows when the pointer rests on it.
fn measured(s: &Summary) -> String {
    if s.n < 2 {
        return format!("<td>{}</td>", short(s.mean));
    }
    format!(
        "<td title='standard deviation {}, median {}, {} to {}, {} runs'>{} <small>&plusmn; {}</small></td>",
        short(s.sd),
        short(s.median),
        short(s.min),
        short(s.max),
        s.n,
        short(s.mean),
        short(s.ci95)
    )
}
