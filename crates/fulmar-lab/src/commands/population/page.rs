//! The page: tables of numbers under headings, in Markdown.

use crate::experiment::COMMIT;

/// What was found.
pub(super) struct Page {
    pub(super) profile: String,
    pub(super) is_quick: bool,
    pub(super) tables: Vec<Table>,
}

/// One table.
pub(super) struct Table {
    pub(super) name: String,
    pub(super) about: String,
    /// Without the first, which names the row.
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<(String, Vec<f64>)>,
}

impl Page {
    /// As Markdown.
    pub(super) fn markdown(&self) -> String {
        let quick = if self.is_quick { " --quick" } else { "" };
        let mut text = format!(
            "# The population: {}\n\n`fulmar-lab population --profile {}{quick}`, commit {COMMIT}, \
             all of it in virtual time.\n",
            self.profile, self.profile
        );
        self.tables.iter().for_each(|table| table.write(&mut text));
        text
    }
}

impl Table {
    fn write(&self, text: &mut String) {
        text.push_str(&format!("\n## {}\n\n{}\n\n", self.name, self.about));
        text.push_str(&format!("| | {} |\n", self.columns.join(" | ")));
        text.push_str(&format!("|---|{}\n", "---|".repeat(self.columns.len())));
        for (name, values) in &self.rows {
            let values: Vec<String> = values.iter().map(|&value| digits(value)).collect();
            text.push_str(&format!("| {name} | {} |\n", values.join(" | ")));
        }
    }
}

/// Three digits, or whole numbers.
fn digits(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 && value.abs() >= 10.0 => format!("{value:.0}"),
        large if large >= 100.0 => format!("{value:.0}"),
        large if large >= 10.0 => format!("{value:.1}"),
        large if large >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_its_command_its_commit_and_its_figures() {
        let table = Table {
            name: "a few".into(),
            about: "Shares.".into(),
            columns: vec!["share".into(), "packets".into()],
            rows: vec![("`--loss 2%`".into(), vec![0.12345, 1234.0])],
        };
        let page = Page { profile: "auto".into(), is_quick: true, tables: vec![table] }.markdown();
        assert!(page.contains("`fulmar-lab population --profile auto --quick`"), "{page}");
        assert!(page.contains(COMMIT) && page.contains("\n## a few\n\nShares.\n"), "{page}");
        assert!(
            page.ends_with("| | share | packets |\n|---|---|---|\n| `--loss 2%` | 0.123 | 1234 |\n"),
            "{page}"
        );
    }
}
