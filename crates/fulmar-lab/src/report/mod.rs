//! Reports: for each experiment CSV, JSON and SVG, one static HTML page, a page for each source, and the
//! table of verdicts.
//!
//! Tables and pages are kept in the tree, and the pictures over time that a source has as well; JSON, the
//! other pictures and the HTML page are made when somebody wants them.

mod chapter;
mod charts;
mod command;
mod html;
mod page;
mod row;
pub mod svg;
mod table;
pub mod verdicts;
mod words;

use std::fs;
use std::io;
use std::path::Path;

pub use chapter::Chapter;
pub use row::Row;
use verdicts::Register;

/// Writes the report into a folder.
///
/// # Errors
/// If something cannot be written.
pub fn write(chapters: &[Chapter], register: &Register, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut whole = html::Page::new();
    for chapter in chapters.iter().filter(|chapter| chapter.is_measured()) {
        let name = &chapter.experiment.name;
        fs::write(folder.join(format!("{name}.csv")), chapter.to_csv().map_err(io::Error::other)?)?;
        fs::write(folder.join(format!("{name}.json")), serde_json::to_string_pretty(&chapter.rows)?)?;
        let mut drawings = Vec::new();
        for (index, chart) in charts::of(chapter).iter().enumerate() {
            let drawing = chart.to_svg();
            let suffix = if index == 0 { String::new() } else { format!("-{}", index + 1) };
            fs::write(folder.join(format!("{name}{suffix}.svg")), &drawing)?;
            drawings.push(drawing);
        }
        whole.add(chapter, &drawings);
        for (place, chart) in charts::kept(chapter) {
            fs::create_dir_all(folder.join(charts::CURVES))?;
            fs::write(folder.join(place), chart.to_svg())?;
        }
    }
    fs::write(folder.join("index.html"), whole.finish())?;
    for source in &register.source {
        let own: Vec<&Chapter> =
            chapters.iter().filter(|c| register.source_of(&c.experiment) == Some(&source.key)).collect();
        if !own.is_empty() {
            fs::write(folder.join(format!("{}.md", source.key)), page::of(&source.title, &own, folder))?;
        }
    }
    if !register.source.is_empty() {
        fs::write(folder.join("README.md"), verdicts::page(register, chapters))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
