//! Two pages side by side: which figures differ.

/// Figures differ if they are farther apart than this part of the larger one ..
const PART: f64 = 0.02;
/// .. and than this.
const LEAST: f64 = 0.005;

/// A figure of a page: its table, its row, its column.
#[derive(Clone, Debug, PartialEq)]
struct Cell {
    place: [String; 3],
    value: f64,
}

/// One line for each figure that differs or that only one page has.
pub(super) fn lines(before: &str, after: &str) -> Vec<String> {
    let (before, after) = (cells(before), cells(after));
    let mut lines = Vec::new();
    let mut same = 0_usize;
    for cell in &after {
        match before.iter().find(|old| old.place == cell.place) {
            None => lines.push(format!("{}: {} is new", cell.place.join(", "), cell.value)),
            Some(old) if differs(old.value, cell.value) => {
                lines.push(format!("{}: {} -> {}", cell.place.join(", "), old.value, cell.value));
            }
            Some(_) => same += 1,
        }
    }
    for old in before.iter().filter(|old| !after.iter().any(|cell| cell.place == old.place)) {
        lines.push(format!("{}: {} is gone", old.place.join(", "), old.value));
    }
    lines.push(format!("{same} figures are the same within {LEAST} or {} %", PART * 100.0));
    lines
}

fn differs(before: f64, after: f64) -> bool {
    let apart = (before - after).abs();
    // What is written has a last digit that may be rounded.
    apart > LEAST + 1e-9 && apart > PART * before.abs().max(after.abs())
}

/// The figures of all tables of a page. What is no table of numbers is passed over.
fn cells(page: &str) -> Vec<Cell> {
    let (mut table, mut columns) = (String::new(), Vec::new());
    let mut found = Vec::new();
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            (table, columns) = (name.into(), Vec::new());
            continue;
        }
        let Some(inner) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) else { continue };
        let words: Vec<&str> = inner.split('|').map(str::trim).collect();
        if columns.is_empty() {
            columns = words.iter().map(|word| (*word).to_owned()).collect();
            continue;
        }
        for (column, word) in columns.iter().zip(&words).skip(1) {
            if let Ok(value) = word.parse::<f64>() {
                found.push(Cell { place: [table.clone(), words[0].into(), column.clone()], value });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "# Page

text | with a bar

## one

| | share | jain |
|---|---|---|
| a | 0.95 | 0.99 |
| b | 0.5 | 1 |
";

    #[test]
    fn what_differs_is_said_with_its_place() {
        let after = BEFORE
            .replace("0.95", "0.90")
            .replace("| b | 0.5 | 1 |", "| c | 0.5 | 1 |")
            .replace("0.99", "0.987");
        assert_eq!(
            lines(BEFORE, &after),
            [
                "one, a, share: 0.95 -> 0.9",
                "one, c, share: 0.5 is new",
                "one, c, jain: 1 is new",
                "one, b, share: 0.5 is gone",
                "one, b, jain: 1 is gone",
                "1 figures are the same within 0.005 or 2 %",
            ]
        );
    }

    #[test]
    fn a_page_is_the_same_as_itself_and_one_without_tables_has_nothing() {
        assert_eq!(lines(BEFORE, BEFORE), ["4 figures are the same within 0.005 or 2 %"]);
        assert_eq!(lines("", "no table"), ["0 figures are the same within 0.005 or 2 %"]);
    }
}
