//! Reports: for each experiment CSV, JSON and SVG, and one static HTML page with published and measured values side by side
//! and the command that repeats each.

mod chapter;
mod charts;
mod html;
pub mod svg;
mod words;

use std::fs;
use std::io;
use std::path::Path;

pub use chapter::{Chapter, Row};

/// Writes the report into a folder.
///
/// # Errors
/// If something cannot be written.
pub fn write(chapters: &[Chapter], folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut page = html::Page::new();
    for chapter in chapters {
        let name = &chapter.experiment.name;
        fs::write(folder.join(format!("{name}.csv")), chapter.to_csv())?;
        fs::write(folder.join(format!("{name}.json")), serde_json::to_string_pretty(&chapter.rows)?)?;
        let charts = charts::of(chapter);
        let mut drawings = Vec::new();
        for (index, chart) in charts.iter().enumerate() {
            let drawing = chart.to_svg();
            let suffix = if index == 0 { String::new() } else { format!("-{}", index + 1) };
            fs::write(folder.join(format!("{name}{suffix}.svg")), &drawing)?;
            drawings.push(drawing);
        }
        page.add(chapter, &drawings);
    }
    fs::write(folder.join("index.html"), page.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, Mode, Results, run};

    const TEXT: &str = "title = 'A <test>'\nsource = 'nowhere'\nduration = '400ms'\nrepetitions = 2\nseries = '50ms'\n\
        measures = ['goodput_mbps', 'wire_ratio']\n[link]\nrate = '5M'\nrtt = '10ms'\n[[flow]]\nsender = 'cubic'\n\
        [sweep]\nloss = ['0%', '2%']\nsender = ['cubic', 'auto']\n\
        [[published]]\nat = { loss = '0%', sender = 'cubic' }\nvalue = 4.5\nmin = 100\n";

    #[test]
    fn a_report_has_everything_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let experiment = Experiment::parse("t.toml", TEXT).unwrap();
        let mut results = Results::open(folder.path().join("t"), TEXT).unwrap();
        run(&experiment, Mode::Full, &mut results, &|_| {}).unwrap();
        let chapter = Chapter::new(experiment, results).unwrap();
        assert_eq!(chapter.rows.len(), 4);
        assert_eq!(chapter.outside_bounds().count(), 1);
        let out = folder.path().join("report");
        write(&[chapter], &out).unwrap();
        let csv = fs::read_to_string(out.join("t.csv")).unwrap();
        assert_eq!(csv.lines().count(), 1 + 4);
        assert!(csv.starts_with("loss,sender,runs,goodput_mbps_mean,"), "{csv}");
        let page = fs::read_to_string(out.join("index.html")).unwrap();
        for expected in [
            "A &lt;test&gt;",
            "nowhere",
            "<svg",
            "4.5",
            "fulmar-lab run experiments/t.toml",
            "fulmar-lab sim --rate 5M",
        ] {
            assert!(page.contains(expected), "{expected}");
        }
        assert!(
            !page.contains("<script") && !page.contains("http://")
                || page.contains("http://www.w3.org/2000/svg")
        );
        let rows: Vec<serde_json::Value> =
            serde_json::from_slice(&fs::read(out.join("t.json")).unwrap()).unwrap();
        assert_eq!(rows[0]["published"], 4.5);
    }
}
